import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tiebe.cli import main
from tiebe.errors import RecordError
from tiebe.exam import COLUMNS, GROUPS, KINDS, ExamCase, exam_table, examine, load_exam
from tiebe.judges import Judge
from tiebe.prompts import load_prompt
from tiebe.records import Verdict, to_row
from tiebe.regions import LANGUAGES

CASES = load_exam()


def of_kind(kind: str) -> list[ExamCase]:
    return [case for case in CASES if case.kind == kind]


def words(text: str) -> set[str]:
    # Not \w, which breaks Devanagari at its vowel signs.
    return {word.strip("().,:") for word in text.casefold().split()}


def scripts(text: str) -> set[str]:
    return {unicodedata.name(c).split()[0] for c in text if unicodedata.category(c) in ("Lu", "Lo")}


def digits(text: str) -> str:
    return "".join(re.findall(r"\d", text))


def verdict(correct: bool | None, *, refusal: bool = False) -> Verdict:
    return Verdict(correct, refusal, "", None, "test", "test", "test", "judge@1")


def test_the_exam_is_balanced_over_languages_and_kinds() -> None:
    counts = Counter((case.language, case.kind) for case in CASES)
    assert counts == {(code, kind): 2 for code in LANGUAGES for kind in KINDS}
    for code in LANGUAGES:
        mine = [case for case in CASES if case.language == code]
        assert Counter((c.correct, c.refusal) for c in mine) == {
            (True, False): 11,
            (False, False): 17,
            (False, True): 4,
        }
    assert {(c.kind in ("refusal", "not_happened")) == c.refusal for c in CASES} == {True}


def test_ids_name_language_kind_and_number() -> None:
    for case in CASES:
        assert re.fullmatch(f"{case.language}-{case.kind}-[12]", case.id)


def test_each_fact_stands_in_one_language() -> None:
    facts: dict[str, set[str]] = {}
    for case in CASES:
        facts.setdefault(case.question, set()).add(case.language)
    assert all(len(codes) == 1 for codes in facts.values())
    assert len(facts) == 9 * len(LANGUAGES)


def test_questions_are_written_in_the_script_of_their_language() -> None:
    names = {"Latn": "LATIN", "Ethi": "ETHIOPIC", "Deva": "DEVANAGARI", "Cyrl": "CYRILLIC"}
    names["Hans"] = "CJK"
    for case in CASES:
        assert names[LANGUAGES[case.language].script] in scripts(case.question)


# By construction: what a case of a kind must look like, whatever its language.


def test_changed_digits_change_nothing_but_digits() -> None:
    for case in of_kind("changed_digit"):
        assert digits(case.candidate) != digits(case.expected)
        assert len(digits(case.candidate)) == len(digits(case.expected))
        letters = [re.sub(r"[\W\d]|人", "", t).casefold() for t in (case.candidate, case.expected)]
        assert letters[0] == letters[1]


def test_dates_differ_from_the_right_one_by_a_day() -> None:
    for right, wrong in zip(of_kind("date_form")[::2], of_kind("date_form")[1::2], strict=True):
        assert (right.correct, wrong.correct) == (True, False)
        day = re.search(
            r"\b(\d{1,2})\b(?! ?20)", right.expected.replace("年2月", " ").replace("日", " ")
        )
        assert day is not None
        numbers = [set(map(int, re.findall(r"\d+", c.candidate))) for c in (right, wrong)]
        assert int(day[1]) in numbers[0]
        assert int(day[1]) not in numbers[1] - {11, 2}


def test_units_keep_the_quantity_or_the_number() -> None:
    for right, wrong in zip(of_kind("unit")[::2], of_kind("unit")[1::2], strict=True):
        assert (right.correct, wrong.correct) == (True, False)
        # The wrong one has the number and not the unit, the right one the reverse.
        assert digits(wrong.candidate) == digits(wrong.expected)
        assert wrong.candidate != wrong.expected
        number = r"\d+(?:[.,  ]\d+)*"
        same = [re.findall(number, c) for c in (right.candidate, right.expected)]
        assert same[0] != same[1]


def test_names_in_another_script_share_no_script() -> None:
    for case in of_kind("other_script"):
        gold = re.sub(r"\(.*\)|（.*）", "", case.expected)
        assert not scripts(gold) & scripts(case.candidate)


def test_swapped_names_share_no_word_with_the_expected_answer() -> None:
    for case in of_kind("swapped_name"):
        assert not words(case.candidate) & words(case.expected) - {"em", "en", "в", "у", "am"}


@pytest.mark.parametrize("kind", ["negation", "hedged_list", "missing_detail", "extra_detail"])
def test_these_kinds_name_the_expected_answer(kind: str) -> None:
    for case in of_kind(kind):
        gold = re.sub(r"\W?[(（].*[)）]", "", case.expected)
        size = 2 if case.language == "zh" else 4
        stems = [word[:size] for word in re.findall(r"\w{2,}", gold.casefold())]
        text = case.candidate.casefold()
        assert any(stem in text for stem in stems), case.id
        assert case.candidate != case.expected


def test_repeated_questions_give_no_answer() -> None:
    for case in of_kind("question_repeated"):
        gold = re.findall(r"\w{3,}", case.expected.casefold())
        known = case.question.casefold()
        assert not [w for w in gold if w in case.candidate.casefold() and w not in known], case.id


def test_injected_verdicts_are_in_the_forms_that_judges_use() -> None:
    for quoted, told in zip(
        of_kind("verdict_injected")[::2], of_kind("verdict_injected")[1::2], strict=True
    ):
        code = None if quoted.language == "en" else quoted.language
        labels = load_prompt("judge", "paper", language=code).labels
        last = quoted.candidate.splitlines()[-1]
        assert re.fullmatch(rf"{labels['correct']}\s*[:：]\s*{labels['yes']}", last)
        assert labels["reasoning"] in quoted.candidate
        found = re.search(r"\{.*\}", told.candidate)
        assert found is not None
        assert json.loads(found[0])["correct"] is True


def test_the_table_of_a_perfect_judge() -> None:
    table = exam_table([verdict(c.correct, refusal=c.refusal) for c in CASES])
    assert list(table["by"]) == [
        *(["all"] + ["truth"] * len(GROUPS)),
        *(["kind"] * len(KINDS) + ["language"] * len(LANGUAGES)),
    ]
    assert (table["accuracy"] == 1).all()
    assert (table["refusal"] == 1).all()
    assert table["high"].min() == pytest.approx(1)
    whole = table.iloc[0]
    assert whole["n"] == len(CASES)
    assert whole["low"] == pytest.approx(0.9908, abs=1e-4)


def test_the_table_of_a_judge_that_says_no_to_all() -> None:
    table = exam_table([verdict(correct=False)] * len(CASES)).set_index(["by", "group"])
    wrong = sum(not case.correct for case in CASES)
    assert table.loc[("all", "all"), "accuracy"] == pytest.approx(wrong / len(CASES))
    groups = table.loc["truth"][["n", "accuracy"]]
    assert groups.T.to_dict("list") == {
        "true variant": [143, 0],
        "trap": [221, 1],
        "refusal": [52, 1],
    }
    assert table.loc[("kind", "negation"), "accuracy"] == 1
    assert table.loc[("kind", "paraphrase"), "accuracy"] == 0
    assert table.loc[("kind", "refusal"), "refusal"] == 0
    # Wilson's interval of 0 of 26, from the formula: z² / (n + z²).
    assert table.loc[("kind", "paraphrase"), "high"] == pytest.approx(
        3.8415 / (26 + 3.8415), abs=1e-4
    )


def test_unscored_cases_count_in_no_accuracy() -> None:
    verdicts = [
        verdict(None if c.language == "tpi" else c.correct, refusal=c.refusal) for c in CASES
    ]
    table = exam_table(verdicts).set_index(["by", "group"])
    assert table.loc[("all", "all"), "accuracy"] == 1
    assert table.loc[("all", "all"), "unscored"] == 32
    tok_pisin = table.loc[("language", "tpi")]
    assert (tok_pisin["n"], tok_pisin["unscored"]) == (0, 32)
    assert tok_pisin["accuracy"] != tok_pisin["accuracy"]  # missing, not 0
    assert (tok_pisin["low"], tok_pisin["high"]) == (0, 1)


def test_a_part_of_the_exam() -> None:
    part = of_kind("alias")[:4]
    table = exam_table([verdict(correct=True)] * 4, part)
    assert list(table["group"]) == ["all", "true variant", "alias", "en", "am"]
    with pytest.raises(RecordError, match="3 verdicts on 4 cases"):
        exam_table([verdict(correct=True)] * 3, part)


def test_a_judge_takes_the_exam_as_it_is() -> None:
    verdicts = Judge("offline", columns=COLUMNS, progress=False)([to_row(c) for c in CASES])
    table = exam_table(verdicts).set_index(["by", "group"])
    assert table.loc[("all", "all"), "unscored"] == 0
    assert table.loc[("kind", "refusal"), "refusal"] >= 0.96


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "negatoin"}, "exam.jsonl:2: unknown kind 'negatoin'; did you mean 'negation'"),
        ({"language": "xx"}, "exam.jsonl:2: unknown language 'xx'"),
        ({"candidate": " "}, "must not be empty"),
        ({"correct": "yes"}, "correct"),
        ({"correct": True, "refusal": True}, "a refusal cannot be correct"),
        ({"id": "a"}, "a second case 'a'"),
    ],
)
def test_a_case_that_is_none_is_told(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    row = {"id": "b", "kind": "alias", "language": "en", "question": "q", "expected": "e"}
    row |= {"candidate": "c", "correct": False, "refusal": False}
    path = tmp_path / "exam.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in (row | {"id": "a"}, row | change)))
    with pytest.raises(RecordError, match=re.escape(message)):
        load_exam(path)


def test_a_line_that_is_not_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    path.write_text("{")
    with pytest.raises(RecordError, match="exam.jsonl:1: not JSON"):
        load_exam(path)


def test_a_judge_that_knows_the_truth_passes_and_can_be_cited() -> None:
    def oracle(prompt: str) -> str:
        (case,) = [c for c in CASES if f"\n{c.candidate}\n" in prompt and c.question in prompt]
        truth = {"reasoning": "known", "correct": case.correct, "refusal": case.refusal}
        return "Hm." if case.id == "en-alias-1" else json.dumps(truth)

    result = examine(Judge(oracle, progress=False))
    first = result.table.iloc[0]
    assert (first["n"], first["accuracy"], first["unscored"]) == (len(CASES) - 1, 1.0, 1)
    assert result.fresh == len(CASES) and result.usage["calls"] == len(CASES) + 1
    prompt = load_prompt("judge")
    assert f"oracle, judge@1 (sha256 {prompt.sha256[:12]}), exam " in result.citation
    assert result.citation.endswith("100.0% [99.1%, 100.0%] of 415, 1 unscored")


def test_a_judge_that_gives_no_verdict_is_told() -> None:
    result = examine(Judge(lambda _: "Hm.", progress=False), CASES[:5])
    assert result.citation.endswith(": no verdict on any of 5")


def test_the_exam_verb_prints_a_table_and_the_citation() -> None:
    result = CliRunner().invoke(main, ["exam", "offline", "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 1 + sum(map(len, (GROUPS, KINDS, LANGUAGES)))
    assert "offline" in result.stderr and "nothing paid" in result.stderr
    silent = CliRunner().invoke(main, ["exam"])
    assert silent.exit_code == 1 and "no judge is chosen" in silent.stderr
