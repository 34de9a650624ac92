import json
from pathlib import Path

import llm_server
import pandas as pd
import pytest

from tiebe.answers import answer, items, read_answers, without_label
from tiebe.errors import RecordError, SettingsError
from tiebe.journal import Journal
from tiebe.llm import open_model

BRAZIL = {
    "id": "q1",
    "event_id": "e1",
    "region": "Brazil",
    "language": "en",
    "year": "2018",
    "month": "10",
    "question": "Who won Brazil's presidential election in October 2018?",
    "answer": "Jair Bolsonaro",
}
NATIVE = BRAZIL | {
    "language": "pt",
    "question": "Quem venceu a eleição presidencial brasileira em outubro de 2018?",
}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Answer: Jair Bolsonaro", "Jair Bolsonaro"),
        (" answer :  Jair Bolsonaro ", "Jair Bolsonaro"),
        ("**Answer:** Jair Bolsonaro", "Jair Bolsonaro"),
        ("**Answer: Jair Bolsonaro**", "Jair Bolsonaro"),
        ('"Answer: Jair Bolsonaro"', "Jair Bolsonaro"),
        ("## Answer: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Resposta: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Respuesta: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Réponse : Jair Bolsonaro", "Jair Bolsonaro"),
        ("Antwort: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Jawaban: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Cevap: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Ansa: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Ответ: Жаир Болсонару", "Жаир Болсонару"),
        ("Відповідь: Жаїр Болсонару", "Жаїр Болсонару"),
        ("答案：雅伊尔·博索纳罗", "雅伊尔·博索纳罗"),
        ("उत्तर: जायर बोल्सोनारो", "जायर बोल्सोनारो"),
        ("መልስ: ጃይር ቦልሶናሮ", "ጃይር ቦልሶናሮ"),
        ("Let me think. It was 2018.\n\nAnswer: Jair Bolsonaro", "Jair Bolsonaro"),
        ("Answer: one\nAnswer: two", "one\nAnswer: two"),  # a hedge stays one
        ("Answer:", "Answer:"),
        ("The answer: nobody knows", "The answer: nobody knows"),
        ("", ""),
    ],
)
def test_labels_are_taken_off(reply: str, expected: str) -> None:
    assert without_label(reply) == expected


def test_a_native_question_is_asked_in_its_language() -> None:
    seen = []

    def model(prompt: str) -> str:
        seen.append(prompt)
        return "Resposta: Jair Bolsonaro" if "Responda" in prompt else "Answer: Bolsonaro"

    english, native = answer([BRAZIL, NATIVE], model)
    assert [a.model_answer for a in (english, native)] == ["Bolsonaro", "Jair Bolsonaro"]
    assert [a.prompt for a in (english, native)] == ["answer@paper", "answer@paper.pt"]
    assert [a.split for a in (english, native)] == ["english", "native"]
    assert "context of Brazil" in seen[0]


def test_a_region_is_named_as_people_say() -> None:
    row = BRAZIL | {"region": "the_United_Kingdom"}
    seen = []

    def model(prompt: str) -> str:
        seen.append(prompt)
        return "Answer: x"

    answer([row], model)
    assert "the context of the United Kingdom," in seen[0]


def test_rows_may_lack_all_but_question_and_answer() -> None:
    (item,) = items([{"question": "Who?", "answer": "She."}])
    assert item.question_id and item.language == "en"
    table = pd.DataFrame([{"question": "Who?", "answer": "She.", "year": float("nan")}])
    assert items(table) == [item]


def test_english_and_native_are_splits() -> None:
    row = {"region": "Brazil", "row": 3, "question": "Quem?", "answer": "Ela."}
    first, second = items([row | {"language": "native"}, row | {"language": "english"}])
    assert (first.language, first.split) == ("pt", "native")
    assert (second.language, second.split) == ("en", "english")
    assert first.question_id == second.question_id


@pytest.mark.parametrize("row", [{"question": "Who?"}, {"question": "", "answer": "x"}, 3])
def test_a_bad_row_is_named(row: object) -> None:
    with pytest.raises(RecordError, match="row 1"):
        items([row])


def test_answers_are_kept_and_not_paid_twice() -> None:
    with llm_server.running() as server:
        for _ in range(2):
            (a,) = answer([BRAZIL], open_model("stub", base_url=server.base_url))
        assert server.stats()["requests"] == 1
    assert a.served_model == "stub" and a.usage["calls"] == 1


def test_a_functions_answers_are_not_kept() -> None:
    first, second = answer([BRAZIL], lambda p: "a"), answer([BRAZIL], lambda p: "b")
    assert (first[0].model_answer, second[0].model_answer) == ("a", "b")


def test_what_fails_is_told_apart_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(prompt: str) -> str:
        if "Quem" in prompt:
            raise ValueError("boom")
        return "Answer: x"

    english, native = answer([BRAZIL, NATIVE], model)
    assert english.finish == "stop"
    assert (native.finish, native.model_answer, native.raw) == ("failed", "", "ValueError: boom")


def test_answers_of_a_run_folder_are_rows(tmp_path: Path) -> None:
    with Journal(tmp_path / "answer") as journal:
        answer([BRAZIL], lambda p: "Answer: x", journal=journal)
    (row,) = read_answers(tmp_path)
    assert (row["id"], row["model_answer"], row["answer_prompt"]) == ("q1", "x", "answer@paper")
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": "Who?", "own": 1}) + "\n")
    assert list(read_answers(file)) == [{"question": "Who?", "own": 1}]


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(SettingsError, match="unknown model 'gpt-99'"):
        answer([BRAZIL], "gpt-99")
