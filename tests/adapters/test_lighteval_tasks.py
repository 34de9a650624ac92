"""lighteval gives the five questions the scores that `tiebe score` gives them."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from five_questions import BY_SPLIT

pytestmark = [
    pytest.mark.harness,
    pytest.mark.skipif(not find_spec("lighteval"), reason="needs lighteval: make test-harness"),
]


@pytest.fixture(scope="module", autouse=True)
def without_network() -> Iterator[None]:
    """lighteval fetches a file of other tasks whenever it starts; ours open it never."""
    (folder,) = find_spec("lighteval").submodule_search_locations
    path = Path(folder) / "tasks/tasks/tinyBenchmarks.pkl"
    there = path.exists()
    path.touch()
    yield
    if not there:
        path.unlink()


def test_the_same_scores(
    commands: Callable[[str], list[str]], shell: Callable[[str, Path], str], tmp_path: Path
) -> None:
    (line,) = commands("lighteval endpoint")
    shell(line, tmp_path)
    (path,) = tmp_path.glob("runs/lighteval/results/**/results_*.json")
    results = json.loads(path.read_bytes())["results"]
    for split, scores in BY_SPLIT.items():
        found = results[f"tiebe_Brazil:{split}|0"]
        assert {name: found[name] for name in scores} == scores
        assert found["low"] <= found["accuracy"] <= found["high"]


def test_the_same_scores_on_its_inspect_backend(
    shell: Callable[[str, Path], str], tmp_path: Path
) -> None:
    client = Path(__file__).with_name("lighteval_client.py")
    line = f"TIEBE_JUDGE=gpt-4o PYTHONPATH={client.parents[1]} python {client}"
    told = json.loads(shell(line, tmp_path).splitlines()[-1])
    # Once this fails, `lighteval eval` heeds --custom-tasks, and the README can show it.
    assert "Cannot find task tiebe_Brazil" in told.pop("command")
    assert told == {f"tiebe_Brazil:{split}": scores for split, scores in BY_SPLIT.items()}
