"""Asks a model the questions: the stage `answer`, from a question to what the model answered."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tiebe.engine import Engine, Stage, run_stage
from tiebe.errors import RecordError
from tiebe.journal import Journal
from tiebe.llm import Ask, Messages, Model, open_model, visible
from tiebe.prompts import Prompt, load_prompt
from tiebe.records import Answer, Drop, dicts, record_id, text_of, to_row
from tiebe.regions import REGIONS, row_language
from tiebe.resources import home

__all__ = [
    "BASE",
    "Item",
    "answer",
    "answer_stage",
    "flat",
    "forms",
    "items",
    "kept_answers",
    "messages_of",
    "prompt_of",
    "prompted",
    "read_reply",
    "without_label",
]

_LABELS = (
    *("Answer", "Final answer", "Short answer"),
    *("Antwort", "Respuesta", "Resposta", "Réponse", "Jawaban", "Ansa", "Bekim", "Cevap", "Yanıt"),
    *("Ответ", "Відповідь", "答案", "回答", "उत्तर", "जवाब", "መልስ"),
)
"""What replies begin with, whatever the prompt asked for; native ones mostly with English."""


BASE = "base-1"
"""The prompt of base models, which go on with a text."""

_ROOM = 4
"""How many times the limit of tokens a reply gets that did not end within it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A question as it is put to a model: of a published row, what decides the answer."""

    question_id: str
    event_id: str
    region: str
    """A slug; empty where it is not known."""
    language: str
    """An ISO 639 code."""
    split: str
    year: str
    month: str
    question: str
    answer: str
    """The expected answer."""
    prompt_sha: str = ""
    """Of the prompt's form in its language: a changed form asks its own language anew."""

    @property
    def id(self) -> str:
        """The question's."""
        return self.question_id


def items(rows: Iterable[Any]) -> list[Item]:
    """Returns the items of rows.

    Args:
        rows: A Dataset, a DataFrame, dicts or `Question` records. Only `question` and `answer`
            are needed; a `language` that is english or native is read as the split.

    Raises:
        RecordError: A row has no text as its question or answer; the message gives its number.
    """
    return [_item(row, number) for number, row in enumerate(dicts(rows), 1)]


def _item(row: Mapping[str, Any], number: int) -> Item:
    for name in ("question", "answer"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise RecordError(f"row {number}: {name}: expected a text, got {row.get(name)!r}")
    region, split, month = (text_of(row, name) for name in ("region", "split", "month"))
    language = row_language(text_of(row, "language"), region, split or "english")
    place = (region, str(row["row"])) if "row" in row else (row["question"],)
    return Item(
        question_id=text_of(row, "id") or text_of(row, "question_id") or record_id(*place),
        event_id=text_of(row, "event_id"),
        region=region,
        language=language,
        split=split or ("english" if language == "en" else "native"),
        year=text_of(row, "year"),
        month=month and month.zfill(2),
        question=row["question"],
        answer=row["answer"],
    )


def forms(prompt: str | Path | None = None) -> Callable[[str], Prompt]:
    """Returns the function from a language to the form of the prompt `answer` in it.

    A native question is asked in the prompt's native form; in the English one where a version has
    none. Each form is read once.
    """
    read: dict[str, Prompt] = {}

    def form(language: str) -> Prompt:
        if language not in read:
            read[language] = load_prompt("answer", prompt, language=language, fallback=True)
        return read[language]

    return form


def answer_stage(model: Model, form: Callable[[str], Prompt]) -> Stage:
    """Returns the stage that asks `model`: an `Item` to its `Answer`; `form` as of `forms`."""

    def run(item: Item) -> Iterator[Answer]:
        words, messages = form(item.language), messages_of(item, form)
        reply = model.ask(messages)
        usage = Counter(reply.usage)
        if reply.finish == "length" and not model.completion:
            reply = model.ask(messages, max_tokens=_ROOM * model.max_tokens)
            usage.update(reply.usage)
        yield Answer(
            question_id=item.question_id,
            event_id=item.event_id,
            region=item.region,
            language=item.language,
            split=item.split,
            year=item.year,
            month=item.month,
            question=item.question,
            answer=item.answer,
            model=model.name,
            model_answer=without_label(reply.text, *words.labels.values()),
            raw=reply.raw,
            served_model=reply.served_model,
            prompt=words.id,
            prompt_sha=words.sha256,
            finish=reply.finish,
            usage=dict(usage),
        )

    return Stage("answer", 1, run, (Answer,), params=model.params, paid=True, cost=model.cost)


def answer(
    rows: Iterable[Any],
    model: Ask | Model,
    *,
    prompt: str | Path | None = None,
    concurrency: int = 16,
    journal: Journal | None = None,
    engine: Engine = run_stage,
) -> list[Answer]:
    """Asks a model the questions of `rows`.

    Args:
        rows: See `items`.
        model: A name, a function from prompt to reply, or what `tiebe.llm.open_model` gave.
        prompt: `paper` (the default; `base-1` for base models), another version, or the path of
            an own template.
        concurrency: How many questions are asked at a time.
        journal: Where answers are kept and found again. None: under `TIEBE_HOME`; but those of
            a function are not kept at all, since its name does not tell what it does.
        engine: What runs the stage.

    Returns:
        One answer per row, in the order of the rows. What could not be had after all retries has
        the finish `failed`, and is asked again by the next call.

    Raises:
        SettingsError: An unknown model, or no key for it.
        ModelError: The model can no longer be asked at all. What was answered is kept.
    """
    opened = model if isinstance(model, Model) else open_model(model)
    form = forms(prompt or (BASE if opened.completion else None))
    asked = [prompted(item, form) for item in items(rows)]
    stage = answer_stage(opened, form)
    with contextlib.ExitStack() as stack:
        if journal is None:
            journal = stack.enter_context(kept_answers(opened))
        outcome = engine(stage, asked, journal, workers=concurrency)
        made = [(item, outcome.one(item)) for item in asked]
    return [
        _failed(item, opened, form(item.language), got.detail) if isinstance(got, Drop) else got
        for item, got in made
    ]


def prompted(item: Item, form: Callable[[str], Prompt]) -> Item:
    """Returns the item with the sha256 of the prompt that it is asked in."""
    return replace(item, prompt_sha=form(item.language).sha256)


def kept_answers(model: Model) -> Journal:
    """Returns the answers of this user outside a run; in memory where they are not kept."""
    return Journal(home() / "answers" if model.lasting else None, fsync=True)


def messages_of(item: Item, form: Callable[[str], Prompt]) -> Messages:
    """Returns how an item is put to a model."""
    region = REGIONS[item.region].phrase if item.region in REGIONS else item.region
    place = region.replace("_", " ") or "the world"
    return form(item.language).render(question=item.question, region=place)


def prompt_of(item: Item, form: Callable[[str], Prompt]) -> str:
    """Returns how an item is put to a model as one text, for harnesses that take no messages."""
    return "\n\n".join(message["content"] for message in messages_of(item, form))


def flat(answer: Answer) -> dict[str, Any]:
    """Returns an answer as a row of a file: the question's id is `id`, as in the release."""
    row = to_row(answer)
    return {
        "id": row.pop("question_id"),
        **{"answer_prompt" if name == "prompt" else name: value for name, value in row.items()},
    }


def _failed(item: Item, model: Model, prompt: Prompt, detail: str) -> Answer:
    names = ("question_id", "event_id", "region", "language", "split", "year", "month")
    return Answer(
        **{name: getattr(item, name) for name in (*names, "question", "answer")},
        model=model.name,
        model_answer="",
        raw=detail,
        served_model="",
        prompt=prompt.id,
        prompt_sha=prompt.sha256,
        finish="failed",
    )


def read_reply(raw: str, item: Item, form: Callable[[str], Prompt]) -> str:
    """Returns the answer in a raw reply to an item: without thoughts, without its label."""
    return without_label(visible(raw), *form(item.language).labels.values())


def without_label(text: str, *labels: str) -> str:
    """Returns an answer without the label it stands behind.

    A label that begins the reply is taken off. Otherwise, as in a reply that thinks aloud first,
    the answer is what follows the last label at the beginning of a line.

    Args:
        text: A model's reply.
        labels: What the prompt asked for, besides the usual words of 13 languages.
    """
    found = list(_pattern(*labels).finditer(text))
    while found:
        match = found[0] if not text[: found[0].start()].strip() else found[-1]
        rest = text[match.end() :].strip()
        if rest.strip("*_`\"'"):
            return _unquoted(text[match.start() : match.end()].strip(), rest)
        found.remove(match)
    return text.strip()


@cache
def _pattern(*labels: str) -> re.Pattern[str]:
    words = "|".join(re.escape(label) for label in dict.fromkeys((*labels, *_LABELS)))
    return re.compile(
        rf"^[ \t>*_#\"'“”«-]*(?:{words})[ \t]*[*_]*[ \t]*[:：][ \t]*[*_]*",
        re.IGNORECASE | re.MULTILINE,
    )


def _unquoted(label: str, rest: str) -> str:
    """Takes off the closing half of what was opened before the label."""
    for opening, closing in (('"', '"'), ("“", "”"), ("«", "»"), ("**", "**")):
        if label.startswith(opening) and rest.endswith(closing):
            shorter = rest.removesuffix(closing).strip()
            if opening not in shorter:
                return shorter
    return rest
