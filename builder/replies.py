"""Replies: what a writer or translator said, asked for with care and read back with tolerance.

A reply may be the JSON that was asked for, fenced or amid prose, or lines with labels, bold or
numbered or without empty lines between them. Nothing here decides whether a text is good.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tiebe.llm import Messages, Model, Reply, json_objects

__all__ = ["ask", "ask_again", "declined", "read_pairs", "read_translation", "unfinished"]

Pair = tuple[str, str]
"""A question and its answer."""

_UNFINISHED = {
    "length": "truncated_reply",
    "max_tokens": "truncated_reply",
    "content_filter": "filtered_reply",
    "safety": "filtered_reply",
}
_LABEL = re.compile(
    r"^[\s>#*_\d.)(-]*(?P<label>question|answer|q|a)\s*\d*\s*[*_]*\s*[:：][*_]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_ANY_LABEL = re.compile(r"^[\s>#*_\d.)(-]*[^\W\d_][^:：\n]{0,60}[:：][\s*_]*(?P<text>\S.*)$")
_PLACEHOLDER = re.compile(r"[{<\[][^{}<>\[\]]{1,40}[}>\]]\??")
_DEPTH = 6
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』", "'": "'"}


def ask(model: Model, messages: Messages, schema: Mapping[str, Any] | None) -> Reply:
    """Asks a model; a reply that was cut off or filtered is asked for once more, with more room.

    Raises:
        Wait: See `Model.ask`.
        ModelError: See `Model.ask`.
    """
    reply = model.ask(messages, schema)
    if unfinished(reply):
        reply = model.ask(messages, schema, max_tokens=2 * model.max_tokens)
    return reply


def ask_again(
    model: Model,
    messages: Messages,
    schema: Mapping[str, Any] | None,
    said: Reply,
    fault: str,
) -> Reply:
    """Asks once more, with the faulty reply and what is wrong with it.

    Raises:
        Wait: See `Model.ask`.
        ModelError: See `Model.ask`.
    """
    answer = {"role": "assistant", "content": said.raw or "(nothing)"}
    return model.ask([*messages, answer, {"role": "user", "content": fault}], schema)


def unfinished(reply: Reply) -> str | None:
    """Returns why a reply is not whole: `truncated_reply`, `filtered_reply`; None when it is."""
    return _UNFINISHED.get(reply.finish.casefold())


def declined(text: str) -> bool:
    """Whether the writer found nothing to ask, as our prompt allows."""
    return any(found.get("questions") == [] for found in json_objects(text)) and not read_pairs(
        text
    )


def read_pairs(text: str) -> list[Pair]:
    """Returns the questions and answers of a reply, none twice: of JSON, or of labelled lines.

    Of several lists in a reply the last one counts: a model that repeats the form first, or an
    article's words, must not be taken at them.
    """
    rows: list[Pair] = []
    loose: list[Pair] = []
    for found in json_objects(text):
        pairs = list(_pairs_in(found))
        if any(isinstance(value, list) for value in found.values()):
            rows = pairs or rows
        else:
            loose += pairs
    pairs = rows or loose or _labelled(text)
    clean = ((_clean(question), _clean(answer)) for question, answer in pairs)
    return list(
        dict.fromkeys(
            (question, answer)
            for question, answer in clean
            if question and answer and not _PLACEHOLDER.fullmatch(question)
        )
    )


def read_translation(text: str, english: Pair) -> Pair | None:
    """Returns the translated question and answer of a reply; None where it holds none.

    The paper's prompt asks for no form, so that the labels may be in any language and the parts
    may stand in quotation marks.

    Args:
        text: The reply.
        english: The original: quotation marks around all of it belong to it.
    """
    pairs = read_pairs(text)
    if not pairs:
        lines = [line for line in text.splitlines() if line.strip()]
        labelled = [found["text"] for line in lines if (found := _ANY_LABEL.match(line))]
        parts = labelled if len(labelled) == 2 else lines
        if len(parts) != 2:
            return None
        pairs = [(_clean(parts[0].strip("*_ ")), _clean(parts[1].strip("*_ ")))]
    question, answer = (
        _unquoted(part, whole) for part, whole in zip(pairs[-1], english, strict=True)
    )
    return question, answer


def _pairs_in(value: Any, depth: int = 0) -> Iterator[Pair]:
    """The pairs in a JSON value, some levels deep, whatever case their names have."""
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _pairs_in(item, depth + 1)
    elif isinstance(value, dict):
        named = {str(name).casefold(): part for name, part in value.items()}
        question, answer = named.get("question"), named.get("answer")
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            answer = str(answer)
        if isinstance(question, str) and isinstance(answer, str):
            yield question, answer
        else:
            for item in value.values():
                yield from _pairs_in(item, depth + 1)


def _labelled(text: str) -> list[Pair]:
    marks = list(_LABEL.finditer(text))
    ends: Sequence[int] = [*(mark.start() for mark in marks[1:]), len(text)][: len(marks)]
    parts = [
        (mark["label"][0].casefold(), text[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]
    return [
        (question.strip("*_ "), answer.split("\n\n")[0].strip("*_ "))
        for (first, question), (second, answer) in zip(parts, parts[1:], strict=False)
        if (first, second) == ("q", "a")
    ]


def _clean(text: str) -> str:
    """One line without control characters and lone surrogates, which no file takes."""
    kept = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(kept).split())


def _unquoted(part: str, original: str) -> str:
    """A part without the quotation marks around all of it, where the original has none."""
    closing = _QUOTES.get(part[:1])
    if not closing or len(part) < 3 or not part.endswith(closing) or original[:1] in _QUOTES:
        return part
    inner = part[1:-1]
    if part[0] == closing:
        whole = inner.count(closing) % 2 == 0
    else:
        steps = ((char == part[0]) - (char == closing) for char in inner)
        depths = list(accumulate(steps, initial=0))
        whole = min(depths) == 0 == depths[-1]
    return inner.strip() if whole else part
