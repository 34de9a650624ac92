import functools
import json
import math
import subprocess
import sys

import pytest

from tiebe import evaluate
from tiebe.errors import SettingsError
from tiebe.functions import fingerprint
from tiebe.llm import open_model

WORD = "one"


def speaker(word: str):
    return lambda prompt: word


def named(model: str, prompt: str) -> str:
    return model


def with_default(prompt: str, word: str = "one") -> str:
    return word


def by_global(prompt: str) -> str:
    return WORD


def by_function(prompt: str) -> str:
    return by_global(prompt) + str(math.pi)


class Checkpoint:
    def __call__(self, prompt: str) -> str:
        return "one"

    def ask(self, prompt: str) -> str:
        return "one"


class Counting:
    asked = 0

    def __call__(self, prompt: str) -> str:
        self.asked += 1
        return "Rider 2"


SAME = [
    speaker("one"),
    functools.partial(named, "one"),
    with_default,
    by_function,
    print,
]


@pytest.mark.parametrize("function", SAME)
def test_what_can_be_told_stays_the_same(function):
    assert fingerprint(function) == fingerprint(function)
    assert len(fingerprint(function)) == 16


def test_the_same_in_another_process():
    script = "from test_functions import SAME, fingerprint; print([*map(fingerprint, SAME)])"
    env = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.replace("'", '"')) == [*map(fingerprint, SAME)]


def test_other_values_make_another_function(monkeypatch):
    pairs = [
        (speaker("one"), speaker("two")),
        (lambda p: "one", lambda p: "two"),
        (functools.partial(named, "gpt"), functools.partial(named, "claude")),
        (Checkpoint(), Checkpoint()),
        (Checkpoint().ask, Checkpoint().ask),
        (speaker(["a", {"b": 1}]), speaker(["a", {"b": 2}])),
    ]
    for one, other in pairs:
        assert fingerprint(one) != fingerprint(other)
    checkpoint = Checkpoint()
    assert fingerprint(checkpoint) == fingerprint(checkpoint)
    assert fingerprint(checkpoint.ask) == fingerprint(checkpoint.ask)
    before = fingerprint(by_function)
    monkeypatch.setitem(globals(), "WORD", "two")
    assert fingerprint(by_function) != before


def test_a_function_that_calls_itself():
    def again(prompt: str) -> str:
        return again(prompt) if prompt else "one"

    assert fingerprint(again) == fingerprint(again)


QUESTIONS = [{"question": f"Who won race {n}?", "answer": f"Rider {n}"} for n in range(3)]


def test_one_functions_answers_are_not_taken_for_anothers(tmp_path):
    def go(model, **options):
        return evaluate(model, questions=QUESTIONS, run=tmp_path, **options)

    for word in ("Rider 0", "Rider 1", "Rider 0"):
        result = go(speaker(word))
        assert {row["model_answer"] for row in result.rows} == {word}
    own = Counting()
    go(own)
    go(own)
    assert own.asked == 3
    for judge, right in ((lambda p: "Correct: yes", 1), (lambda p: "Correct: no", 0)):
        assert list(go(own, judge=judge).scores["accuracy"]) == [right]


def test_a_named_function_is_what_its_name_says(tmp_path):
    for word in ("one", "two"):
        model = open_model(speaker(word), name="step 1000")
        result = evaluate(model, questions=QUESTIONS, run=tmp_path)
        assert {(row["model"], row["model_answer"]) for row in result.rows} == {
            ("step 1000", "one")
        }
    with pytest.raises(SettingsError, match="name='own' is for a function"):
        open_model("openai:gpt-4.1", name="own")
