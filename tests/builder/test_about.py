"""Telling the articles of an event from those of others."""

import random
import tomllib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import about
from builder.about import Citation, relevance
from builder.languages import fold, language_of

PAIRS: list[dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "about/relevance.toml").read_text("utf-8")
)["case"]
TEXT_FLAGS = (
    "bot_wall cookie_page login_page paywall_stub error_page parked_domain boilerplate mojibake "
    "text_off_event text_of_another_event"
).split()


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case["name"])
def test_relevance(case: dict[str, str]) -> None:
    own = relevance(Citation(case["event"], case["own"], case["start"]))
    other = relevance(Citation(case["event"], case["other"], case["start"]))
    assert other < about.ABOUT_EVENT < own
    assert own - other > 0.4
    if case["name"] == "English":
        assert other < about.OFF_EVENT


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case["name"])
def test_of_all_articles_its_own_fits_best(case: dict[str, str]) -> None:
    texts = [other[kind] for other in PAIRS for kind in ("own", "other")]
    cited = Citation(case["event"], "", case["start"])
    assert max(texts, key=lambda text: relevance(replace(cited, article=text))) == case["own"]


@pytest.mark.parametrize(
    ("written", "language"),
    [
        ("16 June 2019", "en"),
        ("June 16th, 2019", "en"),
        ("2019-06-16", "en"),
        ("16/06/2019", "en"),
        ("16.06.2019", "de"),
        ("16. Juni 2019", "de"),
        ("16 de junho de 2019", "pt"),
        ("16 de junio del 2019", "es"),
        ("le 16 juin 2019", "fr"),
        ("16 июня 2019 года", "ru"),
        ("16 червня 2019 року", "uk"),
        ("16 Haziran 2019", "tr"),
        ("2019年6月16日", "zh"),
        ("16 Juni 2019", "id"),
        ("16 जून 2019", "hi"),
    ],
)
def test_dates_in_texts(written: str, language: str) -> None:
    assert (2019, 6, 16) in about._dates(fold(f"… {written} …"), language)


def test_the_date_counts() -> None:
    event = "A storm hits the coast near Lindholm."
    same = "A storm hit the coast near Lindholm. Published 5 January 2019."
    later = same.replace("5 January 2019", "11 October 2021")
    first = relevance(Citation(event, same, "2019-01-04"))
    assert first > relevance(Citation(event, later, "2019-01-04"))
    assert first == relevance(Citation(event, same, "2019-01-02", "2019-01-06"))
    assert relevance(Citation(event, same, "2019-01")) > relevance(
        Citation(event, later, "2019-01")
    )


@pytest.mark.parametrize("start", ["2019-02-30", "nonsense", "", "0000-00", "2019"])
def test_a_date_that_cannot_be_read_is_left_out(start: str) -> None:
    event, text = "A storm hits Lindholm.", "A storm hit Lindholm on 5 January 2019."
    assert relevance(Citation(event, text, start)) == relevance(Citation(event, text))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200), st.text(max_size=400), st.none() | st.dates().map(str))
def test_relevance_of_anything(event: str, text: str, start: str | None) -> None:
    assert 0 < relevance(Citation(event, text, start, start)) < 1


def test_an_event_without_terms_is_undecided() -> None:
    assert relevance(Citation("", "A text on anything.")) == 0.5


def test_shared_texts() -> None:
    found = about.shared_texts(
        [
            Citation("A bridge is opened.", "One text\n of a site."),
            Citation("A bridge is opened.", "One text of a site."),
            Citation("A harbour is sold.", "One text of a site."),
            Citation("A storm hits.", "Another text."),
            Citation("A storm hits.", "Another text."),
        ]
    )
    assert found == [True, True, True, False, False]


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_shifted_citations(offset: int) -> None:
    names = "Anders Berta Caesar Dora Emil Frida Gustav Hedda Ivar".split()
    events = [
        f"{name} wins the race of Port {name[::-1].title()} in {n + 20} hours"
        for n, name in enumerate(names)
    ]
    texts = [f"{event}, to the joy of the town." for event in events]
    count = len(events)
    cited = [
        Citation(event, texts[min(max(n - offset, 0), count - 1)]) for n, event in enumerate(events)
    ]
    alarm = about.shift(cited)
    if offset:
        assert alarm is not None
        assert alarm.offset == offset
        assert alarm.events >= count - 2
    else:
        assert alarm is None


@pytest.mark.slow
def test_native_texts_against_others_of_the_region(
    rows: dict[tuple[str, int], Citation], audit: dict[str, set[tuple[str, int]]]
) -> None:
    """Measured: AUC .946 without Chinese, .90 in Chinese."""
    native = {"Argentina": "es", "Colombia": "es", "Ethiopia": "am", "France": "fr"}
    native |= {"Germany": "de", "Portugal": "pt", "Russia": "ru", "Turkey": "tr", "China": "zh"}
    native["the_Democratic_Republic_of_the_Congo"] = "fr"
    flagged = set().union(*(audit[name] for name in TEXT_FLAGS))
    regions: dict[str, list[Citation]] = defaultdict(list)
    for key, row in rows.items():
        if key not in flagged and language_of(row.article) == native.get(key[0], "-"):
            regions[key[0]].append(row)
    draw = random.Random(0)
    own: list[float] = []
    others: list[float] = []
    for region, citations in regions.items():
        if region == "China":
            continue
        for cited in citations:
            own.append(relevance(cited))
            for other in draw.sample(citations, min(8, len(citations))):
                if other.article != cited.article:
                    others.append(relevance(replace(other, article=cited.article)))
    assert len(own) > 300
    ordered = sorted(others)
    wins = sum((bisect_left(ordered, x) + bisect_right(ordered, x)) / 2 for x in own)
    assert wins / len(own) / len(others) >= 0.93
