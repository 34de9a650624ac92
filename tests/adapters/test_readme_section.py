"""The README's section of other harnesses: TiEBe's own scores of the five questions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from five_questions import BY_SPLIT, SCORES


def test_the_scores_that_the_others_are_held_against(
    commands: Callable[[str], list[str]], shell: Callable[[str, Path], str], tmp_path: Path
) -> None:
    evaluate, score = commands("runs/own")
    shell(evaluate, tmp_path)
    (own,) = json.loads(shell(score, tmp_path))
    assert {name: own[name] for name in SCORES} == SCORES
    by_split = json.loads(shell(score.replace("--by model", "--by split"), tmp_path))
    assert [own["split"] for own in by_split] == list(BY_SPLIT)
    for own in by_split:
        assert {name: own[name] for name in SCORES} == pytest.approx(BY_SPLIT[own["split"]])
