"""The whole path on generated retrospective pages: from wikitext to a judged release."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scenario
from datasets import load_dataset

PAGES = [
    ("World", 2017, 1),
    ("the_United_Kingdom", 2016, 2),
    ("Brazil", 2023, 2),
    ("Turkey", 2022, 3),
    ("China", 2024, 3),
    ("Ethiopia", 2021, 2),
    ("Portugal", 2024, 1),
    ("Russia", 2021, 3),
]
SEED = 20261129


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("pages")
    pages = folder / "wiki"
    pages.mkdir()
    events = []
    for region, year, seed in PAGES:
        stem = shared / "pages" / f"{year}_in_{region}.s{seed}"
        (pages / f"{year}_in_{region}.s{seed}.wiki").write_text(
            Path(f"{stem}.wiki").read_text("utf-8"), "utf-8"
        )
        events += scenario.truth_events(Path(f"{stem}.truth.json"))
    files = sorted((shared / "articles" / "scrapinghub" / "html").glob("*.html.gz"))
    draw = random.Random(SEED)
    wrong = [
        gzip.decompress(f.read_bytes()).decode("utf-8", "replace") for f in draw.sample(files, 12)
    ]
    with scenario.scenario(
        folder, pages, [(r, y) for r, y, _ in PAGES], events, seed=SEED, wrong_pages=wrong
    ) as s:
        yield s


@pytest.fixture(scope="module")
def run(build: scenario.Scenario) -> Path:
    folder = build.new_run("whole")
    print(build.build(folder))
    return folder


@pytest.fixture(scope="module")
def counts(run: Path) -> dict[str, Any]:
    return scenario.stages(run)


def rows(run: Path, split: str) -> list[dict[str, Any]]:
    return load_dataset(str(run / "release"), split=split).to_list()


def test_each_input_has_an_output_or_a_reason(counts: dict[str, Any]) -> None:
    assert list(counts) == ["collect", "retrieve", "generate", "select", "translate", "check"]
    assert counts["collect"]["parents"] == len(PAGES)
    assert set(counts["collect"]["dropped"]) == {"missing"}
    assert "failed" not in {reason for c in counts.values() for reason in c["dropped"]}


def test_the_release_has_both_splits_and_loads_by_region(run: Path) -> None:
    english, native = rows(run, "english"), rows(run, "native")
    assert len(english) >= 200 and len(native) >= 100
    assert {r["id"] for r in native} <= {r["id"] for r in english}
    assert {r["language"] for r in native} == {"pt", "tr", "zh", "am", "ru"}
    uk = load_dataset(str(run / "release"), "the_United_Kingdom", split="english")
    assert len(uk) == sum(r["region"] == "the_United_Kingdom" for r in english) > 30
    assert {r["writer"] for r in english} == {"scripted-1"}


def test_no_planted_page_gets_in_and_the_right_ones_do(
    build: scenario.Scenario, run: Path, counts: dict[str, Any]
) -> None:
    english = rows(run, "english")
    assert not build.planted & {r["source_url"] for r in english}
    right = {u for u, e in build.plan.items() if u not in build.planted and "status" not in e}
    answerable = [text for text, urls in build.events if right & set(urls)]
    assert counts["retrieve"]["out"] >= 0.95 * len(answerable)


def test_loads_judges_and_scores(run: Path, tmp_path: Path) -> None:
    from tiebe import load_tiebe

    questions = load_tiebe(source=str(run / "release"), language="both")
    lines = [
        {**row, "model": "half", "model_answer": row["answer"] if n % 2 else "I do not know."}
        for n, row in enumerate(questions.select(range(60)))
    ]
    answers, verdicts = tmp_path / "answers.jsonl", tmp_path / "verdicts.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    cli = [sys.executable, "-m", "tiebe.cli"]
    judge = [*cli, "judge", str(answers), "--model", "offline", "--out", str(verdicts)]
    subprocess.run(judge, check=True, capture_output=True)
    out = subprocess.run(
        [*cli, "score", str(verdicts), "--by", "model", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    table = json.loads(out.stdout)[0]
    assert (table["n"], table["accuracy"], table["refusal"]) == (60, 0.5, 0.5)


KILLED = ("collect", "retrieve", "generate", "select", "translate")


@pytest.mark.slow
def test_killed_in_five_stages_it_ends_with_the_same_bytes(
    build: scenario.Scenario, run: Path, counts: dict[str, Any]
) -> None:
    again = build.new_run("killed")
    places = scenario.fractions(SEED, KILLED)
    print(f"seed {SEED}: {places}")
    for stage, share in places.items():
        total = counts[stage]["in"]
        reached = build.kill_in(again, stage, max(1, int(total * share)))
        assert 0 < reached < total, f"{stage}: {reached} of {total}"
    build.build(again)
    assert scenario.release_files(again) == scenario.release_files(run)
    assert scenario.stages(again) == counts
    for log in (build.articles_log, build.writer_log):
        assert not scenario.repeated(log, build.kills, runs=2), log
