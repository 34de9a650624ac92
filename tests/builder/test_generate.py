from typing import Any

import pytest

from builder.generate import Writing, display_date, generate, shorten
from builder.records import Article, Candidate, Drop, Event
from tiebe.llm import Model, Reply, count_tokens
from tiebe.prompts import load_prompt

EVENT = Event(
    "Brazil", 2019, "p" * 16, "2019 in Brazil", 7, "2019-01-25", None, "day", "A dam breaks."
)
ARTICLE = Article(EVENT, "https://news.example/dam", None, "Dam breaks", None, "A dam broke. " * 9)
PAIRS = '{"questions": [{"question": "Which dam broke in January 2019?", "answer": "Dam I"}]}'


class Script:
    """A model whose replies are given beforehand: text and finish reason."""

    def __init__(self, *replies: tuple[str, str]) -> None:
        self.replies, self.bodies = list(replies), []

    def __call__(self, body: Any) -> Reply:
        self.bodies.append(body)
        text, finish = self.replies.pop(0)
        return Reply(text, text, finish, "m-1", {"calls": 1})


def write(*replies: tuple[str, str], version: str | None = None) -> tuple[list[Any], list[Any]]:
    script = Script(*replies)
    model = Model("m", script, max_tokens=100)
    prompt = load_prompt("generate", version)
    out = list(generate(ARTICLE, Writing(model, prompt, 3)))
    assert not script.replies
    return out, script.bodies


def test_a_candidate_knows_where_it_came_from() -> None:
    (candidate,), (body,) = write((PAIRS, "stop"))
    assert isinstance(candidate, Candidate)
    assert (candidate.question, candidate.answer) == ("Which dam broke in January 2019?", "Dam I")
    assert (candidate.article_id, candidate.writer) == (ARTICLE.id, "m-1")
    assert candidate.prompt == "generate@1" and "response_format" in body
    assert "25 January 2019" in body["messages"][-1]["content"]


def test_the_papers_prompt_gets_text_back() -> None:
    text = "Question: Which dam broke in 2019?\nAnswer: Dam I\n\nQuestion: Where?\nAnswer: Here"
    out, (body,) = write((text, "stop"), version="paper")
    assert [(c.question, c.answer) for c in out][1] == ("Where?", "Here")
    assert out[0].prompt == "generate@paper" and "response_format" not in body


def test_a_truncated_reply_gets_more_room() -> None:
    out, bodies = write((PAIRS[:40], "length"), (PAIRS, "stop"))
    assert len(out) == 1 and [b["max_tokens"] for b in bodies] == [100, 200]


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([(PAIRS[:40], "length"), (PAIRS[:50], "length")], "truncated_reply"),
        ([("", "content_filter"), ("", "content_filter")], "filtered_reply"),
        ([('{"questions": []}', "stop")], "no_question"),
        ([("I cannot help with that.", "stop"), ("Sorry.", "stop")], "unreadable_reply"),
    ],
)
def test_what_gives_no_candidate_has_a_reason(replies: list[tuple[str, str]], reason: str) -> None:
    (drop,), _ = write(*replies)
    assert isinstance(drop, Drop)
    assert (drop.stage, drop.record_id, drop.reason) == ("generate", ARTICLE.id, reason)


def test_an_unreadable_reply_is_asked_for_again_with_its_fault() -> None:
    out, bodies = write(("Well…", "stop"), (PAIRS, "stop"))
    assert isinstance(out[0], Candidate)
    assert bodies[1]["messages"][-2] == {"role": "assistant", "content": "Well…"}
    assert "could not be read" in bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply",
    [
        "Question: Q1?\nAnswer: A1\nQuestion: Q2?\nAnswer: A2",
        "**Question:** Q1?\n**Answer:** A1\n\n**Question:** Q2?\n**Answer:** A2",
        "1. Question: Q1?\n   Answer: A1\n2. Question: Q2?\n   Answer: A2",
        "Question 1: Q1?\nAnswer 1: A1\n\nQuestion 2: Q2?\nAnswer 2: A2",
        "### Question: Q1?\n\nAnswer: A1\n\n### Question: Q2?\n\nAnswer: A2\n",
        '```json\n{"questions": [{"question": "Q1?", "answer": "A1"},'
        ' {"question": "Q2?", "answer": "A2"}]}\n```',
        'Here: {"questions": [{"question": "Q1?", "answer": "A1"},'
        ' {"question": "Q2?", "answer": "A2"}, {"question": 3}, "x"]}',
    ],
)
def test_pairs_are_read_in_every_form(reply: str) -> None:
    assert parse_pairs(reply) == [("Q1?", "A1"), ("Q2?", "A2")]


@pytest.mark.parametrize("reply", ["", "No.", "Answer: A1", "Question: Q1?", '{"a": 1}'])
def test_what_holds_no_pair_gives_none(reply: str) -> None:
    assert parse_pairs(reply) == []


def test_dates_are_shown_as_people_write_them() -> None:
    assert display_date("2019-01-04") == "4 January 2019"
    assert display_date("2019-01") == "January 2019"
    assert display_date("2019-12-30", "2020-01-02") == "30 December 2019 to 2 January 2020"


def test_a_long_article_is_cut_after_a_sentence() -> None:
    text = "One sentence of some length stands here. " * 100
    short = shorten(text, 200)
    assert count_tokens(short) <= 200 and short.endswith("here.")
    assert shorten("Short.", 200) == "Short."
    assert count_tokens(shorten("新闻没有句号" * 500, 200)) <= 201
