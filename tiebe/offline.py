"""The offline judge `offline-1`: trained trees over lexical features; no key, no network.

It imitates one language model as a judge, DeepSeek-V3 in TiEBe's published verdicts, and learned
from English and nine other languages. `training/train_offline.py` writes its data file, which
numpy reads; the same inputs give the same verdicts on every machine, since leaves are whole
numbers and their sum does not depend on any order.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import numpy.typing as npt

from tiebe import vectors
from tiebe.lexical import PHRASING, features, guess_language, sentence_sequences

__all__ = [
    "IMITATES",
    "NAME",
    "Forest",
    "Judgement",
    "OfflineModel",
    "judge_offline",
    "least_confidence",
    "load",
    "settles",
]

NAME = "offline-1"
IMITATES = "DeepSeek-V3"
_FILE = "offline-1.npz"
PLACES = ("anywhere", "opening", "closing")
"""Of a word sequence in an answer; see `Phrases`."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Forest:
    """Oblivious decision trees: all nodes of one level of a tree ask the same."""

    names: npt.NDArray[np.str_]
    """(features,) what columns hold."""
    feature: npt.NDArray[np.uint8]
    """(levels, trees) column asked."""
    border: Floats
    """(levels, trees) above which the answer is yes."""
    leaves: npt.NDArray[np.int16]
    """(trees, 2 ** levels) log odds in units of 1 / `UNIT`; the yes of level n adds 2 ** n to a
    leaf's place."""

    UNIT: ClassVar[int] = 1 << 16
    ROWS: ClassVar[int] = 64
    """Scored at once: few enough for the processor's cache."""

    def score(self, table: Floats) -> npt.NDArray[np.float64]:
        """Returns the log odds of each row of `table` (rows, features)."""
        trees, width = self.leaves.shape
        first = np.arange(0, trees * width, width)[:, None]
        total = np.empty(len(table))
        for start in range(0, len(table), self.ROWS):
            columns = table[start : start + self.ROWS].T.copy()
            leaf = np.repeat(first, columns.shape[1], 1)
            for level, (feature, border) in enumerate(zip(self.feature, self.border, strict=True)):
                leaf += (columns.take(feature, 0) > border[:, None]).astype(np.int64) << level
            total[start : start + self.ROWS] = self.leaves.take(leaf).sum(0, np.int64)
        return total / self.UNIT

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Returns what `load` reads."""
        return {f"{prefix}_{part.name}": getattr(self, part.name) for part in fields(self)}

    @classmethod
    def load(cls, data: Mapping[str, Any], prefix: str) -> "Forest":
        """Returns the forest among the arrays of a data file."""
        return cls(**{part.name: data[f"{prefix}_{part.name}"] for part in fields(cls)})


@dataclass(frozen=True, slots=True)
class Phrases:
    """Word sequences that tell a refusal, by their checksum: a linear model of where they stand.

    Weights are log odds in units of 1 / `UNIT`; a sequence counts once in a place.
    """

    anywhere: Mapping[int, int]
    opening: Mapping[int, int]
    """Of the first sentence, besides."""
    closing: Mapping[int, int]
    """Of the last sentence, besides."""
    bias: int

    UNIT: ClassVar[int] = 1024
    MOST: ClassVar[int] = 8
    """Log odds further from 0 are cut off."""
    UNHEARD: ClassVar[float] = -9.0
    """Stands for those of a language that had no labels."""

    def heard(self, flat: str) -> list[float]:
        """Returns how much a folded text sounds like declining, by `lexical.PHRASING`."""
        sentences = sentence_sequences(flat)
        first = _sum(self.opening, sentences[0])
        last = _sum(self.closing, sentences[-1])
        alone = [_sum(self.anywhere, sentence) for sentence in sentences]
        whole = alone[0] if len(alone) == 1 else _sum(self.anywhere, set().union(*sentences))
        units = (
            whole + first + last + self.bias,
            alone[0] + first,
            alone[-1] + last,
            max(alone),
            min(alone),
        )
        odds: list[float] = self.log_odds(np.array(units)).tolist()
        return odds

    @classmethod
    def log_odds(cls, units: npt.NDArray[np.int64]) -> Floats:
        """Returns what sums of weights say."""
        return (units / cls.UNIT).clip(-cls.MOST, cls.MOST).round(3).astype(np.float32)


def _sum(weights: Mapping[int, int], sequences: set[int]) -> int:
    return sum(filter(None, map(weights.get, sequences)))


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """All that was learned; see the attributes of the data file in `training/train_offline.py`."""

    correct: Forest
    refusal: Forest
    rarities: Mapping[int, float]
    """By checksum of the term."""
    phrases: Phrases
    languages: tuple[str, ...]
    """That had labels; then `other`."""
    slopes: Floats
    """(languages, 2) slope and offset of the log odds that the imitated judge says correct."""
    refusal_cuts: Floats
    """(languages,) log odds of a refusal from which on an answer is taken for one."""
    refusal_slope: Floats
    """(3,) of the log odds that it says incorrect where the answer is taken for a refusal: of those
    of a refusal, of those of correct, and offset."""
    targets: Floats
    """(targets,) agreements that were promised."""
    thresholds: Floats
    """(languages, targets) least confidence that settles; above 1 where none does."""

    def rarity(self, term: str) -> float:
        """Returns how rare a term is, 1 to 8; 8 for one that was never seen."""
        return self.rarities.get(vectors.checksum(term), 8.0)


@cache
def load() -> OfflineModel:
    """Returns the trained judge that comes with the library."""
    with (files("tiebe") / _FILE).open("rb") as file:
        return read_model(cast(BinaryIO, file))


def read_model(file: BinaryIO) -> OfflineModel:
    """Returns the trained judge that a data file holds."""
    with np.load(file, allow_pickle=False) as data:
        rarities = zip(data["rarity_keys"].tolist(), data["rarity_quarters"].tolist(), strict=True)
        return OfflineModel(
            correct=Forest.load(data, "correct"),
            refusal=Forest.load(data, "refusal"),
            rarities={key: quarters / 4 for key, quarters in rarities},
            phrases=Phrases(
                **{place: _weights(data, place) for place in PLACES},
                bias=int(data["phrase_bias"]),
            ),
            languages=tuple(str(code) for code in data["languages"]),
            slopes=data["slopes"],
            refusal_cuts=data["refusal_cuts"],
            refusal_slope=data["refusal_slope"],
            targets=data["targets"],
            thresholds=data["thresholds"],
        )


def _weights(data: Mapping[str, Any], place: str) -> dict[int, int]:
    keys, weights = (data[f"{place}_{part}"].tolist() for part in ("keys", "weights"))
    return dict(zip(keys, weights, strict=True))


def write_model(model: OfflineModel, file: BinaryIO) -> None:
    """Writes the data file; the same model gives the same bytes."""
    phrases: dict[str, Any] = {}
    for place in PLACES:
        weights: Mapping[int, int] = getattr(model.phrases, place)
        phrases[f"{place}_keys"] = np.array(list(weights), np.uint32)
        phrases[f"{place}_weights"] = np.array(list(weights.values()), np.int16)
    np.savez_compressed(
        file,
        rarity_keys=np.array(list(model.rarities), np.uint32),
        rarity_quarters=np.array([4 * v for v in model.rarities.values()], np.uint8),
        phrase_bias=np.int32(model.phrases.bias),
        languages=np.array(model.languages),
        slopes=model.slopes,
        refusal_cuts=model.refusal_cuts,
        refusal_slope=model.refusal_slope,
        targets=model.targets,
        thresholds=model.thresholds,
        **model.correct.arrays("correct"),
        **model.refusal.arrays("refusal"),
        **phrases,
    )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the offline judge says of one answer."""

    correct: bool
    refusal: bool
    """Never together with `correct`."""
    confidence: float
    """Calibrated probability that the imitated judge says the same of `correct`, 0.5 to 1."""
    margin: float
    """The same as log odds."""
    language: str
    """Whose calibration was used: one of the languages that had labels, or `other`."""
    doubt: str = ""
    """Why it must not be settled as correct, though it looks so; empty where nothing speaks against
    it."""


def judge_offline(
    questions: Sequence[str],
    expected: Sequence[Sequence[str]],
    candidates: Sequence[str],
    languages: Sequence[str | None],
    *,
    model: OfflineModel | None = None,
) -> list[Judgement]:
    """Judges answers by words, numbers, dates, names and phrases.

    Args:
        questions: (n,) the questions.
        expected: (n,) the accepted answers of each, at least one; the best fit counts.
        candidates: (n,) the answers to judge.
        languages: (n,) ISO 639 codes of the questions; guessed where None.
        model: The judge that comes with the library, unless another is given.

    Returns:
        One judgement per answer, in their order.
    """
    model = model or load()
    owner: list[int] = []
    seen: list[dict[str, float]] = []
    codes: list[str] = []
    rows = zip(questions, expected, candidates, languages, strict=True)
    for place, (question, accepted, candidate, language) in enumerate(rows):
        code = language or guess_language(" ".join((question, *accepted)))
        codes.append(code if code in model.languages else "other")
        for answer in accepted:
            owner.append(place)
            seen.append(look(model, question, answer, candidate, code))
    if not seen:
        return []
    table, names = np.array([[*row.values()] for row in seen], np.float32), [*seen[0]]
    right = model.correct.score(table[:, [*map(names.index, model.correct.names.tolist())]])
    best: dict[int, int] = {}
    for at, place in enumerate(owner):
        if place not in best or right[at] > right[best[place]]:
            best[place] = at
    chosen = [best[place] for place in range(len(codes))]
    seen, table = [seen[at] for at in chosen], table[chosen]
    declines = model.refusal.score(table[:, [*map(names.index, model.refusal.names.tolist())]])
    places = [model.languages.index(code) for code in codes]
    says = np.array([row["candidate_terms"] > 0 for row in seen])
    correct, refusal, margin = decide(
        right[chosen],
        declines,
        says,
        model.slopes[places],
        model.refusal_cuts[places],
        model.refusal_slope,
    )
    return [
        Judgement(
            correct=bool(correct[n]),
            refusal=bool(refusal[n]),
            confidence=confidence(float(margin[n])),
            margin=float(margin[n]),
            language=codes[n],
            doubt=next(doubts(row), "") if correct[n] else "",
        )
        for n, row in enumerate(seen)
    ]


def decide(
    right: npt.NDArray[np.float64],
    declines: npt.NDArray[np.float64],
    says: npt.NDArray[np.bool_],
    slopes: Floats,
    refusal_cuts: Floats,
    refusal_slopes: Floats,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Returns what the log odds of both forests mean.

    Args:
        right: (n,) log odds of correct.
        declines: (n,) log odds of a refusal.
        says: (n,) whether the answer has any term.
        slopes: (n, 2) see `OfflineModel`.
        refusal_cuts: (n,) see `OfflineModel`.
        refusal_slopes: (3,) see `OfflineModel`.

    Returns:
        (n,) correct, (n,) refusal, (n,) log odds that the imitated judge agrees on correct.
    """
    refusal = (declines > refusal_cuts) & says
    margin = slopes[:, 0] * right + slopes[:, 1]
    correct = (margin > 0) & says & ~refusal
    declined = refusal_slopes[0] * declines + refusal_slopes[1] * right + refusal_slopes[2]
    margin = np.where(refusal, declined, np.where(correct, margin, -margin))
    return correct, refusal, margin.clip(0, 20)


def confidence(margin: float) -> float:
    """Returns the probability of log odds, in steps of 1 / 10,000."""
    return round(1 / (1 + math.exp(-margin)), 4)


def settles(judgement: Judgement, target: float, *, model: OfflineModel | None = None) -> bool:
    """Returns whether a judgement may stand where an agreement with the imitated judge is wanted.

    Nothing settles in a language that had no labels, and nothing as correct that is in doubt.

    Args:
        judgement: What `judge_offline` gave.
        target: The agreement wanted of what is settled; the next one of `OfflineModel.targets`
            that is no lower counts, and none settles above the last.
        model: The judge that comes with the library, unless another is given.
    """
    if judgement.correct and judgement.doubt:
        return False
    least = least_confidence(target, model=model).get(judgement.language)
    return least is not None and judgement.confidence >= least


def least_confidence(target: float, *, model: OfflineModel | None = None) -> dict[str, float]:
    """Returns, by language, from which confidence on a judgement settles; in others none does.

    Args:
        target: See `settles`.
        model: See `settles`.
    """
    model = model or load()
    column = int(np.searchsorted(model.targets, np.float32(target)))
    if column == len(model.targets):
        return {}
    least = zip(model.languages, model.thresholds[:, column].tolist(), strict=True)
    return {code: round(confidence, 5) for code, confidence in least if confidence <= 1}


def look(
    model: OfflineModel, question: str, answer: str, candidate: str, language: str
) -> dict[str, float]:
    """Returns the features of a candidate beside one accepted answer."""
    phrasing = model.phrases.heard if language in model.languages else _unheard
    return features(question, answer, candidate, language, model.rarity, phrasing, vectors.load())


def _unheard(_: str) -> list[float]:
    return [Phrases.UNHEARD] * len(PHRASING)


def doubts(seen: Mapping[str, float]) -> Iterator[str]:
    """Yields what a language model must look at before an answer counts as correct.

    Words alone cannot tell a denial or a guess from a statement, nor one unknown name from another:
    these are the cases in which the trees were fooled.
    """
    if seen["negations_more"] > 0:
        yield "negation"
    if seen["hedges_more"] > 0:
        yield "hedge"
    if seen["opposites"] > 0:
        yield "opposite"
    if seen["numbers_missed"] and seen["numbers_new"]:
        yield "number"
    if any(seen[f"{part}_clash"] or 0 <= seen[f"{part}_recall"] < 1 for part in _DATE):
        yield "date"
    if seen["years_new"]:
        yield "year"
    if seen["names_exchanged"]:
        yield "name"
    if seen["replaced"]:
        yield "one word for another"
    if seen["expected_recall"] > 0.55 and seen["pairs_known"] < 0.3 and seen["precision"] > 0.3:
        yield "word order"
    said = seen["candidate_density"] * seen["candidate_length"]
    if said >= 4 and seen["candidate_terms"] <= 0.67 * said and seen["candidate_length"] < 40:
        yield "words repeated"
    if seen["longest_run_share"] == 1 and seen["expected_terms"] >= 3 and seen["extra"] >= 4:
        yield "word for word, and more"
    if seen["sentence_weighted_precision"] < 0.2:
        yield "much besides"
    if seen["wanted_share"] == 0:
        yield "question repeated"


_DATE = ("years", "months", "days")
