"""Judges short answers of fact: correct, incorrect, a refusal, or unscored; never guessed.

`judge` takes one answer, `Judge` many. A judge is a language model under one of the prompts
`judge`, or `offline`, which learned from a language model's verdicts and needs no key and no
network. What a language model's reply does not say is asked for once more and is then unscored
(`correct` is None): neither right nor wrong, and always counted.
"""

import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tiebe.cascade import Agreement, Calibration, cascade_name, drawn, expected_share, wanted
from tiebe.engine import Engine, Outcome, Stage, run_stage
from tiebe.errors import RecordError, SettingsError
from tiebe.journal import Journal
from tiebe.lexical import fold
from tiebe.llm import Ask, Model, Reply, json_objects, open_model
from tiebe.models import PROVIDERS
from tiebe.offline import (
    IMITATES,
    NAME,
    Judgement,
    judge_offline,
    least_confidence,
    settles,
)
from tiebe.prompts import Prompt, load_prompt
from tiebe.records import Drop, Verdict, canonical, dicts, from_row, record_id, text_of, to_row
from tiebe.regions import LANGUAGES, REGIONS, row_language
from tiebe.resources import home

__all__ = [
    "OFFLINE",
    "Case",
    "Judge",
    "chosen",
    "is_own",
    "judge",
    "measured",
    "read_verdict",
    "usage_of",
    "verdict_fields",
]

log = logging.getLogger(__name__)

OFFLINE = "offline"
_TRUTH = {"yes": True, "true": True, "no": False, "false": False}
_FIELDS = ("question", "answer", "model_answer", "language")
_MAX_REASONING, _MAX_RAW = 4_000, 20_000  # characters: a stranger's reply may be of any length


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge sees."""

    question: str
    expected: tuple[str, ...]
    """The accepted answers."""
    candidate: str
    language: str | None = None
    """ISO 639 code of the question's language; None where it is not known."""
    own: bool = False
    """Whether the question is TiEBe's: what the offline judge was measured on."""

    @property
    def id(self) -> str:
        """From all that a judge sees."""
        return record_id(self.question, *self.expected, self.candidate, self.language)


@dataclass
class Judge:
    """A judge of many answers: `Judge("gpt-4o")(rows)` gives a `Verdict` for each row.

    Verdicts of a language model are kept under `TIEBE_HOME` and never paid for twice, across
    crashes too; those of a function are not, since its name does not tell what it does.

    Attributes:
        model: `offline`, a model's name, a function from prompt to reply, or what
            `tiebe.llm.open_model` gave. None: what the variable TIEBE_JUDGE names.
        prompt: A version of the prompt `judge` or the path of an own template; None is the newest
            general one. `event-1` is TiEBe's own.
        columns: Own names of the fields `question`, `answer` (a text, or the list of all accepted
            ones), `model_answer` and `language`, as `{"answer": "gold"}`. An empty `model_answer`
            is an answer, and wrong; null or NaN is none, and unscored.
        concurrency: How many answers are judged at a time.
        cache: Whether verdicts are looked for and kept under `TIEBE_HOME`.
        prompt_language: `native` takes the prompt in the question's language where it has one.
        unanswerable: The expected answer by which a benchmark says that there is none; to decline
            is then correct.
        progress: Whether a progress bar goes to stderr.
        cascade: How surely, as 0.99, the offline judge must agree with the model that it imitates
            to settle an answer; yours judges the rest, and 3 % of the settled, to tell how far
            both agree. None: it judges all. Nothing is settled in a language that the offline
            judge has not learned, nor, before `calibrate`, of a row that is not TiEBe's own:
            without an `event_id`, or a `region` among `tiebe.REGIONS`.
        calibration: What `calibrate` found, now or in an earlier process; None: nothing yet.

    Raises:
        SettingsError: No or an unknown model, no key for it, an unknown field.
        PromptError: No such prompt.
    """

    model: Ask | Model | None = None
    prompt: str | Path | None = None
    columns: Mapping[str, str] | None = None
    concurrency: int = 16
    cache: bool = True
    prompt_language: Literal["english", "native"] = "english"
    unanswerable: str | None = None
    progress: bool = True
    cascade: float | None = None
    calibration: Calibration | None = field(init=False, default=None)
    _decide: "_Offline | _LanguageModel" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.prompt_language not in ("english", "native"):
            raise SettingsError(
                f"prompt_language is {self.prompt_language!r}, expected 'english' or 'native'"
            )
        if unknown := [name for name in self.columns or () if name not in _FIELDS]:
            raise SettingsError(
                f"columns names {unknown[0]!r}; what a judge reads is {', '.join(_FIELDS)}: "
                "rename others in the rows"
            )
        model = chosen(self.model)
        if model == OFFLINE:
            names = {"prompt": None, "prompt_language": "english", "cascade": None}
            for name, default in names.items():
                if (given := getattr(self, name)) != default:
                    raise SettingsError(
                        f"{name} is {str(given)!r}, and the judge 'offline' asks no model: leave "
                        "it out, or name a language model"
                    )
            self._decide = _Offline()
        else:
            opened = model if isinstance(model, Model) else open_model(model)
            self._decide = _LanguageModel(opened, self._form(), native=self._native)
        if self.cascade is not None:
            if not 0.5 < self.cascade < 1 or not least_confidence(self.cascade):
                raise SettingsError(
                    f"cascade is {self.cascade}, expected the agreement with the model that is "
                    "wanted of what the offline judge settles, as 0.97 or 0.99; 0.995 is the most"
                )
            self.calibration = self._known_calibration()

    @property
    def _native(self) -> bool:
        return self.prompt_language == "native"

    def _form(self) -> Callable[[str | None], Prompt]:
        read: dict[str | None, Prompt] = {}

        def form(language: str | None) -> Prompt:
            code = language if self._native else None
            if code not in read:
                read[code] = load_prompt("judge", self.prompt, language=code, fallback=True)
            return read[code]

        return form

    @property
    def name(self) -> str:
        """Who judges, as every verdict says."""
        if self.cascade is None:
            return self._decide.name
        return cascade_name(self._decide.name, self.cascade, NAME)

    @property
    def asked(self) -> Model | None:
        """The language model behind it; None where it needs none."""
        return self._decide.model if isinstance(self._decide, _LanguageModel) else None

    @property
    def prompt_sha(self) -> str:
        """sha256 of the prompt (its English form); empty for `offline`."""
        return self._decide.prompt.sha256 if isinstance(self._decide, _LanguageModel) else ""

    @property
    def params(self) -> dict[str, Any]:
        """All that decides a verdict besides the case; of a cascade, one of its model."""
        return {**self._decide.params, "unanswerable": self.unanswerable}

    @property
    def paid(self) -> bool:
        """Whether a verdict costs money or time worth keeping it for."""
        return isinstance(self._decide, _LanguageModel)

    def decide(self, case: Case) -> Verdict:
        """Returns the verdict on one case; in a cascade, that of its model.

        Raises:
            Wait: The model is busy or out of reach for now.
            ModelError: It refused for good.
        """
        return self._answerable(case, self._decide(case))

    def _answerable(self, case: Case, verdict: Verdict) -> Verdict:
        """Turns the verdict on a refusal where there is no answer."""
        if self.unanswerable is not None and verdict.correct is not None:
            gold = self.unanswerable.casefold().strip()
            if any(text.casefold().strip() == gold for text in case.expected):
                right = verdict.correct or verdict.refusal
                return replace(verdict, correct=right, refusal=right)
        return verdict

    def cases(self, rows: Iterable[Any]) -> list[Case | None]:
        """Returns what the judge sees of rows; None of one whose answer could not be had.

        Raises:
            RecordError: A row lacks a field or has another type there; it is named.
        """
        names = {name: name for name in _FIELDS} | dict(self.columns or {})
        return [_case(row, names, number) for number, row in enumerate(dicts(rows), 1)]

    def __call__(self, rows: Iterable[Any], *, engine: Engine = run_stage) -> list[Verdict]:
        """Judges rows: dicts, a Dataset, a DataFrame or records with the fields of `columns`.

        Args:
            rows: What is judged.
            engine: What runs the stage.

        Returns:
            One verdict per row, in the order of the rows. What could not be judged after all
            retries is unscored, and is tried again by the next call.

        Raises:
            RecordError: See `cases`.
            ModelError: The model can no longer be asked at all. What was judged is kept.
        """
        return self.verdicts(self.cases(rows), engine=engine)

    def verdicts(
        self, cases: Sequence[Case | None], *, engine: Engine = run_stage
    ) -> list[Verdict]:
        """Judges cases; see `__call__`. What is None is unscored."""
        there = [case for case in cases if case is not None]
        settled = self.settle(there)
        outcome = engine(
            self.stage(),
            [case for case in there if self.asks(case, settled)],
            self.journal(),
            workers=self.concurrency if self.paid else 1,
            progress=self.progress,
        )
        lost = Drop("judge", "", "failed", "there is no answer to judge")

        def made(case: Case | None) -> Verdict:
            sure = None if case is None else settled.get(case.id)
            got: Any = lost
            if case is not None:
                got = outcome.one(case) if self.asks(case, settled) else sure
            verdict: Verdict = self.said(got, sure)
            return verdict

        verdicts = [made(case) for case in cases]
        self.tell(verdicts)
        return verdicts

    def settle(self, cases: Sequence[Case]) -> dict[str, Verdict]:
        """Returns, by the ids of cases, the verdicts of which the offline judge is sure enough.

        There are none without a cascade. Where it was calibrated, what was measured decides;
        before, only answers to TiEBe's own questions are settled.
        """
        if self.cascade is None:
            return {}
        known = [case for case in cases if self._measured(case)]
        if others := len(cases) - len(known):
            why = (
                f"as calibrated, {self.calibration}"
                if self.calibration
                else "as they are not to TiEBe's questions; measure it on them by "
                "Judge.calibrate(rows), or --calibrate 300"
            )
            log.warning("cascade: off for %d of %d answers, %s", others, len(cases), why)
        if not known:
            return {}
        sure = self._surely(known)
        made = ((case.id, sure.one(case)) for case in known)
        settled = {key: got for key, got in made if isinstance(got, Verdict)}
        if not settled:
            log.info("cascade: none of %d settled, it is sure enough of none", len(known))
        return settled

    def _measured(self, case: Case) -> bool:
        """Whether it is known how far the offline judge can be trusted with such a case."""
        return case.own if self.calibration is None else self.calibration.holds

    def asks(self, case: Case, settled: Mapping[str, Verdict]) -> bool:
        """Returns whether the model judges a case: one that is not settled, or of the sample."""
        return case.id not in settled or drawn(case.id)

    def said(self, got: Any, sure: Verdict | None) -> Any:
        """Returns the verdict on a case.

        Args:
            got: What the model said, or the offline judge where the model was not asked: a Verdict,
                another record with its fields, or a Drop.
            sure: The offline judge's verdict, where it settles the case. It stands where the model
                was asked as well and gave none.
        """
        if isinstance(got, Drop):
            return sure if sure is not None else self.unscored(got.detail)
        if self.cascade is None:
            return got
        if sure is not None and got.correct is None:
            return replace(sure, usage=got.usage)
        by = got.judge
        judge = by if by.startswith(self.name) else by.replace(self._decide.name, self.name, 1)
        return replace(got, judge=judge, settled_as=None if sure is None else sure.correct)

    def share_settled(self, case: Case) -> float:
        """Returns an estimate of whether a case will be settled whose answer is not known yet."""
        if self.cascade is None:
            return 0.0
        learned = (case.language or "en") in least_confidence(self.cascade)
        if not (learned and self._measured(case)):
            return 0.0
        return 1 - self.calibration.kept if self.calibration else expected_share(self.cascade)

    def tell(self, verdicts: Iterable[Any]) -> Agreement | None:
        """Logs what a cascade came to, a warning where it surely falls short; None without one."""
        if self.cascade is None:
            return None
        verdicts = list(verdicts)
        settled = sum(verdict.settled_as is not None for verdict in verdicts)
        agreement = measured(verdicts)
        if not settled:  # `settle` has said why
            return agreement
        short = agreement.misses(self.cascade)
        log.log(
            logging.WARNING if short else logging.INFO,
            "cascade: %d of %d settled%s%s",
            *(settled, len(verdicts), agreement.of_sample(settled)),
            f": BELOW the {self.cascade:.1%} wanted, judge without cascade" if short else "",
        )
        return agreement

    def _surely(self, cases: Sequence[Case]) -> Outcome:
        """Runs the offline judge: to a case its verdict, or a Drop where it is not sure enough."""
        offline, target = _Offline(), self.cascade or 1.0

        def run(case: Case) -> Iterator[Verdict | Drop]:
            said = _offline_says(case)
            if not settles(said, target):
                yield Drop(OFFLINE, case.id, "unsure", said.doubt or f"{said.confidence:.4f}")
                return
            verdict = self._answerable(case, offline.told(said))
            yield replace(verdict, judge=self.name, settled_as=verdict.correct)

        stage = Stage(OFFLINE, 1, run, (Verdict,), params=self.cascade_params)
        return run_stage(stage, cases, Journal(None), workers=1, progress=self.progress)

    @property
    def cascade_params(self) -> dict[str, Any]:
        """All that decides whether the offline judge settles a case; empty without a cascade."""
        if self.cascade is None:
            return {}
        return {
            "offline": NAME,
            "target": self.cascade,
            "least_confidence": least_confidence(self.cascade),
            "unanswerable": self.unanswerable,
        }

    def calibrate(self, rows: Iterable[Any], n: int = 300) -> Calibration:
        """Measures on one's own rows how far the offline judge agrees with the model.

        From then on the cascade settles answers of such rows too, unless what it would settle
        surely falls short of `cascade`. What was found is kept under `TIEBE_HOME`, as verdicts
        are, and holds for the same columns, model, prompt and agreement; the verdicts are not paid
        for again when all rows are judged.

        Args:
            rows: As in `__call__`.
            n: How many of them are judged by both, drawn by their hashes.

        Raises:
            SettingsError: There is no cascade.
            RecordError: There is no answer in the rows; see `cases`.
            ModelError: The model cannot be asked.
        """
        if self.cascade is None or self.asked is None:
            raise SettingsError("there is nothing to calibrate: give cascade=, as 0.99")
        cases = {case.id: case for case in self.cases(rows) if case is not None}
        some = [cases[key] for key in sorted(cases)[: max(0, n)]]
        if not some:
            raise RecordError("there is no answer to calibrate the cascade on")
        outcome = run_stage(
            *(self.stage(), some, self.journal()),
            workers=self.concurrency,
            progress=self.progress,
        )
        sure = self._surely(some)
        got = [(outcome.one(case), sure.one(case)) for case in some]
        judged = [(v, s) for v, s in got if isinstance(v, Verdict) and v.correct is not None]
        pairs = [(v.correct, s.settled_as) for v, s in judged if isinstance(s, Verdict)]
        if not judged:
            raise RecordError(f"{self._decide.name} gave a verdict on none of {len(some)} answers")
        agreement = Agreement.of(pairs)
        usage = sum((Counter(v.usage) for v, _ in judged), Counter[str]())
        self.calibration = Calibration(
            judge=self.name,
            target=self.cascade,
            n=len(judged),
            settled=agreement.n,
            same=agreement.same,
            usage=dict(usage),
            cost=self.asked.cost(usage) if self.asked.cost else None,
        )
        if self._lasting:
            path = self._calibration_file()
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(path.name + ".new")
            new.write_bytes(canonical(to_row(self.calibration)) + b"\n")
            new.replace(path)
        return self.calibration

    def _calibration_file(self) -> Path:
        columns = sorted((self.columns or {}).items())
        key = canonical([columns, self.params, self.cascade_params])
        return home() / "calibrations" / f"{hashlib.sha256(key).hexdigest()}.json"

    def _known_calibration(self) -> Calibration | None:
        path = self._calibration_file()
        if not (self._lasting and path.is_file()):
            return None
        try:
            known = from_row(Calibration, json.loads(path.read_bytes()), where=str(path))
            if not (0 <= known.same <= known.settled <= known.n and known.target == self.cascade):
                raise ValueError("its numbers cannot be")
        except (RecordError, ValueError, RecursionError) as error:
            raise RecordError(f"{path}: no calibration: delete it and calibrate again") from error
        return known

    @property
    def _lasting(self) -> bool:
        """Whether what was decided is kept beyond this process."""
        return self.cache and self.asked is not None and self.asked.lasting

    def stage(self) -> Stage:
        """Returns the stage from a `Case` to its `Verdict`."""
        return self.stage_of(Verdict, lambda case: self.decide(case))

    def stage_of(self, makes: type, run: Callable[[Any], Any]) -> Stage:
        """Returns the stage `judge` with another input and output than a case and a verdict."""
        return Stage(
            "judge",
            1,
            lambda record: [run(record)],
            (makes,),
            params=self.params,
            paid=self.paid,
            cost=self.asked.cost if self.asked else None,
        )

    def journal(self) -> Journal:
        """Returns where verdicts are kept: under `TIEBE_HOME`, or in memory."""
        return _kept(home() / "verdicts") if self._lasting else Journal(None)

    def messages(self, case: Case) -> list[dict[str, str]]:
        """Returns how a case is put to the language model; nothing where there is none."""
        return self._decide.messages(case) if isinstance(self._decide, _LanguageModel) else []

    def unscored(self, reason: str) -> Verdict:
        """Returns the verdict on what could not be judged."""
        return replace(self._decide.verdict(None, refusal=False, reasoning=reason), judge=self.name)


def judge(
    question: str,
    expected: str | Sequence[str],
    candidate: str,
    *,
    model: Ask | Model | None = None,
    prompt: str | Path | None = None,
    language: str | None = None,
    **options: Any,
) -> Verdict:
    """Judges one answer.

    Args:
        question: The question.
        expected: The expected answer, or all that are accepted.
        candidate: The answer to judge.
        model: `offline` needs no key; else as in `Judge`.
        prompt: As in `Judge`.
        language: ISO 639 code of the question's language, where it is known.
        **options: Other fields of `Judge`.

    Raises:
        SettingsError: No or an unknown model, no key for it.
        ModelError: The model cannot be asked.
    """
    row = dict(zip(_FIELDS, (question, expected, candidate, language), strict=True))
    return Judge(model, prompt, **{"progress": False, **options})([row])[0]


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """Returns what a verdict adds to a row of a file."""
    row = to_row(verdict)
    names = ["correct", "refusal", "reasoning", "confidence", "decided_by", "judge", "prompt"]
    if wanted(verdict.judge):
        names.append("settled_as")
    return {name: row[name] for name in names}


def measured(verdicts: Iterable[Any]) -> Agreement:
    """Returns how the model judged what the offline judge had settled, where both did."""
    return Agreement.of(
        (verdict.correct, verdict.settled_as)
        for verdict in verdicts
        if verdict.decided_by != OFFLINE
        and verdict.correct is not None
        and verdict.settled_as is not None
    )


def usage_of(cases: Iterable[Case | None], verdicts: Iterable[Any]) -> Counter[str]:
    """Returns what verdicts on cases took, where a case that several rows have was judged once."""
    pairs = zip(cases, verdicts, strict=True)
    once = {case.id: verdict.usage for case, verdict in pairs if case is not None}
    return sum(map(Counter, once.values()), Counter())


def is_own(region: str, event_id: str) -> bool:
    """Returns whether a row with these fields is TiEBe's."""
    return region in REGIONS and bool(event_id)


def chosen(model: Ask | Model | None) -> Ask | Model:
    """Returns the judge's model, given or named by TIEBE_JUDGE.

    Raises:
        SettingsError: There is none.
    """
    if model is None:
        model = os.environ.get("TIEBE_JUDGE", "").strip() or None
    if model is None:
        names = ", ".join(f"'{name}'" for name in (*(f"{p}:NAME" for p in PROVIDERS), "local"))
        raise SettingsError(
            "no judge is chosen: give model= (--model; judge=, --judge to evaluate) or set "
            "TIEBE_JUDGE to 'offline' (no key needed), a model of the paper such as 'gpt-4o', "
            f"{names}, or a function"
        )
    return model


@cache
def _kept(folder: Path) -> Journal:
    """The verdicts of this user, opened once per process."""
    return Journal(folder, fsync=True)


def _case(row: Mapping[str, Any], names: Mapping[str, str], number: int) -> Case | None:
    """The case of a row; None where a model gave no answer at all."""
    for name in ("question", "answer", "model_answer"):
        if names[name] not in row:
            raise RecordError(
                f"row {number}: {names[name]}: there is no such field; columns= "
                f"(--column {name}=…) names another"
            )
    if row.get("finish") == "failed" or row[names["model_answer"]] is None:
        return None

    def text(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise RecordError(f"row {number}: {names[name]}: expected a text, got {value!r:.80}")
        return value

    question, expected, candidate, language = (row.get(names[name]) for name in _FIELDS)
    if isinstance(expected, str) or not isinstance(expected, Iterable):
        expected = (expected,)
    accepted = tuple(text("answer", one) for one in expected)
    if not accepted:
        raise RecordError(f"row {number}: {names['answer']}: no accepted answer is given")
    region = text_of(row, "region")
    code = row_language(text("language", language or ""), region, text_of(row, "split"))
    own = is_own(region, text_of(row, "event_id"))
    return Case(
        text("question", question), accepted, text("model_answer", candidate), code or None, own
    )


def _offline_says(case: Case) -> Judgement:
    (said,) = judge_offline([case.question], [case.expected], [case.candidate], [case.language])
    return said


class _Offline:
    """The judge without a model."""

    name = f"{NAME}, imitates {IMITATES}"
    decided_by = OFFLINE
    params: Mapping[str, Any] = {"model": name}

    def __call__(self, case: Case) -> Verdict:
        return self.told(_offline_says(case))

    def told(self, said: Judgement) -> Verdict:
        if said.refusal:
            reasoning = "it declines to answer"
        elif said.correct:
            reasoning = "it says what is expected"
        else:
            reasoning = "what is expected is missing or contradicted"
        if said.doubt:
            reasoning += f"; in doubt: {said.doubt}"
        verdict = self.verdict(said.correct, refusal=said.refusal, reasoning=reasoning)
        return replace(verdict, confidence=said.confidence)

    def verdict(self, correct: bool | None, *, refusal: bool, reasoning: str) -> Verdict:
        return Verdict(
            correct=correct,
            refusal=refusal,
            reasoning=reasoning,
            confidence=None,
            decided_by=self.decided_by,
            judge=self.name,
            served_model="",
            prompt="",
        )


class _LanguageModel:
    """A language model under a prompt."""

    def __init__(self, model: Model, form: Callable[[str | None], Prompt], *, native: bool) -> None:
        self.model, self._form = model, form
        self.name = self.decided_by = model.name
        self.prompt = form(None)
        codes = [None, *LANGUAGES] if native else [None]
        shas = sorted({form(code).sha256 for code in codes})
        self.params: Mapping[str, Any] = {**model.params, "prompt": shas}

    def __call__(self, case: Case) -> Verdict:
        """Asks; a reply without a verdict is asked for once more, with its fault named."""
        prompt, messages = self._form(case.language), self.messages(case)
        schema = prompt.schema
        reply = self.model.ask(messages, schema)
        usage = Counter(reply.usage)
        read = _read(reply, prompt, case.candidate)
        if isinstance(read, str):
            said = [{"role": "assistant", "content": reply.text[:2000]}] if reply.text else []
            again = (
                f"That reply cannot be used: {read}. Reply again, exactly in the form asked for."
            )
            room = 2 * self.model.max_tokens if reply.finish == "length" else None
            messages = [*messages, *said, {"role": "user", "content": again}]
            reply = self.model.ask(messages, schema, max_tokens=room)
            read = _read(reply, prompt, case.candidate)
            usage.update(reply.usage)
        if isinstance(read, str):
            verdict = self.verdict(None, refusal=False, reasoning=f"unscored: {read}")
        elif read.refusal is not None:
            verdict = self.verdict(read.correct, refusal=read.refusal, reasoning=read.reasoning)
        else:  # the paper's prompt does not ask for it
            refusal = not read.correct and _offline_says(case).refusal
            verdict = self.verdict(read.correct, refusal=refusal, reasoning=read.reasoning)
            verdict = replace(verdict, judge=f"{self.name}, refusal by the offline rule")
        return replace(
            verdict,
            prompt=prompt.id,
            served_model=reply.served_model,
            usage=dict(usage),
            raw=reply.raw[:_MAX_RAW],
        )

    def messages(self, case: Case) -> list[dict[str, str]]:
        expected = case.expected[0] if len(case.expected) == 1 else list(case.expected)
        return self._form(case.language).render(
            question=case.question, expected=expected, candidate=case.candidate
        )

    def verdict(self, correct: bool | None, *, refusal: bool, reasoning: str) -> Verdict:
        return Verdict(
            correct=correct,
            refusal=refusal,
            reasoning=reasoning[:_MAX_REASONING],
            confidence=None,
            decided_by=self.decided_by,
            judge=self.name,
            served_model="",
            prompt=self.prompt.id,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """What a reply says."""

    correct: bool
    refusal: bool | None
    """None where the prompt does not ask for it."""
    reasoning: str


def _read(reply: Reply, prompt: Prompt, candidate: str) -> Read | str:
    if reply.finish == "length":
        return "it was cut off before its end"
    if reply.finish == "content_filter":
        return "the provider's filter withheld it"
    return read_verdict(reply.text, prompt, candidate)


def read_verdict(text: str, prompt: Prompt, candidate: str = "") -> Read | str:
    """Returns the LAST valid verdict in a judge's reply, or what is wrong with the reply.

    A reply is read as JSON where the prompt asks for JSON, and else, or where there is none, as
    labelled lines (`Correct: yes`); a prompt that asks for lines is read the other way round. Only
    what stands by itself is a verdict, never words inside a sentence; and what the candidate's own
    words say in its favour is a quotation.
    """
    if not text.strip():
        return "it is empty"
    ways = [_json_verdict, _line_verdict]
    for way in ways if prompt.schema else reversed(ways):
        read = way(text, prompt, candidate)
        if read is not None:
            break
    else:
        return "there is no verdict in it"
    if read.correct and read.refusal:
        return "an answer cannot be both correct and a refusal"
    return read


def _truth(value: object) -> bool | None:
    if isinstance(value, str):
        return _TRUTH.get(value.strip().casefold())
    return value if isinstance(value, bool) else None


def _json_verdict(text: str, prompt: Prompt, candidate: str) -> Read | None:
    must_refuse = "refusal" in (prompt.schema or {}).get("required", ())
    quoted = list(json_objects(candidate))
    found = None
    for value in json_objects(text):
        correct, refusal = _truth(value.get("correct")), _truth(value.get("refusal"))
        whole = correct is not None and (refusal is not None or not must_refuse)
        if whole and not (correct and value in quoted):
            found = Read(bool(correct), refusal, str(value.get("reasoning") or "").strip())
    return found


def _line_verdict(text: str, prompt: Prompt, candidate: str) -> Read | None:
    quoted = any(
        name == "correct" and value for name, value, _ in _line_verdicts(candidate, prompt)
    )
    found: dict[str, bool] = {}
    start = len(text)
    for name, value, at in _line_verdicts(text, prompt):
        if not (quoted and name == "correct" and value):
            found[name] = value
            start = min(start, at)
    if "correct" in found:
        label = re.escape(prompt.labels.get("reasoning", "Reasoning"))
        reasoning = re.sub(rf"^\W*{label}\W*", "", text[:start], flags=re.IGNORECASE)
        return Read(found["correct"], found.get("refusal"), reasoning.strip())
    body, _, last = text.strip().rpartition("\n")
    word = _BARE.fullmatch(last)
    if word is None or any(map(_BARE.fullmatch, candidate.splitlines())):
        return None
    return Read(word[1].casefold() == "correct", word[1].casefold() == "refusal", body.strip())


def _line_verdicts(text: str, prompt: Prompt) -> Iterator[tuple[str, bool, int]]:
    """Yields the lines `Correct: yes` and the like: name, value and place."""
    pattern, values = _lines(*sorted(prompt.labels.items()))
    for match in pattern.finditer(text):
        value, rest = values[fold(match["value"])], match["rest"].strip()
        others = {word for word, truth in values.items() if truth is not value}
        if not rest or (rest[0] in _AFTER and not others & set(_WORD.findall(fold(rest)))):
            yield "refusal" if match["refusal"] else "correct", value, match.start()
        # else an echo of the form, "yes|no", or a sentence


_AFTER = "*_)\"'”»!.,;:(–—-。，।።"
_WORD = re.compile(r"[^\W\d_]+")
_BARE = re.compile(
    r"\W*(?:(?:final\s+)?(?:verdict|grade|judge?ment|decision)\W+)?(correct|incorrect|refusal)\W*",
    re.IGNORECASE,
)


@cache
def _lines(*labels: tuple[str, str]) -> tuple[re.Pattern[str], dict[str, bool]]:
    """The pattern of a line that bears a verdict, and what its words mean."""
    words = dict(labels)
    truths = _TRUTH | {words[name]: _TRUTH[name] for name in ("yes", "no") if name in words}
    spellings = sorted({*truths, *map(fold, truths)}, key=len, reverse=True)
    names = {"Correct", words.get("correct", "Correct")}
    correct = "|".join(map(re.escape, sorted(names)))
    refusal = re.escape(words.get("refusal", "Refusal"))
    return (
        re.compile(
            rf"^[ \t>*_#-]*(?:(?P<refusal>{refusal})|{correct})[*_ \t]*[:：][*_\s\"'“«(]*"
            rf"(?P<value>{'|'.join(map(re.escape, spellings))})(?!\w)(?P<rest>.*)$",
            re.IGNORECASE | re.MULTILINE,
        ),
        {fold(word): truth for word, truth in truths.items()},
    )
