"""Evaluates a model in one call: asks it, judges its answers, scores the verdicts; resumable."""

import contextlib
import datetime as dt
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, Unpack

from tiebe.answers import (
    BASE,
    Item,
    answer,
    answer_stage,
    forms,
    items,
    kept_answers,
    messages_of,
    prompted,
)
from tiebe.batches import has_files
from tiebe.engine import Engine, Stage, pending, run_stage
from tiebe.errors import RecordError, SettingsError
from tiebe.journal import Journal
from tiebe.judges import OFFLINE, Case, Judge, chosen, is_own, measured, usage_of
from tiebe.llm import Ask, Budget, Messages, Model, count_tokens, dollars, open_model
from tiebe.models import find_model
from tiebe.records import (
    VERDICTS,
    Answer,
    Drop,
    Verdict,
    canonical,
    dicts,
    from_row,
    read_rows,
    to_row,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "JudgePlan",
    "Judged",
    "Plan",
    "Requests",
    "Result",
    "Selection",
    "evaluate",
    "event_judge",
    "plan",
    "plan_judging",
]

PROMPT = "event-1"
"""The judge's prompt for questions of this benchmark: their events did happen."""


class Selection(TypedDict, total=False):
    """Which questions are asked: what `tiebe.load_tiebe` takes."""

    region: Any
    language: str
    years: Any
    after: str | None
    before: str | None
    since: str | None
    sample: Literal["mini"] | int | None
    version: str | None
    source: str | Path


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer with its verdict, flat: a row of what is scored."""

    id: str
    """The question's."""
    event_id: str
    region: str
    language: str
    split: str
    year: str
    month: str
    question: str
    answer: str
    model: str
    model_answer: str
    finish: str
    """Why the model stopped: `stop`, `length` (truncated) …, `failed` (there is no answer)."""
    served_model: str
    answer_prompt: str
    correct: bool | None
    refusal: bool
    reasoning: str
    confidence: float | None
    decided_by: str
    judge: str
    prompt: str
    """The judge's."""
    judge_served: str
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens of the judgement."""
    settled_as: bool | None = None
    """See `Verdict`."""


@dataclass(frozen=True)
class Result:
    """What an evaluation gives; shows its table in a notebook.

    Attributes:
        rows: One dict per question with the fields of `Judged`.
        scores: What `tiebe.score` makes of them, by model and split.
        manifest: What was asked, of whom, when, and what it took.
        run: The run folder, if there is one.
    """

    rows: list[dict[str, Any]]
    scores: "pd.DataFrame"
    manifest: Mapping[str, Any]
    run: Path | None = None

    def _shown(self) -> "pd.DataFrame":
        shown = self.scores.drop(columns=["contradictory", "small"], errors="ignore")
        shares = [name for name in shown.columns if shown[name].dtype.kind == "f"]
        return shown.assign(
            **{c: shown[c].map("{:.1%}".format).replace("nan%", "–") for c in shares}
        )

    def _notes(self) -> list[str]:
        from tiebe.scores import judge_notes

        return judge_notes(self.rows)

    def __str__(self) -> str:
        return "\n".join([self._shown().to_string(index=False), *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return self._shown().to_html(index=False, escape=True) + notes


def evaluate(
    model: Ask | Model,
    *,
    judge: Ask | Judge | None = None,
    prompt: str | Path | None = None,
    run: str | Path | None = None,
    cutoff: str | None = None,
    questions: Iterable[Any] | None = None,
    engine: Engine = run_stage,
    **selection: Unpack[Selection],
) -> Result:
    """Asks a model the benchmark's questions, judges its answers and scores the verdicts.

    Args:
        model: A name, a function from prompt to reply, or what `tiebe.llm.open_model` gave.
        judge: A judge's model, `offline` or another, or a `Judge` with its own settings; None: what
            the variable TIEBE_JUDGE names, else `offline`, as the result then says. A model judges
            by TiEBe's own prompt, `event-1`.
        prompt: A version of the prompt `answer`; `paper` by default.
        run: A folder where all is kept: called again, only what is missing is done, and what a
            changed judge must judge anew. It may hold several models. None: what is paid for is
            kept under `TIEBE_HOME`.
        cutoff: The last month, or year, that the model knows of, `2024-06`; None: what is
            published of the paper's models.
        questions: Own rows with `question` and `answer`, instead of a release's.
        engine: What runs the stages: this process, or a `tiebe.ray_engine.RayEngine`.
        **selection: What `tiebe.load_tiebe` takes: region, language, sample, source …

    Raises:
        SettingsError: An unknown model, region …
        ModelError: A model can no longer be asked at all; what was done is kept.
    """
    if cutoff is not None and not re.fullmatch(r"\d{4}(-(0[1-9]|1[0-2]))?", cutoff):
        raise SettingsError(f"cutoff is {cutoff!r}, expected a month or a year, as 2024-06")
    opened, by = _opened(model, judge)
    rows = _questions(questions, selection)
    if run is not None and not str(run).strip():
        raise SettingsError("run is empty: name a folder, or give None to keep none")
    folder = None if run is None else Path(run)
    if folder is not None:
        try:  # no answer is paid for that cannot be kept
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"run: cannot make the folder {run}: {error.strerror}") from error
        _known(folder / "manifest.json")
    started = _now()
    with contextlib.ExitStack() as stack:

        def journal(name: str, *, paid: bool) -> Journal | None:
            if folder is None:
                return None
            return stack.enter_context(Journal(folder / name, fsync=paid))

        answers = answer(
            rows,
            opened,
            prompt=prompt,
            concurrency=by.concurrency,
            journal=journal("answer", paid=True),
            engine=engine,
        )
        judged = _judge(answers, by, journal("judge", paid=by.paid), engine)
    own = {"knowledge_cutoff": cutoff} if cutoff else {}
    table = [to_row(row) | own for row in judged]
    manifest = _manifest(answers, judged, selection) | {"started": started, "ended": _now()}
    manifest["answers"]["parameters"] = opened.params
    if by.cascade is not None:
        manifest["cascade"] = _about_cascade(by, judged)
    manifest["model"] = _about(opened.name, cutoff)
    if folder is not None:
        _keep(folder, opened.name, table, manifest)
    from tiebe.scores import score

    return Result(table, score(table, ("model", "split")), manifest, folder)


SECONDS = 2.0
"""What a call is taken to last before any was made."""
_FREE = ("local", "replay:")
ANSWER_TOKENS, VERDICT_TOKENS = 80, 85
"""Of an answer and a verdict: the mean of seven models on the paper's questions."""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """What requests to models would take, before they are made.

    Attributes:
        usage: Calls and tokens by model name; of answers that there are not yet, an estimate.
        cost: Dollars, where the models' prices are known.
        seconds: At `SECONDS` a call.
        unpriced: The models whose prices would have to be known.
        in_files: Whether all models can be asked in files.
    """

    usage: Mapping[str, Mapping[str, int]]
    cost: float | None
    seconds: float
    unpriced: tuple[str, ...] = ()
    in_files: bool = False
    _priced_by: ClassVar[str] = "--price IN OUT"

    def _lines(self) -> Iterator[str]:
        for name, usage in self.usage.items():
            calls, prompt = usage["calls"], usage["prompt_tokens"]
            completion = usage["completion_tokens"]
            yield f"{name}: {calls:,} calls, about {prompt:,} tokens in, {completion:,} out"
        if self.usage:
            names = " and ".join(self.unpriced)
            cost = f"unknown without the price of {names} ({self._priced_by})"
            if self.cost is not None:
                cost = dollars(self.cost)
            minutes = f"{self.seconds / 60:.0f} min at {SECONDS:g} s a call"
            files = ", within a day in files (--batch)" if self.in_files else ""
            yield f"cost: {cost}; time: about {minutes}{files}"


@dataclass(frozen=True, kw_only=True)
class Plan(Requests):
    """What an evaluation would still ask, before it does.

    Attributes:
        questions: How many there are.
        answers: How many of them are to be asked.
        verdicts: How many answers are to be judged by the judge's model, or offline.
        settled: About how many the offline judge settles for it in a cascade.
    """

    questions: int
    answers: int
    verdicts: int
    settled: int
    _priced_by: ClassVar[str] = "--price IN OUT; of a judge --judge-price IN OUT"

    def __str__(self) -> str:
        first = (
            f"{self.questions:,} questions: {self.answers:,} to be asked, "
            f"{self.verdicts:,} answers to be judged"
            + (f", about {self.settled:,} settled offline" if self.settled else "")
        )
        return "\n".join([first, *self._lines()])


@dataclass(frozen=True, kw_only=True)
class JudgePlan(Requests):
    """What judging rows would still ask, before it does.

    Attributes:
        rows: How many there are.
        known: How many of them are judged already.
        verdicts: How many different answers are to be judged by the judge's model, or offline.
        settled: How many rows the offline judge settles for it in a cascade.
        missing: How many rows have no answer to judge.
        at_most: Whether a cascade is calibrated first, and may then settle some of `verdicts`.
    """

    rows: int
    known: int
    verdicts: int
    settled: int
    missing: int
    at_most: bool

    def __str__(self) -> str:
        first = (
            f"{self.rows:,} rows: {self.known:,} judged already, "
            f"{'at most ' if self.at_most else ''}{self.verdicts:,} to be judged"
            + (f", {self.settled:,} settled offline" if self.settled else "")
            + (f", {self.missing:,} without an answer" if self.missing else "")
        )
        return "\n".join([first, *self._lines()])


def plan(
    model: Ask | Model,
    *,
    judge: Ask | Judge | None = None,
    prompt: str | Path | None = None,
    run: str | Path | None = None,
    questions: Iterable[Any] | None = None,
    budget: Budget | None = None,
    **selection: Unpack[Selection],
) -> Plan:
    """Returns what `evaluate` with the same arguments would ask, and asks nothing.

    Args:
        model: See `evaluate`.
        judge: See `evaluate`.
        prompt: See `evaluate`.
        run: See `evaluate`.
        questions: See `evaluate`.
        budget: Holds the models' prices.
        **selection: See `evaluate`.
    """
    opened, by = _opened(model, judge)
    rows = items(_questions(questions, selection))
    form = forms(prompt or (BASE if opened.completion else None))
    ask, folder = answer_stage(opened, form), None if run is None else Path(run)
    most = min(ANSWER_TOKENS, opened.max_tokens)
    answers: list[Answer] = []
    usage: dict[str, Counter[str]] = {}
    with kept_answers(opened) if folder is None else Journal(folder / "answer") as known:
        for item in (prompted(row, form) for row in rows):
            entry = known.get(ask.key(item))
            if entry is not None and entry.rows:
                answers.append(from_row(Answer, entry.rows[0]))
            else:
                _count(usage, opened.name, messages_of(item, form), most)
    cases = [_case(a) for a in answers]
    sure = by.settle(cases)
    asked = [(a, case) for a, case in zip(answers, cases, strict=True) if by.asks(case, sure)]
    if folder is None:
        seen, journal = by.stage(), by.journal()
        done = sum(seen.key(case) in journal for _, case in asked)
    else:
        stage = _stage(by)
        with Journal(folder / "judge") as judged:
            done = sum(stage.key(a) in judged for a, _ in asked)
    there = {a.question_id for a in answers}
    typical = "x" * 4 * ANSWER_TOKENS
    coming = [_typical(row, typical) for row in rows if row.question_id not in there]
    settled = round(len(answers) - len(asked) + sum(map(by.share_settled, coming)))
    verdicts = len(rows) - settled - done
    _count_verdicts(usage, by, [_typical(row, typical) for row in rows[:verdicts]])
    return Plan(
        questions=len(rows),
        answers=len(rows) - len(answers),
        verdicts=verdicts,
        settled=settled,
        **_requests(usage, [opened, by.asked], by.concurrency, budget),
    )


def plan_judging(
    judge: Judge, rows: Iterable[Any], *, calibrate: bool = False, budget: Budget | None = None
) -> JudgePlan:
    """Returns what a judge of rows would ask, and asks nothing.

    Args:
        judge: The judge.
        rows: See `Judge.__call__`.
        calibrate: Whether its cascade is calibrated first: what it settles is only known then, so
            that nothing counts as settled.
        budget: Holds the model's price.

    Raises:
        RecordError: See `Judge.cases`.
    """
    cases = judge.cases(rows)
    there = [case for case in cases if case is not None]
    settled = {} if calibrate else judge.settle(there)
    asked = [case for case in there if judge.asks(case, settled)]
    stage, journal = judge.stage(), judge.journal()
    _, todo = pending(stage, asked, journal)
    usage: dict[str, Counter[str]] = {}
    _count_verdicts(usage, judge, todo.values())
    return JudgePlan(
        rows=len(cases),
        known=sum(stage.key(case) in journal for case in asked),
        verdicts=len(todo),
        settled=len(there) - len(asked),
        missing=len(cases) - len(there),
        at_most=calibrate,
        **_requests(usage, [judge.asked], judge.concurrency, budget),
    )


def _requests(
    usage: Mapping[str, Mapping[str, int]],
    models: Iterable[Model | None],
    concurrency: int,
    budget: Budget | None,
) -> dict[str, Any]:
    """The fields of `Requests`."""
    budget = budget or Budget()
    unpriced = tuple(n for n in usage if n not in budget.prices and not n.startswith(_FREE))
    return {
        "usage": usage,
        "cost": None if unpriced else sum(budget.price(n, u) for n, u in usage.items()),
        "seconds": sum(u["calls"] for u in usage.values()) * SECONDS / concurrency,
        "unpriced": unpriced,
        "in_files": all(has_files(m) for m in models if m is not None and m.name in usage),
    }


def _count_verdicts(usage: dict[str, Counter[str]], judge: Judge, cases: Iterable[Case]) -> None:
    """Counts what the judge's model is asked on cases, where there is one."""
    if judge.asked is not None:
        most = min(VERDICT_TOKENS, judge.asked.max_tokens)
        for case in cases:
            _count(usage, judge.asked.name, judge.messages(case), most)


def _count(usage: dict[str, Counter[str]], name: str, messages: Messages, completion: int) -> None:
    prompt = sum(count_tokens(message["content"]) for message in messages)
    usage.setdefault(name, Counter()).update(
        calls=1, prompt_tokens=prompt, completion_tokens=completion
    )


def event_judge(model: Ask | Model | None, prompt: str | Path | None = None, **more: Any) -> Judge:
    """Returns a judge of this benchmark's questions: by `PROMPT`, where it reads one at all.

    Without a model it is what the variable TIEBE_JUDGE names, else `offline`: an evaluation must
    work without a key, and each of its verdicts tells who decided it.
    """
    by = chosen(model or os.environ.get("TIEBE_JUDGE") or OFFLINE)
    return Judge(by, prompt or (None if by == OFFLINE else PROMPT), **more)


def _opened(model: Ask | Model, judge: Ask | Judge | None) -> tuple[Model, Judge]:
    by = judge if isinstance(judge, Judge) else event_judge(judge)
    return model if isinstance(model, Model) else open_model(model), by


def _questions(questions: Iterable[Any] | None, selection: Selection) -> list[dict[str, Any]]:
    """The rows to ask: a release's or the caller's own."""
    if questions is None:
        from tiebe.load import load_tiebe

        questions = load_tiebe(**selection)
    elif selection:
        raise SettingsError(f"questions are given, so {', '.join(selection)} cannot select any")
    rows = list(dicts(questions))
    if not rows:
        raise RecordError("there are no questions to ask")
    return rows


def _stage(judge: Judge) -> Stage:
    """The stage of a run folder: an `Answer` to its `Judged`."""
    return judge.stage_of(Judged, lambda answer: _row(answer, judge.decide(_case(answer))))


def _judge(
    answers: Sequence[Answer], judge: Judge, journal: Journal | None, engine: Engine
) -> list[Judged]:
    """Judges the answers that there are; without a journal, verdicts are kept as `Judge` does."""
    there = [a for a in answers if a.finish != "failed"]
    cases = [_case(a) for a in there]
    if journal is None:
        made = iter(judge.verdicts(cases, engine=engine))
    else:
        made = iter(_kept_verdicts(there, cases, judge, journal, engine))
    rows = []
    for a in answers:
        got = Drop("answer", a.id, "failed", a.raw) if a.finish == "failed" else next(made)
        if isinstance(got, Drop):
            got = judge.unscored(got.detail)
        rows.append(_row(a, got) if isinstance(got, Verdict) else got)
    return rows


def _kept_verdicts(
    answers: Sequence[Answer],
    cases: Sequence[Case],
    judge: Judge,
    journal: Journal,
    engine: Engine,
) -> list[Any]:
    """Returns what a run folder has of answers, after judging what it had not: Judged or Drops.

    What the offline judge settles in a cascade is written first, so that a run that was stopped
    does not hold the hard answers only.
    """
    settled = judge.settle(cases)
    sure = {a.id: settled.get(case.id) for a, case in zip(answers, cases, strict=True)}
    asked = {a.id for a, case in zip(answers, cases, strict=True) if judge.asks(case, settled)}
    easy = Stage(
        "judge",
        1,
        lambda answer: [_row(answer, settled[_case(answer).id])],
        (Judged,),
        params=judge.cascade_params,
    )
    hard, workers = _stage(judge), judge.concurrency
    rest = [a for a in answers if a.id not in asked]
    if rest:
        run_stage(easy, rest, journal, workers=workers, progress=judge.progress)
    outcome = engine(
        hard,
        [a for a in answers if a.id in asked],
        journal,
        workers=workers,
        progress=judge.progress,
    )
    made = [
        judge.said(outcome.one(a) if a.id in asked else sure[a.id], sure[a.id]) for a in answers
    ]
    judge.tell(made)
    return made


def _about_cascade(judge: Judge, judged: Sequence[Judged]) -> dict[str, Any]:
    """What was settled offline, and how the sample of it was judged by the model."""
    sample = measured(judged)
    low, high = sample.interval()
    return {
        **judge.cascade_params,
        "calibration": to_row(judge.calibration) if judge.calibration else None,
        "settled": sum(row.settled_as is not None for row in judged),
        "sample": {"n": sample.n, "same": sample.same, "low": low, "high": high},
    }


def _case(answer: Answer) -> Case:
    return Case(
        answer.question,
        (answer.answer,),
        answer.model_answer,
        answer.language or None,
        is_own(answer.region, answer.event_id),
    )


def _typical(item: Item, candidate: str) -> Case:
    """The case that the answer to a question will be."""
    own = is_own(item.region, item.event_id)
    return Case(item.question, (item.answer,), candidate, item.language or None, own)


def _row(answer: Answer, verdict: Verdict) -> Judged:
    return Judged(
        id=answer.question_id,
        event_id=answer.event_id,
        region=answer.region,
        language=answer.language,
        split=answer.split,
        year=answer.year,
        month=answer.month,
        question=answer.question,
        answer=answer.answer,
        model=answer.model,
        model_answer=answer.model_answer,
        finish=answer.finish,
        served_model=answer.served_model,
        answer_prompt=answer.prompt,
        correct=verdict.correct,
        refusal=verdict.refusal,
        reasoning=verdict.reasoning,
        confidence=verdict.confidence,
        decided_by=verdict.decided_by,
        judge=verdict.judge,
        prompt=verdict.prompt,
        judge_served=verdict.served_model,
        usage=verdict.usage,
        settled_as=verdict.settled_as,
    )


def _about(name: str, cutoff: str | None) -> dict[str, Any]:
    """A model's name and how far its knowledge goes."""
    known = find_model(name)
    told = cutoff or (known.cutoff if known else None)
    # Of a year the last day is assumed, and marked as such.
    return {"name": name, "cutoff": told, "cutoff_is_year": bool(told and len(told) == 4)}


def _manifest(
    answers: Sequence[Answer], judged: Sequence[Judged], selection: Mapping[str, Any]
) -> dict[str, Any]:
    """What was asked, of whom, and what it took; nothing secret."""

    def total(usages: Iterable[Mapping[str, int]]) -> dict[str, int]:
        return dict(sum(map(Counter, usages), Counter()))

    # A question that is asked twice is answered once, and an answer that two have judged once.
    asked = {canonical(to_row(a)): a.usage for a in answers}.values()

    def count(values: Iterable[str]) -> dict[str, int]:
        return dict(Counter(filter(None, values)).most_common())

    return {
        "tiebe": installed("tiebe"),
        "questions": {"n": len(answers), **{k: str(v) for k, v in selection.items()}},
        "answers": {
            "prompts": {a.prompt: a.prompt_sha for a in answers},
            "served": count(a.served_model for a in answers),
            "finish": count(a.finish for a in answers),
            "usage": total(asked),
        },
        "verdicts": {
            "judge": count(row.judge for row in judged),
            "prompts": count(row.prompt for row in judged),
            "served": count(row.judge_served for row in judged),
            "decided_by": count(row.decided_by for row in judged),
            "unscored": sum(row.correct is None for row in judged),
            "usage": dict(usage_of(map(_case, answers), judged)),
        },
    }


def _keep(folder: Path, model: str, rows: Sequence[Mapping[str, Any]], manifest: Any) -> None:
    """Puts a model's last evaluation in place of its former one, beside those of other models."""
    table, about = folder / VERDICTS, folder / "manifest.json"
    others = [r for r in read_rows(table) if r["model"] != model] if table.is_file() else []
    known = _known(about)
    evaluations = {**known.get("evaluations", {}), model: manifest}
    _replace(table, b"".join(canonical(row) + b"\n" for row in [*others, *rows]))
    text = json.dumps({**known, "evaluations": evaluations}, ensure_ascii=False, indent=2)
    _replace(about, text.encode() + b"\n")


def _known(about: Path) -> dict[str, Any]:
    """The manifest of a run folder.

    Raises:
        RecordError: It is damaged.
    """
    if not about.is_file():
        return {}
    try:
        known = json.loads(about.read_bytes())
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict) or not isinstance(known.get("evaluations", {}), dict):
        raise RecordError(
            f"{about} is damaged: delete it and run again, which asks nothing that is done"
        )
    return known


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.replace(path)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
