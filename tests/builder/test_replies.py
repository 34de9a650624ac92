"""What a prompt asks for, the reader reads back, whatever stands around it."""

import json
from typing import Any

import pytest
import writer_server
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builder.replies import ask, ask_again, declined, read_pairs, read_translation, unfinished
from tiebe.llm import Model, Reply, visible
from tiebe.prompts import load_prompt, versions

LINES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1).map(
    lambda text: " ".join(text.split())
)


def plain_line(text: str) -> bool:
    """Whether a text can stand on a labelled line: no label, no emphasis at its ends."""
    return bool(text) and ":" not in text and "：" not in text and text.strip("*_ ") == text


PAIRS = st.lists(
    st.tuples(LINES, LINES).filter(
        lambda pair: bool(pair[0] and pair[1] and any(c.isalnum() for c in pair[0]))
    ),
    min_size=1,
    max_size=4,
    unique=True,
)


def written(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that are no placeholder, as `{question}` is."""
    return [pair for pair in pairs if pair[0][0] not in "{<["]


@given(PAIRS)
@example([('He said "no" {twice}', "\\ and / and }")])
@settings(deadline=None)
def test_json_is_read_back(pairs: list[tuple[str, str]]) -> None:
    pairs = written(pairs)
    items = [{"question": q, "answer": a} for q, a in pairs]
    for text in (
        json.dumps({"questions": items}),
        json.dumps({"questions": items}, ensure_ascii=False, indent=2),
        f"```json\n{json.dumps(items)}\n```",
        "So:\n" + "\n".join(json.dumps(item) for item in items),
    ):
        assert read_pairs(text) == pairs


@given(PAIRS, st.sampled_from(["Question: {}\nAnswer: {}", "**Question:** {}\n**Answer:** {}\n"]))
@settings(deadline=None)
def test_labelled_lines_are_read_back(pairs: list[tuple[str, str]], form: str) -> None:
    good = [p for p in written(pairs) if plain_line(p[0]) and plain_line(p[1])]
    assert read_pairs("\n".join(form.format(q, a) for q, a in good)) == good


@pytest.mark.parametrize("version", versions("generate"))
def test_the_form_that_a_prompt_shows_is_the_form_that_is_read(version: str) -> None:
    prompt = load_prompt("generate", version)
    if prompt.schema is not None:
        items = prompt.schema["properties"]["questions"]["items"]["properties"]
        reply = json.dumps({"questions": [{name: f"{name} one" for name in items}]})
    else:
        reply = "\n".join(f"{label}: {name} one" for name, label in prompt.labels.items())
    assert read_pairs(reply) == [("question one", "answer one")]


REPLY = json.dumps({"questions": [{"question": f"Who {n}?", "answer": f"A {n}"} for n in range(3)]})


@pytest.mark.parametrize("fault", writer_server.HARMLESS)
def test_a_form_that_models_like_is_read(fault: str) -> None:
    text, _ = writer_server.spoiled(REPLY, fault)
    assert text is not None
    assert read_pairs(visible(text)) == [(f"Who {n}?", f"A {n}") for n in range(3)]


@pytest.mark.parametrize("fault", [f for f in writer_server.FORM if f not in ("null", "deep")])
def test_what_holds_no_pair_gives_none(fault: str) -> None:
    text, _ = writer_server.spoiled(REPLY, fault)
    assert text is not None and read_pairs(visible(text)) == []


@pytest.mark.parametrize(
    ("reply", "pairs"),
    [
        ('{"a": 1}', []),
        ("Question: Who?", []),
        ("Answer: He", []),
        ('{"questions": [{"question": "{question}", "answer": "{answer}"}]}', []),
        ("Question: {question}\nAnswer: {answer}\n\nQuestion: Who?\nAnswer: He", [("Who?", "He")]),
        ("Q: Who?\nA: He", [("Who?", "He")]),
        ("1) Question 1: Who?\n\n   Answer 1: He\n\nNote: that is all.", [("Who?", "He")]),
        ('{"qa": {"pairs": [{"Question": "When?", "Answer": 1999}]}}', [("When?", "1999")]),
        ('{"question": "Who?", "answer": "He"} {"question": "Who?", "answer": "He"}',
         [("Who?", "He")]),
        ('{"question": "a\\u0000b\\ud800?", "answer": "c\\nd\\u2028e"}', [("a b ?", "c d e")]),
    ],
)  # fmt: skip
def test_odd_replies(reply: str, pairs: list[tuple[str, str]]) -> None:
    assert read_pairs(reply) == pairs


def test_nothing_to_ask_is_an_answer() -> None:
    assert declined('{"questions": []}') and declined('No:\n```\n{"questions": []}\n```')
    assert not declined(REPLY) and not declined("None.") and not declined("")


ENGLISH = "Who is called the Fox?", "Ilse Tarrant"


@pytest.mark.parametrize(
    "reply",
    [
        '{"question": "Wer heißt „der Fuchs“?", "answer": "Ilse Tarrant"}',
        'Question: "Wer heißt „der Fuchs“?"\nAnswer: "Ilse Tarrant"',
        "**Frage (Deutsch):** „Wer heißt „der Fuchs“?“\n\n**Antwort (Deutsch):** „Ilse Tarrant“",
        "Übersetzte Frage: Wer heißt „der Fuchs“?\nÜbersetzte Antwort: Ilse Tarrant",
        "Wer heißt „der Fuchs“?\nIlse Tarrant",
        "Original: x\nQuestion: Who?\nAnswer: He\n\nQuestion: Wer heißt „der Fuchs“?\n"
        "Answer: Ilse Tarrant",
    ],
)
def test_translations_are_read_whatever_their_labels(reply: str) -> None:
    assert read_translation(reply, ENGLISH) == ("Wer heißt „der Fuchs“?", "Ilse Tarrant")


def test_quotation_marks_of_the_original_stay() -> None:
    english = "What was it called?", '"The Fox"'
    assert read_translation('{"question": "Wie?", "answer": "„Der Fuchs“"}', english) == (
        "Wie?",
        "„Der Fuchs“",
    )
    reply = '{"question": "\\"A\\" und \\"B\\"?", "answer": "«x» oder «y»"}'
    assert read_translation(reply, ENGLISH) == ('"A" und "B"?', "«x» oder «y»")


@pytest.mark.parametrize("reply", ["", "Sorry.", "a\nb\nc", "Frage: x"])
def test_no_translation(reply: str) -> None:
    assert read_translation(reply, ENGLISH) is None


@given(st.text(max_size=2000))
@example('{"a":' * 900 + "1" + "}" * 900)
@example("Question:" * 300)
@settings(deadline=None)
def test_any_reply_can_be_read(text: str) -> None:
    declined(text)
    read_translation(text, ENGLISH)
    for question, answer in read_pairs(text):
        assert question and answer and (question + answer).encode() and "\n" not in question


# ---- asking


def replies(*finishes: str) -> tuple[Model, list[Any]]:
    bodies: list[Any] = []
    left = list(finishes)

    def send(body: Any) -> Reply:
        bodies.append(body)
        finish = left.pop(0)
        return Reply(finish, finish, finish, "m-1", {"calls": 1})

    return Model("m", send, max_tokens=100), bodies


@pytest.mark.parametrize("finish", ["length", "content_filter", "max_tokens"])
def test_an_unfinished_reply_is_asked_for_again_with_room(finish: str) -> None:
    model, bodies = replies(finish, "stop")
    assert ask(model, [{"role": "user", "content": "x"}], None).finish == "stop"
    assert [body["max_tokens"] for body in bodies] == [100, 200]
    model, bodies = replies(finish, finish)
    assert unfinished(ask(model, [{"role": "user", "content": "x"}], None)) in (
        "truncated_reply",
        "filtered_reply",
    )


def test_the_fault_is_told() -> None:
    model, bodies = replies("stop")
    said = Reply("", "", "stop", "m-1")
    ask_again(model, [{"role": "user", "content": "x"}], None, said, "It was empty.")
    assert [m["role"] for m in bodies[0]["messages"]] == ["user", "assistant", "user"]
    assert bodies[0]["messages"][1]["content"] == "(nothing)"
    assert bodies[0]["messages"][2]["content"] == "It was empty."
