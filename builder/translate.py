"""Translate: a question becomes its native row."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from builder.records import Drop
from builder.replies import ask, ask_again, read_translation, unfinished
from builder.rules import Translation, translation_faults
from tiebe.engine import Stage
from tiebe.llm import Model, Reply
from tiebe.prompts import Prompt
from tiebe.records import Question
from tiebe.regions import REGIONS, Language

__all__ = ["messages_for", "stage", "translate"]


def messages_for(question: Question, prompt: Prompt) -> list[dict[str, str]]:
    """Returns the messages that ask for a question's translation.

    Raises:
        ValueError: The question's region has no native language.
    """
    region = REGIONS[question.region]
    if region.language is None:
        raise ValueError(f"{region.slug} has no native language")
    return prompt.render(
        question=question.question,
        answer=question.answer,
        language=region.language.name,
        country=region.name,
    )


def translate(question: Question, *, model: Model, prompt: Prompt) -> Iterable[Any]:
    """Returns the native row of an English question, or why there is none.

    The row keeps the English row's id; (id, language) is unique. A faulty translation is asked for
    once more with the fault named.
    """
    messages = messages_for(question, prompt)
    language = REGIONS[question.region].language
    assert language is not None
    reply = ask(model, messages, prompt.schema)
    row, faults = _read(reply, question, language)
    if faults and not unfinished(reply):
        fault = f"The translation is faulty: {'; '.join(faults.values())}. Translate again."
        reply = ask_again(model, messages, prompt.schema, reply, fault)
        row, faults = _read(reply, question, language)
    if reason := unfinished(reply):
        return [Drop("translate", question.id, reason, reply.raw[:200])]
    if row is None or faults:
        unreadable = "unreadable_reply" in faults
        reason = "unreadable_reply" if unreadable else "bad_translation"
        return [Drop("translate", question.id, reason, "; ".join(faults.values()))]
    return [replace(row, prompt=prompt.id)]


def _read(
    reply: Reply, question: Question, language: Language
) -> tuple[Question | None, dict[str, str]]:
    """The native row in a reply, and what is wrong with it."""
    english = question.question, question.answer
    native = read_translation(reply.text, english)
    if native is None:
        return None, {"unreadable_reply": "it could not be read; reply in the form asked for"}
    row = replace(
        question,
        language=language.code,
        question=native[0],
        answer=native[1],
        writer=reply.served_model,
    )
    return row, translation_faults(Translation(english, native, language.code))


def stage(model: Model, prompt: Prompt) -> Stage:
    """Returns the stage: Question to its native row."""

    def run(question: Question) -> Iterable[Any]:
        return translate(question, model=model, prompt=prompt)

    params = {**model.params, "prompt": prompt.sha256}
    return Stage("translate", 2, run, (Question,), params, paid=True)
