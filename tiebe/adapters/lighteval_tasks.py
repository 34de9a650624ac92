"""TiEBe as tasks of lighteval: `--custom-tasks tiebe.adapters.lighteval_tasks`, task `tiebe|0`.

A task per split, of all regions (`tiebe:english`, `tiebe:native`) and of each
(`tiebe_Brazil:english` …). The judge is the one that TIEBE_JUDGE names. For another source,
revision, judge or prompt, have a file of your own with `TASKS_TABLE = tasks(…)`.

lighteval's own backends (`lighteval endpoint litellm`, `accelerate` …) count by the metric; its
Inspect backend by the scorer of `tiebe.adapters.inspect_tasks`. The command `lighteval eval` of
0.13 takes `--custom-tasks` and ignores it: it finds no tasks of ours.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.solver import generate
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import Metric
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from tiebe.adapters.inspect_tasks import sample, verdict
from tiebe.answers import Item, forms, items, prompt_of, read_reply
from tiebe.evaluation import PROMPT
from tiebe.judges import Judge, verdict_fields
from tiebe.load import HUB
from tiebe.prompts import Prompt
from tiebe.records import to_row
from tiebe.regions import REGIONS
from tiebe.scores import score

__all__ = ["TASKS_TABLE", "Verdicts", "shares", "tasks"]


def tasks(
    source: str | Path = HUB,
    *,
    revision: str | None = None,
    judge: str | None = None,
    prompt: str | Path | None = None,
    judge_prompt: str | Path = PROMPT,
) -> list[LightevalTaskConfig]:
    """Returns the tasks of a release.

    Args:
        source: A repo id of the Hub, or a release folder.
        revision: The release's tag, `v2025.04`; None is the newest. lighteval keeps a model's
            answers by task, revision and a question's place, so name it where releases change.
        judge: As in `tiebe.Judge`.
        prompt: A version of the prompt `answer`; `paper` by default.
        judge_prompt: A version of the prompt `judge`.

    Raises:
        SettingsError: No judge, or an unknown one.
    """
    form = forms(prompt)
    metric = Metric(
        metric_name="tiebe",
        higher_is_better=True,
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=Verdicts(Judge(judge, judge_prompt), form),
        corpus_level_fn=shares,
        batched_compute=True,
    )

    def doc(row: Mapping[str, Any], task_name: str) -> Doc:
        (item,) = items([row])
        query = prompt_of(item, form)
        return Doc(query, [item.answer], 0, task_name=task_name, specific=to_row(item))

    def as_sample(row: Mapping[str, Any]) -> Sample:
        return sample(items([row])[0], form)

    return [
        LightevalTaskConfig(
            name=f"{name}:{split}",
            prompt_function=doc,
            hf_repo=str(source),
            hf_subset=subset,
            hf_revision=revision,
            metrics=[metric],
            solver=[generate()],
            scorer=verdict(judge, prompt, judge_prompt),
            sample_fields=as_sample,
            hf_avail_splits=[split],
            evaluation_splits=[split],
            generation_size=1024,
        )
        for name, subset, splits in _parts()
        for split in splits
    ]


def _parts() -> Iterable[tuple[str, str, Sequence[str]]]:
    """Yields task, config and its splits."""
    both = ("english", "native")
    yield "tiebe", "all", both
    for slug, region in REGIONS.items():
        yield f"tiebe_{slug}", slug, both if region.language else both[:1]


class Verdicts(SampleLevelComputation):
    """Judges the answers of a task, all in one go.

    lighteval gives an empty text for a request that was lost as well, so that is no answer here:
    unscored, and not judged.
    """

    def __init__(self, judge: Judge, form: Callable[[str], Prompt]) -> None:
        # lighteval copies a task with all it holds, which no judge can be, and tells it by these.
        self.judge, self.asked_by = judge.name, form("en").sha256

        def rows(docs: Sequence[Doc], responses: Sequence[ModelResponse]) -> list[dict[str, Any]]:
            answered = []
            for one, response in zip(docs, responses, strict=True):
                answer = read_reply(response.final_text[0], Item(**one.specific), form)
                answered.append({**one.specific, "model_answer": answer or None})
            verdicts = judge(answered)
            return [row | verdict_fields(v) for row, v in zip(answered, verdicts, strict=True)]

        self.rows = rows

    def compute(
        self, docs: Sequence[Doc], responses: Sequence[ModelResponse], **_: Any
    ) -> list[dict[str, Any]]:
        """Returns the rows with their verdicts."""
        return self.rows(docs, responses)


def shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Returns what `tiebe.score` says of all rows together."""
    (line,) = score(rows, ()).to_dict("records")
    names = ("n", "accuracy", "low", "high", "refusal", "unscored")
    return {name: float(line[name]) for name in names}


TASKS_TABLE = tasks()
"""What lighteval looks for."""
