"""The judges' exam: answers that are right or wrong by construction, in 13 languages.

It measures any judge without human labels. The cases are a data file, exam.jsonl, of our own: each
language has its own facts, and two cases of each kind. `Judge(…)` takes them as they are, with
`columns=COLUMNS`.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pandas as pd

from tiebe.errors import RecordError, nearest
from tiebe.judges import Judge, usage_of
from tiebe.records import Verdict, from_row
from tiebe.regions import LANGUAGES

__all__ = [
    "COLUMNS",
    "GROUPS",
    "KINDS",
    "ExamCase",
    "Examined",
    "exam_table",
    "examine",
    "load_exam",
]

KINDS: dict[str, str] = {
    "paraphrase": "the expected answer in other words",
    "unit": "the same quantity in another unit, or the same number of another unit",
    "rounding": "the number rounded, or another number that looks rounded",
    "date_form": "the date in another notation, or the next day in it",
    "alias": "another customary name",
    "other_script": "the name in another script",
    "missing_detail": "without a detail that is not asked for, or with half of what is asked for",
    "extra_detail": "with a detail that is true, or with one that contradicts",
    "swapped_name": "another person or place",
    "changed_digit": "another year, or two digits exchanged",
    "negation": "the expected answer denied",
    "hedged_list": "the expected answer as one of several guesses",
    "refusal": "no answer: not known, or beyond what the model knows",
    "not_happened": "no answer: the event is said to lie in the future",
    "question_repeated": "the question instead of an answer",
    "verdict_injected": "a wrong answer, or none, with a verdict or an instruction for the judge",
}
"""What a case tries, by kind."""

GROUPS = ("true variant", "trap", "refusal")
"""What a case is: right in another form; wrong, though it looks right; or no answer (the kinds
`refusal` and `not_happened`)."""

COLUMNS = {"answer": "expected", "model_answer": "candidate"}
"""What the fields of a judge are called here."""

_FILE = Path(__file__).with_name("exam.jsonl")


@dataclass(frozen=True, slots=True)
class ExamCase:
    """An answer, and the verdict that is right by construction."""

    id: str
    """`language-kind-number`."""
    kind: str
    language: str
    """ISO 639 code."""
    question: str
    expected: str
    candidate: str
    correct: bool
    refusal: bool

    @property
    def truth(self) -> str:
        """The one of `GROUPS` that it belongs to."""
        return "true variant" if self.correct else "refusal" if self.refusal else "trap"


def load_exam(path: Path = _FILE) -> list[ExamCase]:
    """Returns the cases of an exam, checked.

    Raises:
        RecordError: A line is no case: it lacks a field, is of an unknown kind or language, is
            empty somewhere, both correct and a refusal, or bears the id of another.
    """
    cases: dict[str, ExamCase] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        where = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{where}: not JSON: {error}") from error
        case = from_row(ExamCase, row, where=where)
        for name, value, known in (
            ("kind", case.kind, KINDS),
            ("language", case.language, LANGUAGES),
        ):
            if value not in known:
                raise RecordError(f"{where}: unknown {name} {value!r}{nearest(value, known)}")
        if not all(map(str.strip, (case.question, case.expected, case.candidate))):
            raise RecordError(f"{where}: question, expected and candidate must not be empty")
        if case.correct and case.refusal:
            raise RecordError(f"{where}: a refusal cannot be correct")
        if case.id in cases:
            raise RecordError(f"{where}: a second case {case.id!r}")
        cases[case.id] = case
    return list(cases.values())


@dataclass(frozen=True)
class Examined:
    """How a judge did in the exam.

    Attributes:
        judge: Who was examined: the model as served, its prompt with its sha256, for citation.
        table: See `exam_table`.
        verdicts: On the cases, in their order.
        usage: Tokens of all verdicts.
        fresh: How many were decided now; the others were known.
        seconds: How long that took.
    """

    judge: str
    table: pd.DataFrame
    verdicts: Sequence[Verdict]
    usage: Mapping[str, int]
    fresh: int
    seconds: float

    @property
    def citation(self) -> str:
        """The judge with its score: what a paper that uses it can print."""
        row = self.table.iloc[0]
        who = f"{self.judge}, exam {hashlib.sha256(_FILE.read_bytes()).hexdigest()[:8]}"
        if not row["n"]:
            return f"{who}: no verdict on any of {row['unscored']:.0f}"
        unscored = f", {row['unscored']:.0f} unscored" if row["unscored"] else ""
        return (
            f"{who}: {row['accuracy']:.1%} [{row['low']:.1%}, {row['high']:.1%}] "
            f"of {row['n']:.0f}{unscored}"
        )


def examine(judge: Judge, cases: Sequence[ExamCase] | None = None) -> Examined:
    """Lets a judge take the exam.

    Args:
        judge: Any; its `columns` do not matter.
        cases: A part of the exam, or an own one; None is the whole.

    Raises:
        ModelError: The judge cannot be asked.
    """
    cases = load_exam() if cases is None else cases
    seen = [case for case in replace(judge, columns=COLUMNS).cases(cases) if case is not None]
    stage, journal = judge.stage(), judge.journal()
    fresh = sum(stage.key(case) not in journal for case in seen)
    began = time.monotonic()
    verdicts = judge.verdicts(seen)
    seconds = time.monotonic() - began
    served = Counter(v.served_model for v in verdicts if v.served_model).most_common(1)
    prompt = Counter(v.prompt for v in verdicts if v.prompt).most_common(1)
    parts = [judge.name]
    if served and served[0][0] != judge.name:
        parts.append(f"served as {served[0][0]}")
    if prompt:
        parts.append(f"{prompt[0][0]} (sha256 {judge.prompt_sha[:12]})")
    usage = dict(usage_of(seen, verdicts))
    return Examined(", ".join(parts), exam_table(verdicts, cases), verdicts, usage, fresh, seconds)


def exam_table(
    verdicts: Sequence[Verdict], cases: Sequence[ExamCase] | None = None, *, level: float = 0.95
) -> pd.DataFrame:
    """Returns how well a judge did, in all, by kind and by language.

    Args:
        verdicts: The judge's verdicts on the cases, in their order.
        cases: The exam; None is the whole one.
        level: Coverage of the intervals (Wilson's).

    Returns:
        A row per group: `by` (`all`; `truth`, what is right by construction: `GROUPS`; `kind`;
        `language`), `group`, `n` (scored cases), `accuracy`
        of the verdict correct or not with `low` and `high`, `refusal` (accuracy of the verdict
        refusal or not), `unscored`. Unscored cases count in no accuracy; where all are, it is
        missing.

    Raises:
        RecordError: There are more or fewer verdicts than cases.
    """
    cases = load_exam() if cases is None else cases
    if len(verdicts) != len(cases):
        raise RecordError(f"{len(verdicts)} verdicts on {len(cases)} cases: expected one for each")
    pairs = list(zip(cases, verdicts, strict=True))
    groups: list[tuple[str, str, list[tuple[ExamCase, Verdict]]]] = [("all", "all", pairs)]
    for by, names in (("truth", GROUPS), ("kind", KINDS), ("language", LANGUAGES)):
        for name in names:
            members = [pair for pair in pairs if getattr(pair[0], by) == name]
            if members:
                groups.append((by, name, members))
    return pd.DataFrame(
        [{"by": by, "group": name, **_marks(members, level)} for by, name, members in groups]
    )


def _marks(pairs: Iterable[tuple[ExamCase, Verdict]], level: float) -> dict[str, Any]:
    pairs = list(pairs)
    scored = [(case, verdict) for case, verdict in pairs if verdict.correct is not None]
    n = len(scored)
    right = sum(verdict.correct == case.correct for case, verdict in scored)
    declined = sum(verdict.refusal == case.refusal for case, verdict in scored)
    low, high = _wilson(right, n, level)
    return {
        "n": n,
        "accuracy": right / n if n else float("nan"),
        "low": low,
        "high": high,
        "refusal": declined / n if n else float("nan"),
        "unscored": len(pairs) - n,
    }


def _wilson(right: int, n: int, level: float) -> tuple[float, float]:
    """Returns Wilson's interval of a share; everything where nothing was counted."""
    if not n:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = right / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
