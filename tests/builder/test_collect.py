"""builder.collect: a folder, a wiki with its etiquette, settled revisions, hostile pages."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import wiki_server
from wiki_server import Wiki, days_ago

from builder.collect import (
    Folder,
    MediaWiki,
    PagesSettings,
    Revision,
    Source,
    early_ends,
    open_source,
    read,
    settled,
    stage,
    statistics,
)
from builder.records import Event, Page, RegionYear
from builder.wikitext import Parsed, parse
from tiebe.engine import Wait, Workers, run_stage
from tiebe.errors import FetchError, SettingsError
from tiebe.journal import Journal
from tiebe.records import Drop

BRAZIL = RegionYear("Brazil", 2019)
TEXT = "==Events==\n===January===\n* 4 January – A dam breaks.<ref>https://example.org/dam</ref>\n"


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(1, preload=("builder.wikitext",)) as workers:
        yield workers


@pytest.fixture
def wiki() -> Iterator[Wiki]:
    with wiki_server.running(Wiki()) as wiki:
        yield wiki


def settings(wiki: Wiki, **changes: object) -> PagesSettings:
    return replace(PagesSettings(source=wiki.url, contact="me@example.org"), **changes)  # type: ignore[arg-type]


def collect(
    source: Source, wanted: list[RegionYear], folder: Path, workers: Workers
) -> tuple[list[Page | Event], list[Drop], dict[str, Any]]:
    with Journal(folder) as journal:
        outcome = run_stage(stage(source, workers), wanted, journal, progress=False)
        return list(outcome.records()), list(outcome.drops()), outcome.counts()


# --- the folder


def test_folder(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "2019_in_Brazil.s1.wiki").write_text(TEXT, "utf-8")
    (tmp_path / "2020_in_World.wiki").write_text(TEXT, "utf-8")
    source = open_source(PagesSettings(source=f"folder:{tmp_path}"))
    wanted = [BRAZIL, RegionYear("World", 2020), RegionYear("Brazil", 2020)]
    records, drops, counts = collect(source, wanted, tmp_path / "journal", workers)
    pages = [record for record in records if isinstance(record, Page)]
    events = [record for record in records if isinstance(record, Event)]
    assert [(p.title, p.revision, p.retrieved) for p in pages] == [
        ("2019 in Brazil", None, None),
        ("2020", None, None),
    ]
    assert [(e.page_id, e.start) for e in events] == [
        (pages[0].id, "2019-01-04"),
        (pages[1].id, "2020-01-04"),
    ]
    assert [(d.reason, d.record_id, d.detail) for d in drops] == [
        ("missing", wanted[2].id, "2020 in Brazil")
    ]
    assert (counts["in"], counts["parents"], counts["dropped"]) == (3, 2, {"missing": 1})


def test_a_page_is_followed_by_its_events(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "2019_in_Brazil.wiki").write_text(TEXT, "utf-8")
    page, event = stage(Folder(tmp_path), workers).run(BRAZIL)
    assert isinstance(page, Page)
    assert isinstance(event, Event)
    assert event.references[0].url == "https://example.org/dam"


def test_folder_key_follows_the_files(tmp_path: Path) -> None:
    file = tmp_path / "2019_in_Brazil.wiki"
    file.write_text(TEXT, "utf-8")
    before = Folder(tmp_path).params
    file.write_text(TEXT + "* 5 January – More.\n", "utf-8")
    assert Folder(tmp_path).params != before


def test_folder_says_which_of_two_files_it_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for seed in ("s1", "s2"):
        (tmp_path / f"2019_in_Brazil.{seed}.wiki").write_text(seed, "utf-8")
    page = Folder(tmp_path).page(BRAZIL)
    assert isinstance(page, Page)
    assert page.wikitext == "s1"
    assert "2019_in_Brazil.s2.wiki is not read" in caplog.text


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no folder"):
        open_source(PagesSettings(source=f"folder:{tmp_path / 'nowhere'}"))


def test_the_same_line_twice_is_one_event(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "2019_in_Brazil.wiki").write_text(
        TEXT + "* 4 January – A dam breaks<ref>https://example.org/b</ref>", "utf-8"
    )
    _, event = stage(Folder(tmp_path), workers).run(BRAZIL)
    assert [r.url for r in event.references] == ["https://example.org/dam", "https://example.org/b"]


# --- the wiki


def test_wiki(wiki: Wiki, tmp_path: Path, workers: Workers) -> None:
    wiki.pages["2019 in Brazil"] = [(7, days_ago(90), "old"), (9, days_ago(30), TEXT)]
    wiki.pages["2019"] = [(11, days_ago(60), TEXT)]
    wanted = [BRAZIL, RegionYear("World", 2019), RegionYear("Portugal", 2019)]
    source = open_source(settings(wiki), wanted)
    records, drops, _ = collect(source, wanted, tmp_path, workers)
    pages = [record for record in records if isinstance(record, Page)]
    assert [(p.region, p.title, p.revision) for p in pages] == [
        ("Brazil", "2019 in Brazil", 9),
        ("World", "2019", 11),
    ]
    assert all(p.retrieved and p.retrieved.startswith(f"{datetime.now(UTC):%Y-}") for p in pages)
    assert [e.page_revision for e in records if isinstance(e, Event)] == [9, 11]
    assert [(d.reason, d.detail) for d in drops] == [("missing", "2019 in Portugal")]


def test_requests_have_manners(wiki: Wiki) -> None:
    wiki.pages["2019 in Brazil"] = [(9, days_ago(30), TEXT)]
    MediaWiki(settings(wiki)).page(BRAZIL)
    assert len(wiki.requests) == 2
    for params, headers in wiki.requests:
        assert params["maxlag"] == "5"
        assert headers["Accept-Encoding"] == "gzip"
        assert headers["User-Agent"].startswith("tiebe/")
        assert "me@example.org" in headers["User-Agent"]


def test_titles_are_asked_for_together(wiki: Wiki) -> None:
    wanted = [RegionYear("Brazil", year) for year in range(1960, 2020)]
    for i, item in enumerate(wanted):
        wiki.pages[f"{item.year} in Brazil"] = [(i + 1, days_ago(30), f"text {i}")]
    source = MediaWiki(settings(wiki), wanted)
    pages = [source.page(item) for item in wanted]
    assert [p.wikitext for p in pages if isinstance(p, Page)] == [f"text {i}" for i in range(60)]
    asked = [params for params, _ in wiki.requests if "titles" in params]
    assert [len(params["titles"].split("|")) for params in asked] == [50, 10]
    # 50 texts come in five parts, the other ten in one.
    assert len([params for params, _ in wiki.requests if "revids" in params]) == 6


def test_a_contact_is_required(wiki: Wiki) -> None:
    with pytest.raises(SettingsError, match=r"pages\.contact is empty.*contact = "):
        open_source(settings(wiki, contact=" "))


@pytest.mark.parametrize(
    ("refusal", "seconds"),
    [
        ((200, "maxlag", "3"), 3),
        ((429, "", "7"), 7),
        ((503, "", ""), 5),
        ((200, "ratelimited", ""), 5),
        ((429, "", "soon"), 5),
    ],
)
def test_a_wiki_is_left_alone_as_long_as_it_says(
    wiki: Wiki, refusal: tuple[int, str, str], seconds: float
) -> None:
    wiki.refusals = [refusal]
    with pytest.raises(Wait) as caught:
        MediaWiki(settings(wiki)).page(BRAZIL)
    assert caught.value.seconds == seconds
    assert caught.value.owner == "127.0.0.1"
    assert isinstance(caught.value.cause, FetchError)
    assert len(wiki.requests) == 1


def test_retry_after_may_be_a_date(wiki: Wiki) -> None:
    wiki.refusals = [(429, "", formatdate(datetime.now(UTC).timestamp() + 30, usegmt=True))]
    with pytest.raises(Wait) as caught:
        MediaWiki(settings(wiki)).page(BRAZIL)
    assert 25 < caught.value.seconds <= 30


def test_a_stage_goes_on_after_waiting(wiki: Wiki, tmp_path: Path, workers: Workers) -> None:
    wiki.pages["2019 in Brazil"] = [(9, days_ago(30), TEXT)]
    wiki.refusals = [(200, "maxlag", "0"), (429, "", "0")]
    records, drops, _ = collect(MediaWiki(settings(wiki)), [BRAZIL], tmp_path, workers)
    assert len(records) == 2
    assert drops == []


def test_other_errors_are_told(wiki: Wiki) -> None:
    wiki.refusals = [(200, "badtoken", "")]
    with pytest.raises(FetchError, match="badtoken"):
        MediaWiki(settings(wiki)).page(BRAZIL)
    wiki.refusals = [(404, "", "")]
    with pytest.raises(FetchError, match="404") as caught:
        MediaWiki(settings(wiki)).page(BRAZIL)
    assert caught.value.status == 404


def test_an_unreachable_wiki_is_tried_again() -> None:
    dead = PagesSettings(source="http://127.0.0.1:9/api.php", contact="me@example.org")
    with pytest.raises(Wait) as caught:
        MediaWiki(dead).page(BRAZIL)
    assert "cannot be reached" in str(caught.value.cause)


def test_normalised_titles_and_redirects(wiki: Wiki) -> None:
    wiki.pages["2019 in the Congo"] = [(3, days_ago(30), TEXT)]
    wiki.redirects["2019 in Zaire"] = "2019 in the Congo"
    page = MediaWiki(settings(wiki)).page(RegionYear("_Zaire_", 2019))
    assert isinstance(page, Page)
    assert (page.title, page.revision, page.region) == ("2019 in the Congo", 3, "_Zaire_")


@pytest.mark.parametrize("target", ["Zaire", "2019"])
def test_a_redirect_to_another_kind_of_page_is_no_page(wiki: Wiki, target: str) -> None:
    wiki.pages[target] = [(3, days_ago(30), TEXT)]
    wiki.redirects["2019 in Zaire"] = target
    drop = MediaWiki(settings(wiki)).page(RegionYear("Zaire", 2019))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.detail) == ("redirected", f"2019 in Zaire → {target}")


def test_the_newest_revision_must_have_stood(wiki: Wiki) -> None:
    wiki.pages["2019 in Brazil"] = [
        (1, days_ago(60), "older"),
        (2, days_ago(20), "good"),
        (3, days_ago(1), "vandalism"),
    ]
    page = MediaWiki(settings(wiki)).page(BRAZIL)
    assert isinstance(page, Page)
    assert (page.revision, page.wikitext) == (2, "good")
    page = MediaWiki(settings(wiki, settled_days=0)).page(BRAZIL)
    assert isinstance(page, Page)
    assert page.revision == 3


def test_a_day_to_come_makes_no_revision_older(wiki: Wiki) -> None:
    wiki.pages["2019 in Brazil"] = [(2, days_ago(20), "good"), (3, days_ago(1), "vandalism")]
    page = MediaWiki(settings(wiki, as_of="2999-01-01")).page(BRAZIL)
    assert isinstance(page, Page)
    assert page.revision == 2


def test_the_revision_of_a_day(wiki: Wiki) -> None:
    wiki.history_at_a_time = 2
    wiki.pages["2019 in Brazil"] = [
        (1, "2025-01-01T00:00:00Z", "first"),
        (2, "2025-04-01T00:00:00Z", "second"),
        (3, "2025-04-29T00:00:00Z", "vandalism"),
        (4, "2025-04-29T01:00:00Z", "reverted"),
        (5, "2025-05-01T00:00:00Z", "later"),
    ]
    page = MediaWiki(settings(wiki, as_of="2025-04-30")).page(BRAZIL)
    assert isinstance(page, Page)
    assert page.revision == 2
    page = MediaWiki(settings(wiki, as_of="2025-05-30")).page(BRAZIL)
    assert isinstance(page, Page)
    assert page.revision == 5
    drop = MediaWiki(settings(wiki, as_of="2024-12-30")).page(BRAZIL)
    assert isinstance(drop, Drop)
    assert drop.reason == "unsettled"


def test_a_hidden_revision_is_a_drop(wiki: Wiki) -> None:
    wiki.pages["2019 in Brazil"] = [(9, days_ago(30), TEXT)]
    wiki.hidden = {9}
    drop = MediaWiki(settings(wiki)).page(BRAZIL)
    assert isinstance(drop, Drop)
    assert drop.reason == "hidden"


NOW = datetime(2025, 4, 30, tzinfo=UTC)


def history(*ages: float) -> list[Revision]:
    return [Revision(i, NOW - timedelta(days=age)) for i, age in enumerate(ages, start=1)]


@pytest.mark.parametrize(
    ("ages", "chosen"),
    [
        ((8,), 1),
        ((6,), None),
        ((), None),
        ((1, 20), 2),
        ((6, 8, 30), 3),  # the second one was reverted after two days
        ((3, 10, 40), 2),
        ((1, 2, 3, 5.5, 6, 7, 9), 4),  # a busy page: what stood longest of late
        ((*range(2, 60, 2), 200), 1),  # all alike: the newest
    ],
)
def test_settled(ages: tuple[float, ...], chosen: int | None) -> None:
    found = settled(history(*ages), NOW, 7)
    assert (found.id if found else None) == chosen


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"as_of": "soon"}, "pages.as_of = 'soon'"),
        ({"settled_days": -1}, "pages.settled_days = -1"),
        ({"source": "ftp://x"}, "pages.source"),
        ({"years": (2020, 2019)}, "pages.years"),
        ({"contact": "a\nb"}, "pages.contact"),
    ],
)
def test_settings_are_checked(changes: dict[str, object], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        PagesSettings(**changes)  # type: ignore[arg-type]


# --- hostile pages


def page(wikitext: str) -> Page:
    return Page("Brazil", 2019, "2019 in Brazil", None, None, wikitext)


@pytest.mark.parametrize(
    ("wikitext", "reason"),
    [
        ("x" * 2_100_000, "too_large"),
        ("{{a|" * 20_000, "too_deep"),
        ("{{a|" * 10_000 + "}}" * 10_000, "too_deep"),
        # What the parser takes minutes for without any nesting: only the limit of time helps.
        ("==Events==\n* 4 January – " + "<div>" * 60_000, "too_slow"),
    ],
)
def test_hostile_pages_are_drops(wikitext: str, reason: str, workers: Workers) -> None:
    drop = read(page(wikitext), workers, seconds=1.5)
    assert isinstance(drop, Drop)
    assert drop.reason == reason
    assert drop.record_id == BRAZIL.id
    assert isinstance(read(page(TEXT), workers), Parsed)


def test_unclosed_templates_would_take_the_parser_long(workers: Workers) -> None:
    """Why nesting is looked at first: a tenth of the 80 kB of the issue is past a second."""
    drop = Drop("collect", BRAZIL.id, "too_deep", "2019 in Brazil: 4,000 nested templates")
    assert read(page("{{a|" * 4000), workers) == drop


def test_memory_is_limited() -> None:
    with Workers(1, megabytes=120, preload=("builder.wikitext",)) as small:
        assert isinstance(read(page(TEXT), small), Parsed)
        drop = read(page("==Events==\n" + "* 4 January – A [[link]].\n" * 60_000), small)
    assert isinstance(drop, Drop)
    assert drop.reason in ("too_big", "crashed")


def test_a_hostile_page_does_not_stop_the_stage(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "2018_in_Brazil.wiki").write_text("{{a|" * 20_000, "utf-8")
    (tmp_path / "2019_in_Brazil.wiki").write_text(TEXT, "utf-8")
    wanted = [RegionYear("Brazil", 2018), BRAZIL]
    records, drops, _ = collect(Folder(tmp_path), wanted, tmp_path / "journal", workers)
    assert len(records) == 2
    assert [drop.reason for drop in drops] == ["too_deep"]


# --- statistics


def busy_page(skip: int = 0) -> tuple[Event, ...]:
    lines = [
        f"* {day} {month} – Event {day}<ref>https://example.org/{month}/{day}</ref>"
        for number, month in enumerate(("January", "February", "March", "April"), start=1)
        for day in range(1, 29)
        if number != skip or day < 8
    ]
    return parse(page("==Events==\n" + "\n".join(lines))).events


def test_statistics() -> None:
    events = (*busy_page(), *parse(replace(page(TEXT), year=2020)).events)
    assert statistics(events) == [("Brazil", 2019, 112, 112), ("Brazil", 2020, 1, 1)]
    assert statistics(events, by_year=False) == [("Brazil", None, 113, 113)]
    assert statistics([]) == []


def test_early_ends() -> None:
    assert early_ends(busy_page()) == []
    assert early_ends(busy_page(skip=2)) == ["2019-02"]
    assert early_ends(busy_page(skip=4)) == ["2019-04"]
    assert early_ends(busy_page(skip=4), until="2019-04-09T00:00:00Z") == []
    assert early_ends(busy_page(skip=2)[:60]) == []


def test_an_early_end_is_logged(
    tmp_path: Path, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"* {d} {m} – A {d}" for m in ("January", "March") for d in range(1, 31)]
    lines += [f"* {d} February – B {d} {i}" for d in range(1, 6) for i in range(5)]
    (tmp_path / "2019_in_Brazil.wiki").write_text("==Events==\n" + "\n".join(lines), "utf-8")
    with caplog.at_level(logging.WARNING):
        list(stage(Folder(tmp_path), workers).run(BRAZIL))
    assert "2019 in Brazil: no event after 2019-02-15: is a list missing?" in caplog.text
