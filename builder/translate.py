"""Translate: a question becomes its native row."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from builder.generate import parse_pairs
from builder.records import Drop
from builder.rules import translation_faults
from tiebe.engine import Stage
from tiebe.llm import Model
from tiebe.prompts import Prompt
from tiebe.records import Question
from tiebe.regions import REGIONS

__all__ = ["stage", "translate"]


def translate(question: Question, *, model: Model, prompt: Prompt) -> Iterable[Any]:
    """Returns the native row of an English question, or why there is none.

    The row keeps the English row's id; (id, language) is unique. A faulty translation is asked for
    once more with the fault named.
    """
    region = REGIONS[question.region]
    language = region.language
    if language is None:
        raise ValueError(f"{region.slug} has no native language")
    messages = prompt.render(
        question=question.question,
        answer=question.answer,
        language=language.name,
        country=region.name,
    )
    reply = model.ask(messages, prompt.schema)
    for attempt in range(2):
        pairs = parse_pairs(reply.text)
        faults: tuple[str, ...] = ("unreadable",)
        if pairs:
            text, answer = pairs[-1]
            faults = translation_faults(question.question, text, language.script)
            if not answer:
                faults += ("empty",)
        if not faults:
            row = replace(
                question,
                language=language.code,
                question=text,
                answer=answer,
                writer=reply.served_model,
                prompt=prompt.id,
            )
            return [row]
        if attempt == 0:
            fault = f"The translation is faulty: {', '.join(faults)}. Translate again, completely."
            said = {"role": "assistant", "content": reply.raw or "(nothing)"}
            again = [*messages, said, {"role": "user", "content": fault}]
            more = 2 * model.max_tokens if reply.finish == "length" else None
            reply = model.ask(again, prompt.schema, max_tokens=more)
    return [Drop("translate", question.id, "bad_translation", ", ".join(faults))]


def stage(model: Model, prompt: Prompt) -> Stage:
    """Returns the stage: Question to its native row."""

    def run(question: Question) -> Iterable[Any]:
        return translate(question, model=model, prompt=prompt)

    params = {**model.params, "prompt": prompt.sha256}
    return Stage("translate", 1, run, (Question,), params, paid=True)
