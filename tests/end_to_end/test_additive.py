"""A month later: a release on top of another pays for what is new or flagged, and for nothing else.

Of 500 events 10 % are edited, 5 % removed, 10 % new, and 5 % of the questions flagged.
"""

import dataclasses
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import scenario
from made_pages import Line, line, write_pages

from builder.matching import MAINTAINER
from builder.release import read_articles, read_changes, read_questions, reflag
from builder.review import read_decisions
from tiebe.records import Question
from tiebe.regions import REGIONS

pytestmark = pytest.mark.slow

SEED = 6
COUNT = 500
PAGES = [(region, year) for region in ("Brazil", "Turkey", "World") for year in (2023, 2024)]


@dataclass
class Months:
    """Two runs, and what was done to the pages between them."""

    first: Path
    second: Path
    old: list[Line]
    edited: Mapping[str, str]
    """Text of then to text of now."""
    removed: set[str]
    new: list[Line]
    flagged: set[str]
    """Ids of questions."""
    fetched: list[str]
    """URLs that the second run asked for."""
    paid: list[str]
    """Texts of events and questions that the second run asked models about."""
    scenario: scenario.Scenario

    def rows(self, run: Path, split: str = "english") -> dict[str, Question]:
        return {row.id: row for row in read_questions(run / "release", splits=[split])}

    @property
    def without(self) -> list[Line]:
        """Lines that the base has no question on."""
        known = {row.event_desc for row in self.rows(self.first).values()}
        return [one for one in self.old if one.text not in known] + self.new


def log(path: Path, key: str, start: int) -> list[str]:
    return [json.loads(row)[key] for row in path.read_text("utf-8").splitlines()[start:]]


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Months]:
    folder = tmp_path_factory.mktemp("additive")
    draw = random.Random(SEED)
    every = [line(number, draw, PAGES) for number in range(COUNT + COUNT // 10)]
    old, new = every[:COUNT], every[COUNT:]
    edited: dict[str, str] = {}
    now = []
    removed = set()
    for number, one in enumerate(old):
        if number % 10 == 3:
            words = one.text.rstrip(".")
            other = words.replace("the ", "The ", 1) + " that year."
            if number % 20 == 3:
                other = f"{words}, as local papers and two radio stations said in the evening news."
            edited[one.text] = other
            now.append(dataclasses.replace(one, text=other))
        elif number % 20 == 7:
            removed.add(one.text)
        else:
            now.append(one)
    pages = folder / "pages"
    write_pages(pages, old)
    told = [(one.text, [one.url]) for one in every]
    with scenario.scenario(folder, pages, PAGES, told, seed=SEED, version="2025.03") as s:
        first = s.new_run("first")
        s.build(first)
        rows = list(read_questions(first / "release"))
        settled = edited.keys() | removed
        ids = sorted(r.id for r in rows if r.language == "en" and r.event_desc not in settled)
        flagged = set(random.Random(SEED).sample(ids, COUNT // 20))
        flags = {
            (row.id, row.language): ("text_off_event",) if row.id in flagged else () for row in rows
        }
        reflag(first / "release", flags)
        write_pages(pages, now + new)
        before = [len(log(path, "t_in", 0)) for path in (s.articles_log, s.writer_log)]
        second = s.new_run("second", version="2025.04", base=str(first / "release"))
        s.build(second)
        fetched = log(s.articles_log, "url", before[0])
        paid = log(s.writer_log, "on", before[1])
        yield Months(first, second, old, edited, removed, new, flagged, fetched, paid, s)


COLUMNS = [f.name for f in dataclasses.fields(Question)]
NEW_IN_EACH = {"version", "mini", "flags"}


def test_what_did_not_change_is_byte_equal(months: Months) -> None:
    unchanged = 0
    for split in ("english", "native"):
        now = months.rows(months.second, split)
        for member, row in months.rows(months.first, split).items():
            if row.event_desc in months.removed or member in months.flagged:
                continue
            event = (
                {"event_id", "event_desc", "page_revision"}
                if (row.event_desc in months.edited)
                else set()
            )
            for column in set(COLUMNS) - NEW_IN_EACH - event:
                assert getattr(now[member], column) == getattr(row, column), column
            unchanged += split == "english" and not event
    assert unchanged >= 0.65 * COUNT
    texts = {row["article_id"]: row["text"] for row in read_articles(months.second / "release")}
    for row in read_articles(months.first / "release"):
        if row["article_id"] in texts and row["event_id"] not in months.flagged:
            assert texts[row["article_id"]] == row["text"]
    assert {row.article_id for row in months.rows(months.second).values()} == texts.keys()


def test_an_edited_event_keeps_its_question_and_gets_its_new_text(months: Months) -> None:
    now = months.rows(months.second)
    kept = [row for row in months.rows(months.first).values() if row.event_desc in months.edited]
    assert len(kept) >= 0.08 * COUNT
    for row in kept:
        assert now[row.id].event_desc == months.edited[row.event_desc]
        assert now[row.id].question == row.question and now[row.id].since == "2025.03"


def test_only_what_is_new_or_flagged_is_fetched_and_paid(months: Months) -> None:
    first = months.rows(months.first)
    flagged = [first[member] for member in months.flagged]
    wanted = [*months.without, *flagged]
    urls = {one.url if isinstance(one, Line) else one.source_url for one in wanted}
    robots = {urljoin(url, "/robots.txt") for url in urls}
    assert set(months.fetched) - robots <= urls
    assert {one.url for one in months.new} <= set(months.fetched)
    assert {row.source_url for row in flagged} <= set(months.fetched)
    texts = {one.text if isinstance(one, Line) else one.event_desc for one in wanted}
    texts |= {months.edited[text] for text in texts & months.edited.keys()}
    new = {q.question for q in months.rows(months.second).values() if q.since == "2025.04"}
    assert set(months.paid) <= texts | new
    assert {q for q in months.paid if q.startswith("Which name")} <= new
    assert max(Counter(months.paid).values()) <= 2  # a faulty translation is asked for once more


def test_flagged_questions_are_replaced_and_removed_events_withdrawn(months: Months) -> None:
    now = months.rows(months.second)
    assert not now.keys() & months.flagged
    replaces = {row.replaces: row for row in now.values() if row.replaces}
    assert replaces.keys() <= months.flagged and len(replaces) >= 0.8 * len(months.flagged)
    assert {row.since for row in replaces.values()} == {"2025.04"}
    native = months.rows(months.second, "native")
    for old, row in replaces.items():
        assert row.id != old
        if REGIONS[row.region].language:
            assert native[row.id].replaces == old
    assert not {row.event_desc for row in now.values()} & months.removed


def test_the_changelog_tells_it_all(months: Months) -> None:
    then, now = months.rows(months.first), months.rows(months.second)
    counts: Counter[tuple[str, str]] = Counter()
    told: dict[str, set[str]] = defaultdict(set)
    for change in read_changes(months.second / "release"):
        if change.version == "2025.04":
            counts[change.kind, change.reason] += change.count
            told[change.kind] |= set(change.ids)
    replaced = {row.replaces for row in now.values() if row.replaces}
    removed = {i for i, row in then.items() if row.event_desc in months.removed}
    assert told["changed"] == replaced
    assert told["withdrawn"] == removed | months.flagged - replaced
    assert counts["withdrawn", "event_removed"] == len(removed)
    assert counts["changed", "text_off_event"] == len(replaced)
    assert counts["added", ""] == len(now.keys() - then.keys()) - len(replaced)
    card = (months.second / "release" / "README.md").read_text("utf-8")
    assert f"| 2025.04 | withdrawn | {len(removed)} |" in card


def test_killed_in_the_middle_it_ends_with_the_same_bytes(months: Months) -> None:
    again = months.scenario.new_run("again", version="2025.04", base=str(months.first / "release"))
    whole = scenario.stages(months.second)
    for stage in ("retrieve", "translate"):
        months.scenario.kill_in(again, stage, max(1, whole[stage]["in"] // 2))
    months.scenario.build(again)
    assert scenario.release_files(again) == scenario.release_files(months.second)


def test_decisions_are_obeyed_and_carried_on(months: Months) -> None:
    """On a third release: nothing changed on the pages, a maintainer decided on three rows."""
    base = months.second / "release"
    then = months.rows(months.second)
    brazil = sorted(i for i, r in then.items() if r.region == "Brazil" and not r.replaces)
    keep, fix, gone, words, other = brazil[:5]
    rows = list(read_questions(base))
    flags = {(r.id, r.language): ("yes_no",) if r.id in (keep, other) else () for r in rows}
    reflag(base, flags)
    decided: list[dict[str, Any]] = [
        {"id": keep, "decision": "keep", "reason": "it is right"},
        {"id": fix, "decision": "fix", "language": "en", "reason": "typo"}
        | {"question": then[fix].question, "answer": "Another answer"},
        {"id": gone, "decision": "withdraw", "reason": "ambiguous"},
        {"id": words, "decision": "fix", "language": "pt"}
        | {"question": "Qual nome completou o relato de 2023?", "answer": "Nome"},
    ]
    text = "".join(json.dumps(row) + "\n" for row in decided)
    (base / "decisions.jsonl").write_text(text, "utf-8")
    start = len(log(months.scenario.writer_log, "on", 0))
    run = months.scenario.new_run("third", version="2025.05", base=str(base))
    months.scenario.build(run)
    now, native = months.rows(run), months.rows(run, "native")
    assert now[keep].question == then[keep].question
    assert gone not in now and then[gone].event_id not in {r.event_id for r in now.values()}
    (fixed,) = [row for row in now.values() if row.replaces == fix]
    assert (fixed.answer, fixed.writer, fixed.since) == ("Another answer", MAINTAINER, "2025.05")
    assert fix not in now and native[fixed.id].writer != MAINTAINER
    assert native[words].question == decided[3]["question"] and now[words] == dataclasses.replace(
        then[words], version="2025.05", mini=now[words].mini, flags=now[words].flags
    )
    assert other not in now and any(row.replaces == other for row in now.values())
    paid = log(months.scenario.writer_log, "on", start)
    assert then[fix].question in paid and then[gone].event_desc not in paid
    carried = read_decisions(run / "release")
    assert [(d.id, d.decision, d.event_id) for d in carried] == [
        (row["id"], row["decision"], then[row["id"]].event_id) for row in decided
    ]
    changes = [c for c in read_changes(run / "release") if c.version == "2025.05"]
    told = {(c.kind, c.reason): set(c.ids) for c in changes if c.kind != "added"}
    assert told == {
        ("changed", "typo"): {fix},
        ("changed", "fix"): {words},
        ("changed", "yes_no"): {other},
        ("withdrawn", "ambiguous"): {gone},
    }
