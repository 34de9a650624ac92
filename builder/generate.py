"""Generate: a model writes candidate questions from an article."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from builder.records import Article, Candidate, Drop
from builder.replies import ask, ask_again, declined, read_pairs, unfinished
from builder.rules import MONTHS
from tiebe.engine import Stage
from tiebe.llm import Model, count_tokens, find_json
from tiebe.prompts import Prompt

__all__ = ["Grounding", "Writing", "display_date", "generate", "messages_for", "shorten", "stage"]

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？।።]|\n")
_UNREADABLE = "Your reply could not be read. Reply in exactly the form that was asked for."


@dataclass(frozen=True, slots=True)
class Grounding:
    """Who checks whether the article supports an answer."""

    model: Model
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Writing:
    """Who writes, and how."""

    model: Model
    prompt: Prompt
    count: int
    """Candidates asked for."""
    tokens: int = 6000
    """How much of an article the writer is shown."""
    grounding: Grounding | None = None

    @property
    def params(self) -> dict[str, Any]:
        """What a journal key needs."""
        params = {**self.model.params, "prompt": self.prompt.sha256, "count": self.count}
        params["tokens"] = self.tokens
        if self.grounding:
            ground = self.grounding
            params["ground"] = {**ground.model.params, "prompt": ground.prompt.sha256}
        return params


def display_date(start: str, end: str | None = None) -> str:
    """Returns a date as prompts show it: `4 January 2019`, `January 2019`, `a to b`."""

    def one(date: str) -> str:
        parts = date.split("-")
        if len(parts) == 1:
            return date
        name = f"{MONTHS[int(parts[1]) - 1]} {parts[0]}"
        return f"{int(parts[2])} {name}" if len(parts) == 3 else name

    return f"{one(start)} to {one(end)}" if end else one(start)


def shorten(text: str, tokens: int) -> str:
    """Returns the text cut after the last sentence that fits into so many tokens."""
    short = text
    while (count := count_tokens(short)) > tokens and short:
        short = short[: min(len(short) - 1, len(short) * tokens // count)]
    if len(short) == len(text):
        return text
    ends = [m.end() for m in _SENTENCE_END.finditer(short + " ")]
    # A sentence as long as half of the rest is a table or a list: then a word will do.
    end = ends[-1] if ends and ends[-1] > len(short) // 2 else short.rfind(" ")
    return short[:end].rstrip() if end > 0 else short


def messages_for(article: Article, writing: Writing) -> list[dict[str, str]]:
    """Returns the messages that ask for questions on an article's event."""
    event = article.event
    return writing.prompt.render(
        n_questions=writing.count,
        event=event.text,
        date=display_date(event.start or str(event.year), event.end),
        title=article.title,
        content=shorten(article.text, writing.tokens),
    )


def generate(article: Article, writing: Writing) -> Iterable[Any]:
    """Returns the candidates that a model writes from one article, or why there are none."""
    model, schema = writing.model, writing.prompt.schema
    messages = messages_for(article, writing)
    reply = ask(model, messages, schema)
    if not (unfinished(reply) or read_pairs(reply.text) or declined(reply.text)):
        reply = ask_again(model, messages, schema, reply, _UNREADABLE)
    reason = unfinished(reply)
    pairs = read_pairs(reply.text)
    if reason is None and not pairs:
        reason = "no_question" if declined(reply.text) else "unreadable_reply"
    if reason is not None:
        return [Drop("generate", article.id, reason, reply.raw[:200])]
    candidates = [
        Candidate(
            event=article.event,
            article_id=article.id,
            source_url=article.url,
            archive_url=article.archive_url,
            source_title=article.title,
            question=question,
            answer=answer,
            writer=reply.served_model,
            prompt=writing.prompt.id,
        )
        for question, answer in pairs[: writing.count]
    ]
    ground = writing.grounding
    if ground is None:
        return candidates
    content = shorten(article.text, writing.tokens)
    return [
        replace(one, supported=supported(one, content=content, grounding=ground))
        for one in candidates
    ]


def supported(candidate: Candidate, *, content: str, grounding: Grounding) -> bool:
    """Returns whether a model finds the answer in the article; what it does not say is no."""
    messages = grounding.prompt.render(
        question=candidate.question,
        answer=candidate.answer,
        title=candidate.source_title,
        content=content,
    )
    model, schema = grounding.model, grounding.prompt.schema
    reply = ask(model, messages, schema)
    if (verdict := _verdict(reply.text)) is None:
        reply = ask_again(model, messages, schema, reply, _UNREADABLE)
        verdict = _verdict(reply.text)
    return verdict is True


def _verdict(text: str) -> bool | None:
    found = find_json(text)
    verdict = found.get("supported") if isinstance(found, dict) else None
    return verdict if isinstance(verdict, bool) else None


def stage(writing: Writing) -> Stage:
    """Returns the stage: Article to Candidates."""

    def run(article: Article) -> Iterable[Any]:
        return generate(article, writing)

    return Stage("generate", 2, run, (Candidate,), writing.params, paid=True)
