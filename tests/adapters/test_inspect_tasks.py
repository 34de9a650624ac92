"""Inspect gives the five questions the scores that `tiebe score` gives them."""

import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from five_questions import ROWS, SCORES

pytestmark = [
    pytest.mark.harness,
    pytest.mark.skipif(not find_spec("inspect_ai"), reason="needs inspect_ai: make test-harness"),
    # lighteval's litellm holds the openai client at a version that Inspect refuses.
    pytest.mark.skipif(bool(find_spec("lighteval")), reason="needs Inspect without lighteval"),
]


Run = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def run(shell: Callable[[str, Path], str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a line of `inspect eval`; returns its logs, a task each."""

    def logs(line: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("inspect")
        shell(f"{line} --display none --log-format json --log-dir logs", folder)
        read = [json.loads(path.read_bytes()) for path in sorted(folder.glob("logs/*.json"))]
        assert all(log["status"] == "success" for log in read), read
        return read

    return logs


@pytest.fixture(scope="module")
def line(commands: Callable[[str], list[str]]) -> str:
    (line,) = commands("tiebe/tiebe")
    return line


@pytest.fixture(scope="module")
def log(run: Run, line: str) -> dict[str, Any]:
    (log,) = run(line)
    return log


def test_the_same_scores(log: dict[str, Any]) -> None:
    scores = {score["name"]: score for score in log["results"]["scores"]}
    metrics = {name: score["metrics"] for name, score in scores.items()}
    assert len(log["samples"]) == SCORES["n"]
    assert metrics["correct"]["accuracy"]["value"] == SCORES["accuracy"]
    assert metrics["refusal"]["mean"]["value"] == SCORES["refusal"]
    assert metrics["unscored"]["tiebe/count"]["value"] == SCORES["unscored"]
    assert scores["correct"]["unscored_samples"] == SCORES["unscored"]
    # By event: the right one was asked in two languages, the two others once.
    deviations = (2 * 0.5, -0.5, -0.5)
    stderr = math.sqrt(sum(d**2 for d in deviations) * 3 / 2) / 4
    assert metrics["correct"]["stderr"]["value"] == pytest.approx(stderr)


def test_a_sample_says_what_was_asked_and_decided(log: dict[str, Any]) -> None:
    samples = log["samples"]
    by_question = {sample["metadata"]["question"]: sample for sample in samples}
    for row in ROWS:
        sample = by_question[row["question"]]
        (score,) = sample["scores"].values()
        said = row["verdict"] or {"correct": math.nan, "refusal": math.nan}
        for name in ("correct", "refusal"):
            assert score["value"][name] == pytest.approx(float(said[name]), nan_ok=True)
        assert score["value"]["unscored"] == float(row["verdict"] is None)
        assert score["answer"] == row["reply"].partition(": ")[2]
        assert score["metadata"]["prompt"] == "judge@event-1"
        native = "Forneça a sua resposta" in sample["input"][0]["content"]
        assert native == (row["language"] == "pt")
        assert sample["metadata"]["region"] == "Brazil"
    english, native = (s for s in samples if s["target"] == "Ilse Tarrant")
    assert english["metadata"]["event_id"] == native["metadata"]["event_id"]
    assert english["id"] != native["id"]


def test_a_version_that_became_a_number_is_refused(
    line: str, shell: Callable[[str, Path], str], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=r"write it as v2025\.10"):
        shell(f"{line} -T version=2025.10", tmp_path)


def test_eval_yaml_is_the_same_on_replies_that_hold_a_verdict(
    commands: Callable[[str], list[str]], run: Run
) -> None:
    (line,) = commands("hf/TimelyEventsBenchmark")
    samples = [sample for log in run(line) for sample in log["samples"]]
    values = {s["input"]: next(iter(s["scores"].values()))["value"] for s in samples}
    assert len(values) == len(ROWS)
    for row in ROWS:
        value = values[row["question"]]
        if row["verdict"] is None:
            assert math.isnan(value)
        else:
            assert value == json.dumps(row["verdict"]["correct"])
    scored = [value for value in values.values() if isinstance(value, str)]
    assert scored.count("true") / len(scored) == SCORES["accuracy"]
