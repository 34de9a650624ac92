"""builder.wikitext: layouts as data, the generated pages with truth, fuzzing."""

import importlib.util
import itertools
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builder.records import Event, Page
from builder.wikitext import Parsed, parse
from tiebe.records import to_row

CASES = sorted((Path(__file__).parent / "wikitext").glob("*.json"))
FIGURES = (
    *("recall", "precision", "start", "end", "end_range", "ref_recall_all", "ref_precision"),
    *("text_exact", "archive_url", "title", "publisher", "published"),
)
MARKUP = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|<ref|</|thumb\||https?:|\[1\]|''|  |^[\s–—,:-]|[\ue000-\ue003]", re.I
)


def read(wikitext: str, year: int = 2019) -> Parsed:
    return parse(Page("Portugal", year, f"{year} in Portugal", None, None, wikitext))


def events(text: str, year: int = 2019) -> tuple[Event, ...]:
    return read(f"==Events==\n===January===\n{text}", year).events


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_layout(path: Path) -> None:
    expected = json.loads(path.read_text("utf-8"))
    parsed = read(path.with_suffix(".wiki").read_text("utf-8"), expected["year"])
    got = [
        {
            "start": event.start,
            "end": event.end,
            "text": event.text,
            "references": [reference.url for reference in event.references],
        }
        for event in parsed.events
    ]
    urls = [
        [r if isinstance(r, str) else r["url"] for r in e["references"]] for e in expected["events"]
    ]
    assert got == [e | {"references": u} for e, u in zip(expected["events"], urls, strict=True)]
    for event, wanted in zip(parsed.events, expected["events"], strict=True):
        for reference, fields in zip(event.references, wanted["references"], strict=True):
            assert isinstance(fields, str) or to_row(reference) == fields
    assert [[s.reason, s.text] for s in parsed.skipped] == expected["skipped"]
    assert dict(parsed.unknown_templates) == expected["unknown_templates"]
    for warning in expected["warnings"]:
        assert any(warning in w for w in parsed.warnings), parsed.warnings
    if not expected["warnings"]:
        assert parsed.warnings == ()


def test_every_layout_has_a_case() -> None:
    codes = {path.stem for path in CASES}
    for group, count in {"A": 15, "B": 15, "C": 8, "D": 9, "E": 5, "F": 10, "G": 3, "H": 7}.items():
        assert {f"{group}{n}" for n in range(1, count + 1)} <= codes


def test_precision_follows_the_start() -> None:
    found = events("* 4 January – A\n* January – B\n* 5–7 January – C\n* January–March – D")
    assert [(e.start, e.end, e.precision) for e in found] == [
        ("2019-01-04", None, "day"),
        ("2019-01", None, "month"),
        ("2019-01-05", "2019-01-07", "day"),
        ("2019-01", "2019-03", "month"),
    ]


def test_an_undated_line_is_an_event_without_a_start() -> None:
    (skipped,) = read("==Events==\n* A line<ref>https://example.org/a</ref>").skipped
    assert skipped.reason == "undated"
    assert skipped.event is not None
    assert (skipped.event.start, skipped.event.precision) == (None, "none")
    assert [r.url for r in skipped.event.references] == ["https://example.org/a"]


def test_events_lead_back_to_their_page() -> None:
    page = Page("Portugal", 2019, "2019 in Portugal", 77, None, "==Events==\n* 4 January – A")
    (event,) = parse(page).events
    assert (event.page_id, event.page_title, event.page_revision) == (
        page.id,
        "2019 in Portugal",
        77,
    )


TOKENS = (
    *(
        "\n",
        "\n* ",
        "\n** ",
        "\n*: ",
        "\n:",
        "\n;",
        "\n# ",
        "\n== Events ==\n",
        "\n===January===\n",
    ),
    *("[[", "]]", "{{", "}}", "[", "]", "{", "}", "|", "=", "==", "'", "''", "'''", "<", ">", "&"),
    *(
        "<ref>",
        "</ref>",
        "<ref name=a/>",
        '<ref name="a">',
        "<ref",
        "{{r|a}}",
        "{{efn|",
        "#tag:ref|",
    ),
    *("<!--", "-->", "{|", "|}", "|-", "<div>", "</div>", "<br>", "<li>", "</li>", "<ul>", "</ul>"),
    *("File:", "thumb|", "Category:", "https://example.org/a", "http:", "[https://example.org b]"),
    *(
        "4 January",
        "January 4",
        "31 June",
        "4",
        "4–6",
        "January",
        "December",
        "2019",
        ", 2020",
        "May",
    ),
    *(
        " – ",
        "–",
        "-",
        " to ",
        ": ",
        ", ",
        " ",
        "\xa0",
        "\\",
        "text",
        "A sentence.",
        "[1]",
        "__TOC__",
    ),
    *("&nbsp;", "&ndash;", "&#10;", "&#0;", "&lt;", "\ue000", "\ue0010", "\u2028", "\r\n", "\x00"),
    *("{{nowrap|", "{{convert|", "{{cite web|url=", "{{frac}}", "{{as of|", "{{date|", "{{snd}}"),
    *(
        "{{convert|1e999|km|mi}}",
        "{{convert|-|km}}",
        "{{ubl|",
        "{{start date|",
        "archive-url=",
        "nan",
    ),
    *(
        "{{current events|2019|1|",
        "|content=",
        "{{us$|",
        "{{!}}",
        "{{=}}",
        "{{{1|",
        "}}}",
        "<nowiki>",
    ),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=60).map("".join))
@example("[]][x 4 January{}}{")
@example("=" * 300)
def test_fuzz(wikitext: str) -> None:
    for text in (wikitext, f"==Events==\n===January===\n* 4 January – {wikitext}"):
        parsed = read(text)
        for event in [*parsed.events, *(s.event for s in parsed.skipped if s.event)]:
            assert event.text
            assert not MARKUP.search(event.text), event.text
            for date in filter(None, (event.start, event.end)):
                assert re.fullmatch(r"20(18|19|20)-(0[1-9]|1[0-2])(-\d\d)?", date)
            assert event.end is None or (event.start is not None and event.end > event.start)
            for reference in event.references:
                assert re.match("https?://", reference.url)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_fuzz_of_any_text(text: str) -> None:
    for event in events(f"* 4 January – {text}"):
        assert not MARKUP.search(event.text), event.text


def scorer(shared: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("score", shared / "pages/score_events.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(shared: Path) -> dict[str, Parsed]:
    """The generated pages by stem, parsed."""
    found = {}
    for path in sorted((shared / "pages").glob("*.wiki")):
        truth = json.loads(path.with_suffix(".truth.json").read_text("utf-8"))
        page = Page(truth["region"], truth["year"], truth["page"], None, None, path.read_text())
        found[path.stem] = parse(page)
    return found


def test_generated_pages(shared: Path, pages: dict[str, Parsed], tmp_path: Path) -> None:
    """Every column of the scorer; 1.0 was measured on each, the issue asks for .995."""
    for stem, parsed in pages.items():
        lines = [json.dumps(to_row(event)) for event in parsed.events]
        (tmp_path / f"{stem}.jsonl").write_text("\n".join(lines), "utf-8")
    result = scorer(shared).score(tmp_path, shared / "pages")
    assert {
        name: result["overall"][name] for name in FIGURES if result["overall"][name] < 0.999
    } == {}
    assert result["false_positives"] == {}


def test_no_markup_in_generated_pages(pages: dict[str, Parsed]) -> None:
    texts = [event.text for parsed in pages.values() for event in parsed.events]
    assert len(texts) > 3000
    assert [text for text in texts if MARKUP.search(text) and "  " not in text] == []
    assert [text for text in texts if "  " in text] == []


def test_no_template_of_generated_pages_is_unknown(pages: dict[str, Parsed]) -> None:
    assert {n for parsed in pages.values() for n in parsed.unknown_templates} == set()


def fragment(shared: Path, name: str, year: int) -> Parsed:
    return read((shared / "wikitext" / name).read_text("utf-8"), year)


def test_fragment_of_a_month(shared: Path) -> None:
    (event,) = fragment(shared, "2019_in_the_United_Kingdom.fragment.wiki", 2019).events
    assert (event.start, event.end, event.precision) == ("2019-03", None, "month")
    assert event.text.startswith("The Festival meeting at Cheltenham")
    assert [r.url[:42] for r in event.references] == ["https://www.theguardian.com/sport/live/201"]


def test_fragment_of_a_lead(shared: Path) -> None:
    assert fragment(shared, "2021.fragment.wiki", 2021).events == ()


def test_fragment_of_a_portal_day(shared: Path) -> None:
    found = fragment(shared, "Portal_Current_events_2017_May_5.wiki", 2017).events
    assert [(e.start, len(e.references)) for e in found] == [
        ("2017-05-05", 2),
        ("2017-05-05", 3),
        ("2017-05-05", 1),
        ("2017-05-05", 1),
    ]
    assert [e.text.startswith("Syrian Civil War: ") for e in found] == [True, True, False, False]
    assert found[2].references[0].title == "(Radio Free Europe/Radio Liberty)"


def test_parsing_twice_is_parsing_once(pages: dict[str, Parsed], shared: Path) -> None:
    path = next(iter((shared / "pages").glob("2021_in_World*.wiki")))
    page = Page("World", 2021, "2021", None, None, path.read_text("utf-8"))
    assert [to_row(e) for e in parse(page).events] == [to_row(e) for e in parse(page).events]


def test_a_large_page_is_read_whole() -> None:
    lines = [
        f"* {1 + i % 28} January – Event {i}.<ref>{{{{cite news|url=https://example.org/{i}|title=T}}}}</ref>"
        for i in range(3000)
    ]
    found = events("\n".join(lines))
    assert len(found) == 3000
    assert all(len(event.references) == 1 for event in found)
    assert list(itertools.islice((e.references[0].title for e in found), 1)) == ["T"]
