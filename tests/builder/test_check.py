"""A region's rows get their flags; upstream's rows get those that an audit found."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from datasets import load_dataset
from releases import ABOUT, make
from rows import ARTICLES, NATIVE, ROW

from builder import rules
from builder.audit import Stored, audit_release, beyond, tally, tally_table
from builder.check import check, groups
from builder.cli import main
from builder.extract import Citation, language_of, relevance
from builder.legacy import import_legacy
from builder.release import Edition, read_articles, read_questions, write_release
from tiebe.records import Question, record_id
from tiebe.upstream import OldRow, parse, questions


def flags(*rows: Question, articles: Any = ARTICLES) -> dict[tuple[str, str], set[str]]:
    return {
        (row.id, row.language): set(row.flags)
        for group in groups(rows)
        for row in check(group, articles=articles)
    }


def test_a_good_row_has_no_flags() -> None:
    assert flags(ROW, NATIVE) == {("q1", "en"): set(), ("q1", "de"): set()}


def test_a_native_row_has_its_english_rows_flags_and_its_own() -> None:
    bad = replace(ROW, question="Which architect designed the Varnholm footbridge?")
    cut = replace(NATIVE, question="Wer entwarf die")
    found = flags(bad, cut)
    assert found["q1", "en"] == {"not_anchored", "question_no_year"}
    assert found["q1", "de"] == found["q1", "en"] | {"truncated_translation"}


def test_texts_are_looked_at() -> None:
    wall = "Please verify you are a human. Checking your browser before you access news.example."
    assert "bot_wall" in flags(ROW, articles={"a1": Stored("", "", wall)})["q1", "en"]
    assert flags(replace(ROW, article_id=None))["q1", "en"] == {"no_text"}
    # Of a release without texts nothing is known but what was found before.
    assert flags(ROW, articles={})["q1", "en"] == set()
    known = replace(ROW, flags=("index_page", "yes_no"))
    assert flags(known, articles={})["q1", "en"] == {"index_page"}
    other = replace(ROW, id="q2", event_id="e2", event_desc="A ferry sinks off Elvas; 30 drown.",
                    question="How many drowned when a ferry sank off Elvas in May 2021?",
                    answer="45")  # fmt: skip
    found = flags(ROW, other)
    assert found["q1", "en"] == {"text_of_another_event"}
    assert found["q2", "en"] >= {"text_of_another_event", "text_off_event", "not_grounded"}


def test_dates_are_looked_at() -> None:
    late = replace(ROW, date="2025-05-02", year="2025", page_title="2025 in Germany",
                   question=ROW.question.replace("2021", "2025"))  # fmt: skip
    assert "after_april_2025" in flags(late)["q1", "en"]
    assert "after_april_2025" not in flags(replace(late, version="2025.05.1"))["q1", "en"]
    assert "wrong_date" in flags(replace(ROW, page_title="2019 in Germany"))["q1", "en"]
    kept = replace(ROW, flags=("leading_date", "leading_dash", "wrong_date", "yes_no"))
    assert flags(kept)["q1", "en"] == {"leading_date", "leading_dash", "wrong_date"}


def test_what_is_asked_twice_is_found_within_a_region_and_to_the_letter_elsewhere() -> None:
    asked = "Which architect designed the footbridge at Varnholm in May 2021?"
    near = replace(ROW, id="q2", event_id="e1", question=asked)
    abroad = replace(ROW, id="q3", region="World", page_title="2021")
    found = flags(ROW, near, abroad)
    assert found["q1", "en"] == {"near_duplicate", "duplicate_question"}
    assert found["q2", "en"] == {"near_duplicate"}
    assert found["q3", "en"] == {"duplicate_question"}
    only = {group.name: len(group.members) for group in groups([ROW, near, abroad])}
    assert only == {"Germany": 3, "World": 2}


def test_flags_are_counted_once_for_both_languages() -> None:
    bad = replace(ROW, flags=("yes_no",))
    worse = replace(NATIVE, flags=("yes_no", "left_in_english"))
    counts = tally([bad, worse])
    assert counts == {"Germany": Counter(english=1, native=1, yes_no=1, left_in_english=1)}
    assert "left_in_english" in tally_table(counts)
    assert tally_table({}).split() == ["all", "english", "·", "native", "·"]


def test_shares_are_of_the_rows_that_can_bear_a_flag() -> None:
    rows = [replace(ROW, id=str(n), flags=("bot_wall",) if n < 2 else ()) for n in range(10)]
    rows += [replace(NATIVE, id="0", flags=("bot_wall", "numbers_lost"))]
    assert beyond(rows, {"bot_wall": 0.2, "yes_no": 0.0}) == []
    (passed,) = beyond(rows, {"wrong_article": 0.19})
    assert passed == "wrong_article: 2 of 10 english rows, 20.00%, where 19.00% are allowed"
    assert len(beyond(rows, {"numbers_lost": 0.5})) == 1
    assert beyond(rows, {"wrong_article": 0.1}, kept=["1"]) == []
    late = [replace(ROW, flags=("after_april_2025",))]
    assert len(beyond(late, {"after_cutoff": 0.0})) == 1


# ---- the command


@pytest.fixture
def release(tmp_path: Path) -> Path:
    rows, articles = make(6)
    write_release(tmp_path / "release", rows, articles, Edition("2025.04", about=ABOUT))
    return tmp_path / "release"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_check_writes_flags_into_a_release(release: Path) -> None:
    result = run("check", release)
    assert result.exit_code == 0 and "question_no_year" in result.stdout
    rows = {(row.id, row.language): row for row in read_questions(release)}
    lines = [json.loads(line) for line in (release / "audit.jsonl").read_text().splitlines()]
    assert len(lines) == len(rows) == 24
    for line in lines:
        row = rows[line["id"], line["language"]]
        assert list(line) == ["id", "region", "language", "split", "question", "flags"]
        assert (line["split"], line["question"]) == (row.split, row.question)
        assert line["flags"] == list(row.flags) and "question_no_year" in row.flags
    loaded = load_dataset(str(release), "Brazil", split="english")
    assert set(loaded[0]["flags"]) == set(rows[loaded[0]["id"], "en"].flags)


def test_strict_exits_1_when_a_share_is_passed(release: Path) -> None:
    (release.parent / "run.toml").write_text(
        '[release]\nversion = "2025.04"\n[check]\nmax_share = { question_no_year = 0.5 }\n'
    )
    lax, strict = run("check", release), run("check", release, "--strict")
    assert (lax.exit_code, strict.exit_code) == (0, 1)
    assert "passed: question_no_year: 18 of 18 english rows" in strict.stderr
    fine = run("check", release, "--strict", "--max-share", "question_no_year=1")
    assert fine.exit_code == 0 and "passed" not in fine.stderr
    unknown = run("check", release, "--max-share", "question_no_yaer=1")
    assert unknown.exit_code == 1 and "did you mean 'question_no_year'" in unknown.stderr
    assert run("check", release, "--max-share", "yes_no=2").exit_code == 1
    assert run("check", release, "--max-share", "yes_no").exit_code == 1


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    for verb, folder in (("check", tmp_path / "no"), ("check", tmp_path), ("review", tmp_path)):
        result = run(verb, folder)
        assert result.exit_code == 1 and "is neither a run" in result.stderr
        assert not list(tmp_path.iterdir())


# ---- upstream's data of 2025


def audited(shared: Path) -> dict[str, set[tuple[str, int]]]:
    found = defaultdict(set)
    for line in (shared / "upstream" / "audit.csv").read_text().splitlines()[1:]:
        region, row, flag = line.split(",")
        found[flag].add((region, int(row)))
    return found


@pytest.fixture(scope="module")
def upstream(
    upstream_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[tuple[str, int], Question]]:
    """The imported release with flags, and its English rows by region and position."""
    release = tmp_path_factory.mktemp("legacy") / "release"
    import_legacy(upstream_folder, release)
    by_id = {row.id: row for row in audit_release(release) if row.split == "english"}
    rows = {}
    for path in sorted((upstream_folder / "data" / "english").glob("*.json")):
        old: Iterable[OldRow] = parse(path.read_bytes(), where=path.name)
        for n, (row, _) in enumerate(questions(path.stem, list(old))):
            rows[path.stem, n] = by_id[row.id]
    return release, rows


TEXT_FLAGS = {
    "text_of_another_event": 1.0,
    "text_off_event": 0.8,
    "bot_wall": 0.9,
    "error_page": 0.9,
    "cookie_page": 0.9,
    "login_page": 0.9,
}


@pytest.mark.slow
def test_the_audits_flags_are_found(upstream: Any, shared: Path) -> None:
    _, rows = upstream
    wanted = audited(shared)
    exact = ("question_no_year", "answer_over_200", "after_april_2025", "duplicate_question")
    floors = TEXT_FLAGS | dict.fromkeys(exact, 1.0) | {"leading_date": 0.95, "leading_dash": 0.95}
    for flag, floor in floors.items():
        hits = sum(flag in rows[place].flags for place in wanted[flag])
        assert hits >= floor * len(wanted[flag]), (flag, hits, len(wanted[flag]))
    for flag in exact:
        assert sum(flag in row.flags for row in rows.values()) == len(wanted[flag]), flag
    texts = set().union(*(wanted[flag] for flag in (*TEXT_FLAGS, "parked_domain", "boilerplate")))
    texts |= wanted["mojibake"] | wanted["paywall_stub"]
    clean = [row for place, row in rows.items() if place not in texts]
    for flag in rules.WRONG_ARTICLE:
        assert sum(flag in row.flags for row in clean) <= 0.02 * len(clean), flag


# Every hit of these was read: see the shares of false alarms beside each.
HITS = {
    "truncated_translation": 10,  # 0 of 10
    "wrong_date": 10,  # 2 of 10: a text that begins with what was before, a range cut in half
    "question_month": 74,  # 10 of 74: what led to the event, or was counted up to a month
    "near_duplicate": 118,  # 6 of 65 pairs: the first case and the first death
    "numbers_lost": 2,  # 0 of 2
    "quotation_lost": 11,  # 0 of 11
}


@pytest.mark.slow
def test_as_many_are_found_as_were_read(upstream: Any) -> None:
    release, _ = upstream
    counts: Counter[str] = Counter()
    for region in tally(read_questions(release)).values():
        counts += region
    assert {flag: counts[flag] for flag in HITS} == HITS


@pytest.mark.slow
def test_both_languages_share_ids_and_texts_tell_their_events(upstream: Any) -> None:
    release, rows = upstream
    english = {row["id"] for row in load_dataset(str(release), split="english")}
    native = {row["id"] for row in load_dataset(str(release), split="native")}
    assert len(english) == 2941 and len(native) == 2378 and native < english

    # A text in another language than English is nearer to its event than to one of its region.
    texts = {row["article_id"]: row["text"] for row in read_articles(release)}
    own: dict[str, list[tuple[Question, str]]] = defaultdict(list)
    for row in rows.values():
        text = texts[row.article_id or ""]
        if not set(row.flags) & rules.WRONG_ARTICLE.keys() and "mojibake" not in row.flags:
            if language_of(text) not in ("en", None):
                own[row.region].append((row, text))
    for regions, floor in ((set(own) - {"China"}, 0.88), ({"China"}, 0.8)):
        right, wrong = [], []
        for region in sorted(regions):
            cited = own[region]
            for n, (row, text) in enumerate(cited):
                _, other = cited[(n + 1 + int(record_id(row.id), 16) % 7) % len(cited)]
                right.append(relevance(Citation(row.event_desc, text, row.date, row.end_date)))
                wrong.append(relevance(Citation(row.event_desc, other, row.date, row.end_date)))
        wins = sum((r > w) + (r == w) / 2 for r in right for w in wrong)
        auc = wins / (len(right) * len(wrong))
        print(sorted(regions), len(right), round(auc, 3))
        assert auc >= floor
