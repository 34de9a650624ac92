import json
from dataclasses import replace
from typing import Any

import pytest

from builder.records import Drop
from builder.translate import messages_for, translate
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


def reply(question: str, answer: str = "Vale") -> str:
    return json.dumps({"question": question, "answer": answer})


def ask(*replies: Any, version: str | None = None) -> tuple[Any, list[Any]]:
    """The row or Drop, and the bodies that were sent; a reply is a text, or one with its finish."""
    said, bodies = list(replies), []

    def send(body: Any) -> Reply:
        bodies.append(body)
        left = said.pop(0)
        text, finish = (left, "stop") if isinstance(left, str) else left
        return Reply(text, text, finish, "t-1", {"calls": 1})

    prompt = load_prompt("translate", version)
    (out,) = translate(ROW, model=Model("t", send), prompt=prompt)
    assert not said
    return out, bodies


def test_the_native_row_keeps_the_id() -> None:
    row, (body,) = ask(reply(NATIVE))
    assert (row.id, row.language, row.split) == (ROW.id, "pt", "native")
    assert (row.question, row.answer) == (NATIVE, "Vale")
    assert (row.writer, row.prompt) == ("t-1", "translate@1")
    assert "Portuguese" in body["messages"][-1]["content"]


def test_a_fault_is_named_and_mended() -> None:
    row, bodies = ask(reply("Qual empresa era dona da barragem que rompeu?"), reply(NATIVE))
    assert row.question == NATIVE
    told = bodies[1]["messages"]
    assert told[-2]["role"] == "assistant" and "barragem" in told[-2]["content"]
    assert "numbers of the original are missing (2019)" in told[-1]["content"]


@pytest.mark.parametrize(
    ("replies", "reason", "detail"),
    [
        ([reply(ROW.question), reply(ROW.question)], "bad_translation", "it is still in English"),
        (["Sorry", "Sorry"], "unreadable_reply", "it could not be read"),
        ([reply(""), reply(NATIVE, "")], "unreadable_reply", "it could not be read"),
        ([(reply(NATIVE)[:30], "length")] * 2, "truncated_reply", '{"question"'),
        ([("", "content_filter")] * 2, "filtered_reply", ""),
        ([reply(ROW.question), ("", "length")], "truncated_reply", ""),
    ],
)
def test_a_fault_that_stays_is_a_drop(replies: list[Any], reason: str, detail: str) -> None:
    drop, bodies = ask(*replies)
    assert isinstance(drop, Drop) and len(bodies) == 2
    assert (drop.stage, drop.record_id, drop.reason) == ("translate", ROW.id, reason)
    assert drop.detail.startswith(detail)


def test_a_cut_reply_gets_more_room() -> None:
    row, bodies = ask((reply(NATIVE)[:30], "length"), reply(NATIVE))
    assert row.question == NATIVE and [b["max_tokens"] for b in bodies] == [1024, 2048]


def test_the_papers_prompt_names_no_form() -> None:
    text = f'**Pergunta:** "{NATIVE}"\n**Resposta:** "Vale"'
    row, (body,) = ask(text, version="paper")
    assert (row.question, row.answer, row.prompt) == (NATIVE, "Vale", "translate@paper")
    assert "response_format" not in body


def test_a_region_without_a_language_is_refused() -> None:
    with pytest.raises(ValueError, match="the_United_States has no native language"):
        messages_for(replace(ROW, region="the_United_States"), load_prompt("translate"))
