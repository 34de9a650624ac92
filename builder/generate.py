"""Generate: a model writes candidate questions from an article."""

import re
from collections.abc import Iterable
from typing import Any

from builder.records import Article, Candidate, Drop
from tiebe.engine import Stage
from tiebe.llm import Model, count_tokens, find_json
from tiebe.prompts import Prompt

__all__ = ["display_date", "generate", "messages_for", "parse_pairs", "shorten", "stage"]

CONTENT_TOKENS = 6000
"""How much of an article the writer is shown."""

_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_SENTENCE_END = re.compile(r"[.!?。！？।።](?=\s|$|[\u2e80-\u9fff])")
_LABEL = re.compile(
    r"^[\s>#*_\d.)(-]*(?P<label>question|answer)\s*\d*\s*[*_]*\s*[:：][*_]*\s*", re.I | re.M
)


def display_date(start: str, end: str | None = None) -> str:
    """Returns a date as prompts show it: `4 January 2019`, `January 2019`, `a to b`."""

    def one(date: str) -> str:
        parts = date.split("-")
        if len(parts) == 1:
            return date
        name = f"{_MONTHS[int(parts[1]) - 1]} {parts[0]}"
        return f"{int(parts[2])} {name}" if len(parts) == 3 else name

    return f"{one(start)} to {one(end)}" if end else one(start)


def shorten(text: str, tokens: int = CONTENT_TOKENS) -> str:
    """Returns the text cut after the last sentence that fits into so many tokens."""
    if count_tokens(text) <= tokens:
        return text
    cut = int(len(text) * tokens / count_tokens(text))
    ends = [m.end() for m in _SENTENCE_END.finditer(text, 0, cut)]
    return text[: ends[-1] if ends else cut]


def parse_pairs(reply: str) -> list[tuple[str, str]]:
    """Returns the questions and answers of a reply: JSON, fenced or not, or labelled lines."""
    found = find_json(reply)
    if isinstance(found, dict):
        items = found.get("questions")
        rows = items if isinstance(items, list) else [found]
        return [
            (row["question"].strip(), row["answer"].strip())
            for row in rows
            if isinstance(row, dict)
            and isinstance(row.get("question"), str)
            and isinstance(row.get("answer"), str)
        ]
    marks = list(_LABEL.finditer(reply))
    ends = [*(m.start() for m in marks[1:]), len(reply)][: len(marks)]
    parts = [
        (m["label"].casefold(), reply[m.end() : end].strip().strip("*_").strip())
        for m, end in zip(marks, ends, strict=True)
    ]
    return [
        (question, answer.split("\n\n")[0].strip())
        for (first, question), (second, answer) in zip(parts, parts[1:], strict=False)
        if first == "question" and second == "answer"
    ]


def messages_for(article: Article, *, prompt: Prompt, count: int) -> list[dict[str, str]]:
    """Returns the messages that ask for up to `count` questions on an article's event."""
    event = article.event
    return prompt.render(
        n_questions=count,
        event=event.text,
        date=display_date(event.start or str(event.year), event.end),
        title=article.title,
        content=shorten(article.text),
    )


def generate(article: Article, *, model: Model, prompt: Prompt, count: int) -> Iterable[Any]:
    """Returns the candidates that the model writes from one article, or why there are none."""
    event = article.event
    messages = messages_for(article, prompt=prompt, count=count)
    reply = model.ask(messages, prompt.schema)
    if reply.finish == "length":
        reply = model.ask(messages, prompt.schema, max_tokens=2 * model.max_tokens)
    pairs = parse_pairs(reply.text)
    if not pairs and reply.finish == "stop" and not _declined(reply.text):
        fault = "Your reply could not be read. Reply in exactly the form that was asked for."
        said = {"role": "assistant", "content": reply.raw or "(nothing)"}
        reply = model.ask([*messages, said, {"role": "user", "content": fault}], prompt.schema)
        pairs = parse_pairs(reply.text)
    candidates = [
        Candidate(
            event=event,
            article_id=article.id,
            source_url=article.url,
            archive_url=article.archive_url,
            source_title=article.title,
            question=question,
            answer=answer,
            writer=reply.served_model,
            prompt=prompt.id,
        )
        for question, answer in pairs[:count]
    ]
    if candidates:
        return candidates
    reason = {"length": "truncated_reply", "content_filter": "filtered_reply"}.get(reply.finish)
    declined = "no_question" if _declined(reply.text) else "unreadable_reply"
    return [Drop("generate", article.id, reason or declined, reply.raw[:200])]


def _declined(reply: str) -> bool:
    """Whether the writer found nothing to ask, as our prompt allows."""
    found = find_json(reply)
    return isinstance(found, dict) and found.get("questions") == []


def stage(model: Model, prompt: Prompt, count: int) -> Stage:
    """Returns the stage: Article to Candidates."""

    def run(article: Article) -> Iterable[Any]:
        return generate(article, model=model, prompt=prompt, count=count)

    params = {**model.params, "prompt": prompt.sha256, "count": count}
    return Stage("generate", 1, run, (Candidate,), params, paid=True)
