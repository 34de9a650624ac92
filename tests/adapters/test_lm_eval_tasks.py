"""lm-evaluation-harness logs answers that `tiebe judge` gives the scores of `tiebe score`."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from five_questions import ROWS, SCORES, write

from tiebe.adapters.lm_eval_tasks.questions import load


@pytest.mark.harness
@pytest.mark.skipif(not find_spec("lm_eval"), reason="needs lm_eval: make test-harness")
def test_the_same_scores(
    commands: Callable[[str], list[str]], shell: Callable[[str, Path], str], tmp_path: Path
) -> None:
    ask, judge, score = commands("runs/lm-eval")
    for line in (ask, judge):
        shell(line, tmp_path)
    (own,) = json.loads(shell(score, tmp_path))
    assert {name: own[name] for name in SCORES} == SCORES
    assert own["events"] == 3 and own["model"] == "gpt-4o-mini"
    judged = (tmp_path / "runs/lm-eval.jsonl").read_text("utf-8").splitlines()
    by_question = {row["question"]: row for row in map(json.loads, judged)}
    for row in ROWS:
        said = by_question[row["question"]]
        assert said["model_answer"] == row["reply"].partition(": ")[2]
        assert said["correct"] == (row["verdict"] and row["verdict"]["correct"])
        assert (said["language"], said["region"]) == (row["language"], "Brazil")


def test_questions_are_put_as_tiebe_puts_them(tmp_path: Path) -> None:
    source = str(write(tmp_path / "release"))
    # The harness hands its model's arguments on as well.
    given = {"source": source, "pretrained": "own/model", "config_source": "tiebe.yaml"}
    (english, *_) = rows = list(load(**given)["test"])
    assert len(rows) == 4 and english["region"] == "Brazil"
    assert f'question: "{english["question"]}"' in english["prompt_text"]
    (native,) = load(**given, language="native", prompt="1")["test"]
    assert "Pergunta: Quem projetou" in native["prompt_text"]
