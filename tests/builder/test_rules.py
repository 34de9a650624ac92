"""The rules, one by one; the cases are data."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builder.extract import REASONS
from builder.rules import (
    FLAGS,
    HARD,
    RULES,
    SHARES,
    TRANSLATION,
    WRONG_ARTICLE,
    Pair,
    Translation,
    after_cutoff,
    alike,
    broken,
    rank,
    same_question,
    says,
    stands_for,
    translation_faults,
    wrong_date,
)
from tiebe.regions import LANGUAGES

CASES = Path(__file__).with_name("rules")
QUESTIONS = yaml.safe_load((CASES / "questions.yaml").read_text("utf-8"))
TRANSLATIONS = yaml.safe_load((CASES / "translations.yaml").read_text("utf-8"))


def pair(case: dict[str, Any]) -> Pair:
    return Pair(**QUESTIONS["base"] | {k: v for k, v in case.items() if k != "broken"})


@pytest.mark.parametrize("case", QUESTIONS["cases"], ids=lambda c: ",".join(c["broken"]) or "good")
def test_a_question_breaks_just_these_rules(case: dict[str, Any]) -> None:
    assert sorted(broken(pair(case))) == sorted(case["broken"])


def test_every_rule_has_a_case() -> None:
    assert {code for case in QUESTIONS["cases"] for code in case["broken"]} == set(RULES)
    shown = {c for cases in TRANSLATIONS["cases"].values() for case in cases for c in case[2]}
    assert shown | {"much_longer"} == TRANSLATION


@pytest.mark.parametrize(
    ("language", "case"),
    [(code, case) for code, cases in TRANSLATIONS["cases"].items() for case in cases],
)
def test_a_translation_has_just_these_faults(language: str, case: list[Any]) -> None:
    english = TRANSLATIONS["english"]
    translation = Translation(
        (english["question"], english["answer"]), (case[0], case[1]), language
    )
    assert sorted(translation_faults(translation)) == sorted(case[2])


def test_a_translation_that_goes_on_and_on() -> None:
    english = "Who won the Aurel cup in 2021?", "Ilse Tarrant"
    native = "Wer gewann 2021 den Aurel-Pokal?", "Ilse Tarrant, und so weiter" * 6
    assert set(translation_faults(Translation(english, native, "de"))) == {"much_longer"}


def test_a_fault_is_told_with_what_is_missing() -> None:
    english = "Who won the Aurel cup of 2021 over 64 others?", "Ilse Tarrant"
    native = "Wer gewann den Aurel-Pokal gegen andere?", "Ilse Tarrant"
    told = translation_faults(Translation(english, native, "de"))
    assert told == {"numbers_lost": "numbers of the original are missing (2021, 64)"}


def test_names_may_stay_as_they_are() -> None:
    english = "Which company built the Falcon 9 that launched Turksat 5A in January 2021?", "SpaceX"
    native = "Falcon 9 и Turksat 5A: какая компания построила ракету в январе 2021 года?", "SpaceX"
    assert not translation_faults(Translation(english, native, "ru"))


@given(st.text(), st.text(), st.text(), st.sampled_from([c for c in LANGUAGES if c != "en"]))
@example("\ud800", "0" * 5000, "\u0000", "zh")
@settings(deadline=None)
def test_no_text_breaks_the_rules(one: str, other: str, third: str, language: str) -> None:
    broken(Pair(one, other, "Brazil", "2020-02", "", third, other, one))
    translation_faults(Translation((one, other), (third, one), language))
    assert same_question((one, other), (one, third))


# ---- dates


@pytest.mark.parametrize(
    ("text", "start", "end", "wrong"),
    [
        ("The bridge opens.", "2021-05-14", None, False),
        ("14 May The bridge opens.", "2021-05-14", None, False),
        ("March – The bridge opens.", "2021-05", None, True),
        ("On 3 April, the bridge opens.", "2021-05-14", None, True),
        ("April showers close the bridge.", "2021-04", None, False),
        ("28 April – 2 May Festival of bridges.", "2021-04-28", "2021-05-02", False),
        ("The bridge, begun in March 2017, opens.", "2021-05-14", None, False),
        ("The bridge opens.", "2021-05-14", "2021-05-02", True),
        ("The bridge opens.", "2020-05-14", None, True),
        ("The winter games.", "2020-12-30", "2021-01-04", False),
    ],
)
def test_a_date_that_contradicts_its_event(
    text: str, start: str, end: str | None, wrong: bool
) -> None:
    assert wrong_date(text, start, end, "2021 in Germany") is wrong


def test_the_cutoff_flag_names_its_month() -> None:
    assert after_cutoff("2025-04") == "after_april_2025"
    assert says("after_april_2025") == FLAGS["after_cutoff"]
    assert stands_for("after_cutoff", "after_april_2025") and not stands_for(
        "after_cutoff", "empty"
    )


# ---- the same question twice

BRIDGE = "How many people crossed the Varnholm footbridge on its first day in May 2021?", "4,200"


@pytest.mark.parametrize(
    ("question", "answer", "same"),
    [
        (*BRIDGE, True),
        (
            "how many people crossed the Varnholm footbridge on its first day, in May 2021",
            "x",
            True,
        ),
        (
            "How many people crossed the footbridge of Varnholm on the first day in May 2021?",
            "4,200 people",
            True,
        ),
        (
            "How many people crossed the Varnholm, Germany, footbridge on its first day, May 2021?",
            "About 4,200",
            True,
        ),
        (
            "How many people crossed the Varnholm footbridge on its first day in May 2020?",
            "4,200",
            False,
        ),
        (
            "How many people crossed the Ostmark footbridge on its first day in May 2021?",
            "3,100",
            False,
        ),
        (
            "How many people crossed the Varnholm footbridge on its second day in May 2021?",
            "9,000 of them",
            False,
        ),
        ("Who designed the Varnholm footbridge that opened in May 2021?", "Ilse Tarrant", False),
        (
            "How many trees fell for the Varnholm footbridge on its first day in May 2021?",
            "None at all",
            False,
        ),
    ],
)
def test_what_asks_the_same(question: str, answer: str, same: bool) -> None:
    assert same_question(BRIDGE, (question, answer)) is same
    assert same_question((question, answer), BRIDGE) is same
    assert list(alike([BRIDGE, ("Who?", "x"), (question, answer)])) == ([(0, 2)] if same else [])


def test_many_are_compared_in_batches() -> None:
    pairs = [(f"Which gate of Aurel number {n} opened in 2021?", f"Gate {n}") for n in range(700)]
    assert not list(alike(pairs))
    assert list(alike([*pairs, pairs[3]])) == [(3, 700)]


# ---- what flags are called


def test_every_flag_has_a_meaning() -> None:
    assert set(REASONS) <= FLAGS.keys() and WRONG_ARTICLE.keys() <= FLAGS.keys()
    assert HARD < RULES.keys() <= FLAGS.keys() and TRANSLATION <= FLAGS.keys()
    assert all(FLAGS.values()) and "wrong_article" in SHARES
    assert stands_for("wrong_article", "bot_wall") and not stands_for("wrong_article", "mojibake")
    assert says("of_an_older_release") == ""


def test_the_closer_question_and_the_shorter_answer_are_better() -> None:
    good = pair({})
    far = pair({"question": "Who drew the footbridge that opened in May 2021 at Varnholm?"})
    long = pair({"answer": "Ilse Tarrant, " * 9})
    assert rank(good, ()) < rank(long, ()) and rank(good, ()) < rank(good, ("question_no_year",))
    assert rank(good, ()) <= rank(far, ())
