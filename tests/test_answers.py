import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import llm_server
import pandas as pd
import pytest

from tiebe.answers import answer, items, without_label
from tiebe.errors import RecordError, SettingsError
from tiebe.llm import Model, Reply, open_model, visible

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


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(SettingsError, match="unknown model 'gpt-99'"):
        answer([BRAZIL], "gpt-99")


class Scripted(Model):
    """A model whose replies (text, finish) are given in advance; it keeps the bodies it is sent."""

    def __init__(self, *replies: tuple[str, str], **options: Any) -> None:
        self.sent: list[Any] = []

        def send(body: Any) -> Reply:
            self.sent.append(body)
            raw, finish = replies[min(len(self.sent), len(replies)) - 1]
            return Reply(visible(raw), raw, finish, "m-1", {"calls": 1, "completion_tokens": 5})

        super().__init__("m", send, **options)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([("Answer: Jair Bolsonaro", "stop")], ("Jair Bolsonaro", "stop", 1)),
        (
            [("Answer: Jair", "length"), ("Answer: Jair Bolsonaro", "stop")],
            ("Jair Bolsonaro", "stop", 2),
        ),
        ([("Answer: Jair", "length")], ("Jair", "length", 2)),
        ([("", "stop")], ("", "stop", 1)),
        ([("<think>Who was it?", "length")], ("", "length", 2)),
        ([("<think>It was he.</think>", "stop")], ("", "stop", 1)),
        ([("<think>It was he.</think>Answer: Bolsonaro", "stop")], ("Bolsonaro", "stop", 1)),
        ([("", "content_filter")], ("", "content_filter", 1)),
    ],
)
def test_a_reply_is_recorded_as_what_it_is(replies: Any, expected: tuple[str, str, int]) -> None:
    model = Scripted(*replies, max_tokens=100)
    (a,) = answer([BRAZIL], model)
    assert (a.model_answer, a.finish, a.usage["calls"]) == expected
    assert a.raw == replies[-1][0] and a.served_model == "m-1"
    assert [body["max_tokens"] for body in model.sent] == [100, 400][: expected[2]]


def test_a_base_model_goes_on_with_a_text() -> None:
    """Its server is asked for completions, up to the end of the line."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, body))
            choice = {"text": " Jair Bolsonaro", "finish_reason": "stop"}
            content = json.dumps({"choices": [choice], "model": "base"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        model = open_model("base", base_url=url, completion=True)
        english, native = answer([BRAZIL, NATIVE], model, concurrency=1)
        server.shutdown()
    assert english.model_answer == native.model_answer == "Jair Bolsonaro"
    assert [a.prompt for a in (english, native)] == ["answer@base-1", "answer@base-1.pt"]
    assert {path for path, _ in seen} == {"/v1/completions"}
    prompts = [body["prompt"] for _, body in seen]
    assert prompts[0] == f"Question: {BRAZIL['question']} (Brazil)\nAnswer:"
    assert prompts[1] == f"Pergunta: {NATIVE['question']} (Brasil)\nResposta:"
    assert all(body["stop"] == ["\n"] and "messages" not in body for _, body in seen)
