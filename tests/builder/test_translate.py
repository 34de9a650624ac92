import json
from typing import Any

from builder.records import Drop
from builder.translate import translate
from tiebe.llm import Model, Reply
from tiebe.prompts import load_prompt
from tiebe.records import Question

ROW = Question(
    id="q" * 16,
    event_id="e" * 16,
    article_id="a" * 16,
    region="Brazil",
    language="en",
    year="2019",
    month="01",
    date="2019-01-25",
    end_date=None,
    event_desc="A dam breaks.",
    question="Which company owned the dam that broke at Brumadinho in January 2019?",
    answer="Vale",
    source_url="https://news.example/dam",
    archive_url=None,
    source_title="Dam breaks",
    page_title="2019 in Brazil",
    page_revision=7,
    writer="m-1",
    prompt="generate@1",
)
NATIVE = "Qual empresa era dona da barragem que rompeu em Brumadinho em janeiro de 2019?"


def ask(*replies: str) -> tuple[Any, list[Any]]:
    said, bodies = list(replies), []

    def send(body: Any) -> Reply:
        bodies.append(body)
        text = said.pop(0)
        return Reply(text, text, "stop", "t-1", {"calls": 1})

    prompt = load_prompt("translate")
    (out,) = translate(ROW, model=Model("t", send), prompt=prompt)
    assert not said
    return out, bodies


def reply(question: str, answer: str = "Vale") -> str:
    return json.dumps({"question": question, "answer": answer})


def test_the_native_row_keeps_the_id() -> None:
    row, (body,) = ask(reply(NATIVE))
    assert (row.id, row.language, row.split) == (ROW.id, "pt", "native")
    assert (row.question, row.answer) == (NATIVE, "Vale")
    assert (row.writer, row.prompt) == ("t-1", "translate@1")
    assert "Portuguese" in body["messages"][-1]["content"]


def test_a_fault_is_named_and_mended() -> None:
    row, bodies = ask(reply("Qual empresa era dona da barragem?"), reply(NATIVE))
    assert row.question == NATIVE
    assert "numbers" in bodies[1]["messages"][-1]["content"]


def test_a_fault_that_stays_is_a_drop() -> None:
    drop, _ = ask(reply(ROW.question), "Sorry")
    assert isinstance(drop, Drop)
    assert (drop.stage, drop.record_id, drop.reason) == ("translate", ROW.id, "bad_translation")
