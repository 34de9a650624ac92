"""builder.citations: what a reference says, field by field."""

from pathlib import Path

import pytest

from builder.records import Page, Reference
from builder.wikitext import parse


def cited(content: str, rest: str = "") -> tuple[Reference, ...]:
    """The references of an event that cites `content`."""
    text = f"==Events==\n* 4 January – A storm.<ref>{content}</ref>\n{rest}"
    (event,) = parse(Page("Portugal", 2019, "2019 in Portugal", None, None, text)).events
    assert event.text == "A storm."
    return event.references


URL = "https://example.org/a"
COPY = "https://web.archive.org/web/20190105000000/https://example.org/a"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # F1: the template's fields; a name in any case, with links, spaces and newlines
        (
            "{{Cite news\n | url = https://example.org/a?r=AU&IR=T\n"
            " | title = A ''storm'' {{!}} News\n"
            " | work = [[The Herald (Porto)|The Herald]]\n | last1 = Silva | date = 10 April 2019"
            f"\n | archive-date = May 1, 2019 | archive-url = {COPY} | url-status = live\n}}}}",
            Reference(
                "https://example.org/a?r=AU&IR=T",
                COPY,
                "A storm | News",
                "The Herald",
                "2019-04-10",
            ),
        ),
        ("{{cite web|url=//example.org/a|website=''Post''}}", Reference(URL, publisher="Post")),
        (
            f"{{{{cite web|url={URL}|title=A|publisher=P|newspaper=N|agency=G}}}}",
            Reference(URL, title="A", publisher="N"),
        ),
        (
            f"{{{{cite web|url={URL}|title={{{{lang|pt|Uma [[cidade|praça]]}}}}}}}}",
            Reference(URL, title="Uma praça"),
        ),
        (
            f"{{{{cite book|chapter-url={URL}|chapter=C|year=2018}}}}",
            Reference(URL, title="C", published="2018"),
        ),
        # F2 and F3: links
        (URL, Reference(URL)),
        (f"[{URL}]", Reference(URL)),
        (f"[{URL} “A title”], ''Herald'', 3 May 2019", Reference(URL, title="A title")),
        (f'Herald: [{URL} The "best" of all]', Reference(URL, title='The "best" of all')),
        # F7: dead links and copies
        (
            f"{{{{cite web|url={URL}|archiveurl={COPY}|dead-url=yes|title=A}}}}{{{{dead link}}}}",
            Reference(URL, COPY, "A"),
        ),
        (f"{URL} {{{{webarchive|url={COPY}|date=2019}}}}", Reference(URL, COPY)),
        (f"{URL}{{{{webarchive|url={COPY}}}}}", Reference(URL, COPY)),
        (f"[{URL} A] {{{{webarchive|url={COPY}}}}}", Reference(URL, COPY, "A")),
        (f"{{{{cite web|url=|archive-url={COPY}|title=A}}}}", Reference(COPY, COPY, "A")),
        (f"{{{{cite web|url={COPY}|title=A}}}}", Reference(COPY, title="A")),
        (f"{{{{webarchive|url={COPY}}}}}", Reference(COPY)),
        # one document: its address and its copy
        (f"[{URL} A] [{COPY} Archived]", Reference(URL, COPY, "A")),
        (f"[{COPY} A] ([{URL} live])", Reference(URL, COPY, "A")),
        # F6: built links
        (
            "{{cite tweet|user=a_b|number=42|title=Hello|date=2019-01-04}}",
            Reference("https://twitter.com/a_b/status/42", title="Hello", published="2019-01-04"),
        ),
        (
            "{{cite journal|title=On rain|journal=[[Rain]]|doi=10.1000/ABC}}",
            Reference("https://doi.org/10.1000/ABC", title="On rain", publisher="Rain"),
        ),
        (f"{{{{cite journal|url={URL}|doi=10.1000/1}}}}", Reference(URL)),
        # F9
        (
            f"{{{{cite web|url= {URL}?b{{{{=}}}}c&amp;d |title=A}}}}",
            Reference(f"{URL}?b=c&d", title="A"),
        ),
        (f"{{{{cite web|url={URL} }}}}}}", Reference(URL)),
    ],
)
def test_fields(content: str, expected: Reference) -> None:
    assert cited(content) == (expected,)


@pytest.mark.parametrize(
    "content",
    [
        "Personal communication",
        "{{sfn|Silva|2019}}",
        "{{cite book|title=A|issn=1234-5678|oclc=9}}",
        "https://search.worldcat.org/issn/1234-5678",
        "[https://www.worldcat.org/oclc/9 A]",
        "{{ISSN|1234-5678}}",
        "{{cite web|url=www.example.org|title=No scheme}}",
        "{{cite tweet|user=a}}",
    ],
)
def test_what_is_no_reference(content: str) -> None:
    assert cited(content) == ()


def test_several_citations_in_one_reference() -> None:
    found = cited(f"{{{{cite web|url={URL}|title=A}}}}; see also [https://example.org/b B]")
    assert [(r.url, r.title) for r in found] == [(URL, "A"), ("https://example.org/b", "B")]


def test_one_document_cited_twice_is_one_reference() -> None:
    found = cited(
        f"{{{{cite web|url={URL}|title=A}}}}</ref><ref>http://example.org/a/</ref><ref>{COPY}"
    )
    assert found == (Reference(URL, COPY, "A"),)


def test_the_first_definition_of_a_name_counts() -> None:
    text = "</ref><ref name=x/><ref>"
    rest = '==Notes==\n<ref name="x">https://example.org/1</ref><ref name=x>https://example.org/2</ref>'
    assert [r.url for r in cited(text, rest)] == ["https://example.org/1"]


def test_a_reference_made_by_a_parser_function() -> None:
    assert cited(f"</ref>{{{{#tag:ref|{URL}|name=y}}}}<ref>") == (Reference(URL),)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2019-04-10", "2019-04-10"),
        ("10 April 2019", "2019-04-10"),
        ("April 10, 2019", "2019-04-10"),
        ("10 Apr 2019", "2019-04-10"),
        ("April 2019", "2019-04"),
        ("2019-04", "2019-04"),
        ("2019", "2019"),
        ("Spring 2019", "2019"),
        ("10–12 April 2019", "2019-04-10"),
        ("30 February 2019", "2019-02"),
        ("2019-02-30", "2019-02"),
        ("n.d.", None),
        ("", None),
    ],
)
def test_published(date: str, expected: str | None) -> None:
    (reference,) = cited(f"{{{{cite web|url={URL}|date={date}}}}}")
    assert reference.published == expected


def test_citation_of_the_2021_fragment(shared: Path) -> None:
    lead = (shared / "wikitext" / "2021.fragment.wiki").read_text("utf-8")
    (found,) = cited(lead[lead.index("<ref>") + 5 : lead.index("</ref>")])
    assert found.url == (
        "https://www.businessinsider.com/"
        "major-events-cancelled-or-postponed-due-to-the-coronavirus-2020?r=AU&IR=T"
    )
    assert found.archive_url == f"https://web.archive.org/web/20230926081208/{found.url}"
    assert found.title is not None
    assert found.title.startswith("Here are the latest major events")
    assert (found.publisher, found.published) == ("Business Insider", "2020-04-10")
