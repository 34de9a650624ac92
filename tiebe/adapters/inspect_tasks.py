"""TiEBe as a task of inspect_ai: `inspect eval tiebe/tiebe --model … -T judge=…`."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState, generate

from tiebe.answers import Item, forms, items, messages_of, read_reply
from tiebe.errors import SettingsError
from tiebe.evaluation import PROMPT, Selection
from tiebe.judges import Judge
from tiebe.load import load_tiebe
from tiebe.prompts import Prompt
from tiebe.records import to_row

__all__ = ["sample", "tiebe", "verdict"]

_ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser}


@task
def tiebe(
    judge: str | None = None,
    prompt: str | Path | None = None,
    judge_prompt: str | Path = PROMPT,
    **selection: Unpack[Selection],
) -> Task:
    """Asks the questions of a release, each in its own language's prompt.

    Args:
        judge: As in `tiebe.Judge`: `offline`, a model's name in tiebe's way of writing it, or what
            TIEBE_JUDGE names.
        prompt: A version of the prompt `answer`; `paper` by default.
        judge_prompt: A version of the prompt `judge`.
        **selection: What `tiebe.load_tiebe` takes: region, language, sample, source … A version
            is written with its v (`-T version=v2025.10`), as Inspect would read a number.

    Raises:
        SettingsError: An unknown judge, region …
    """
    if not isinstance(selection.get("version"), str | None):
        raise SettingsError(
            f"version was read as the number {selection['version']}: write it as v2025.10"
        )
    form = forms(prompt)
    rows = [sample(item, form) for item in items(load_tiebe(**selection))]
    return Task(
        dataset=MemoryDataset(rows, name="tiebe"),
        solver=generate(),
        scorer=verdict(judge, prompt, judge_prompt),
        config=GenerateConfig(temperature=0.0),
    )


def sample(item: Item, form: Callable[[str], Prompt]) -> Sample:
    """Returns a question as Inspect's sample; its metadata are the item's fields.

    Args:
        item: The question.
        form: As of `tiebe.answers.forms`.
    """
    return Sample(
        input=[_ROLES[m["role"]](content=m["content"]) for m in messages_of(item, form)],
        target=item.answer,
        id=f"{item.id}-{item.language}",
        # Intervals are by event; a question of no known event is one of its own.
        metadata=to_row(item) | {"event_id": item.event_id or item.id},
    )


@metric
def count() -> Metric:
    """Counts the samples for which a score is 1."""

    def total(scores: list[SampleScore]) -> float:
        return float(sum(score.score.as_float() for score in scores))

    return total


@scorer(
    metrics={
        "correct": [accuracy(), stderr(cluster="event_id")],
        "refusal": [mean()],
        "unscored": [count()],
    }
)
def verdict(
    judge: str | None = None,
    prompt: str | Path | None = None,
    judge_prompt: str | Path = PROMPT,
) -> Scorer:
    """Scores a reply by a `tiebe.Judge`: 1 or 0 for `correct`, `refusal` and `unscored`.

    What is unscored is neither right nor wrong: NaN as `correct` and `refusal`, which Inspect
    leaves out of its metrics.

    Args:
        judge: As of `tiebe`.
        prompt: The prompt that asked, whose label is taken off.
        judge_prompt: As of `tiebe`.
    """
    by, form = Judge(judge, judge_prompt, progress=False), forms(prompt)

    async def score(state: TaskState, target: Target) -> Score:
        item = Item(**state.metadata)
        answer = read_reply(state.output.completion, item, form)
        row = to_row(item) | {"model_answer": answer}
        (got,) = await anyio.to_thread.run_sync(by, [row])
        unscored = got.correct is None
        return Score(
            value={
                "correct": math.nan if got.correct is None else float(got.correct),
                "refusal": math.nan if unscored else float(got.refusal),
                "unscored": float(unscored),
            },
            answer=answer,
            explanation=got.reasoning,
            reason="grader_failed" if unscored else "refusal" if got.refusal else None,
            metadata={"judge": got.judge, "decided_by": got.decided_by, "prompt": got.prompt},
        )

    return score
