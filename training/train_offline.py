"""Trains the offline judge from judged answers, and measures it on models and regions kept apart.

    python training/train_offline.py fit        # writes tiebe/offline-1.npz, some minutes
    python training/train_offline.py evaluate   # prints what unseen models and regions give

Needs the extra `train` (CatBoost, whose oblivious trees told more here than LightGBM's) and the
folder with `judged.parquet` and `qa.parquet`. No row is ever judged by trees that saw its model's
family, nor, in English, its region, in other languages its question; a language apart is judged by
trees that saw neither it nor its regions. How rare words are is counted over all questions and
expected answers: no label is in that.
"""

import hashlib
import json
import math
import multiprocessing
import os
import random
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order, and no threads beside processes

import catboost
import click
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, sparse
from variations import Row, framed, thinking_aloud, tricks

from tiebe import vectors
from tiebe.lexical import PHRASING, features, read, sentence_sequences, spoken
from tiebe.offline import (
    PLACES,
    Forest,
    OfflineModel,
    Phrases,
    confidence,
    decide,
    doubts,
    write_model,
)
from tiebe.vectors import checksum

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "upstream"
OUT = ROOT / "tiebe" / "offline-1.npz"
FIGURES = Path(__file__).with_name("offline-1.json")
NATIVE = {"Argentina": "es", "Colombia": "es", "China": "zh", "Ethiopia": "am", "France": "fr"} | {
    "the_Democratic_Republic_of_the_Congo": "fr",
    "Germany": "de",
    "Papua_New_Guinea": "tpi",
    "Portugal": "pt",
    "Russia": "ru",
    "Turkey": "tr",
}
FAMILIES = {"gpt": "gpt", "Qwen": "qwen", "Llama": "llama", "mistral": "mistral", "sabia": "sabia"}
LANGUAGES = ("en", *sorted(set(NATIVE.values())), "other")
OTHER = LANGUAGES[-1]
KINDS = ("english", "native", "languages")
GROUPS, FOLDS = 5, 4
WEIGHTS = {"judged": 1.0, "thoughts": 0.6, "alone": 0.8}
NATIVE_WEIGHT = 0.4  # of a row in another language than English, besides
MADE_WEIGHT = 0.08  # of a row made otherwise: enough to teach, too little to outvote real answers
NEIGHBOUR_WEIGHT = 0.2  # in the thresholds of a language, of rows in another; neither is English
TRICKED = 1 / 30  # of the rows
ALONE = 0.15  # of the rows, once more without their question: a refusal sounds like one in itself
TARGETS = (0.9, 0.95, 0.97, 0.98, 0.99, 0.995)
CORRECT = {"iterations": 1600, "learning_rate": 0.03}
# A refusal missed counts for more than one too many: F1 is a little better so.
REFUSAL = {"iterations": 450, "learning_rate": 0.06, "scale_pos_weight": 1.6}
COMMON = {
    "depth": 6,
    "l2_leaf_reg": 10.0,
    "rsm": 0.15,
    "bootstrap_type": "Bernoulli",
    "subsample": 0.7,
    "random_strength": 0.0,
    "border_count": 63,
    "random_seed": 2,
    "thread_count": 1,
    "allow_writing_files": False,
    "verbose": False,
}
PHRASES, SHRINK = (1500, 1000, 1000), 10.0
COMMON_SEQUENCE = 40
Settings = dict[str, Any]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Table:
    """Judged answers, then what was made of them by rule, with their features."""

    rows: list[Row]
    source: Ints
    """(rows,) the judged answer each comes from: itself, for one that is judged."""
    model: npt.NDArray[Any]
    family: npt.NDArray[Any]
    region: npt.NDArray[Any]
    fold: Ints
    """(rows,) of the question, the same in all its languages."""
    names: tuple[str, ...]
    features: Floats
    sentences: sparse.csr_matrix
    """(sentences, sequences) 1 where a sentence has the word sequence."""
    starts: Ints
    """(rows + 1,) of the row's sentences, one at least; then the end of the last one's."""
    sequence_keys: npt.NDArray[np.uint32]
    """(sequences,) their checksums, ascending."""
    rarities: dict[int, float]

    def __post_init__(self) -> None:
        self.features.flags.writeable = False

    @cached_property
    def places(self) -> tuple[sparse.csr_matrix, ...]:
        """(rows, sequences) each: 1 where a row has the sequence, by `offline.PLACES`."""
        first, last = self.starts[:-1], self.starts[1:] - 1
        return _anywhere(self.sentences, self.starts), self.sentences[first], self.sentences[last]

    @cached_property
    def judged(self) -> Bools:
        """(rows,) whether an answer and its verdict are a model's."""
        return self.source == np.arange(len(self.rows))

    @cached_property
    def phrasing(self) -> Ints:
        """Columns of `PHRASING`."""
        return np.array([self.names.index(name) for name in PHRASING])

    @cached_property
    def doubted(self) -> Bools:
        """(rows,) whether something speaks against settling it as correct."""
        return np.array([any(doubts(dict(zip(self.names, r, strict=True)))) for r in self.features])

    @cached_property
    def says(self) -> Bools:
        """(rows,) whether there is a word in the answer."""
        return self.features[:, self.names.index("candidate_terms")] > 0

    def column(self, name: str) -> npt.NDArray[Any]:
        """Returns one field of all rows."""
        return np.array([getattr(row, name) for row in self.rows])


def load(folder: Path, *, share: float = 1.0, regions: Sequence[str] = ()) -> Table:
    """Returns judged answers with their features.

    Args:
        folder: Holds judged.parquet and qa.parquet; the latter has the texts in other languages
            that the judge saw, of which the former repeats the English ones.
        share: Part of the questions to take.
        regions: All, or these.
    """
    judged = pd.read_parquet(folder / "judged.parquet")
    texts = pd.read_parquet(folder / "qa.parquet")[
        ["region", "row", "language", "question", "answer"]
    ]
    judged = judged.drop(columns=["question", "answer"]).merge(
        texts, on=["region", "row", "language"], validate="many_to_one"
    )
    if regions:
        judged = judged[judged.region.isin(regions)]
    number = [
        zlib.crc32(f"{r} {n}".encode()) for r, n in zip(judged.region, judged.row, strict=True)
    ]
    judged = judged.assign(number=number)
    judged = judged[judged.number % 1000 < 1000 * share].reset_index(drop=True)
    rows = [
        Row(
            str(r.question),
            str(r.answer),
            str(r.model_answer),
            "en" if r.language == "english" else NATIVE[str(r.region)],
            bool(r.correct) and not bool(r.refusal),
            bool(r.refusal),
        )
        for r in judged.itertuples()
    ]
    family = np.array([next(f for k, f in FAMILIES.items() if k in m) for m in judged.model])
    made, source = _vary(rows, family)
    rarities = _rarities(rows)
    rows += made
    source = np.concatenate([np.arange(len(judged)), source])
    seen, found = _read_all(rows, rarities)
    keys, sentences, starts = _sequences(found, len(judged))
    return Table(
        rows=rows,
        source=source,
        model=judged.model.to_numpy(dtype=str)[source],
        family=family[source],
        region=judged.region.to_numpy(dtype=str)[source],
        fold=(judged.number.to_numpy() // 1000 % FOLDS)[source],
        names=tuple(seen[0]),
        features=np.array([list(row.values()) for row in seen], np.float32),
        sentences=sentences,
        starts=starts,
        sequence_keys=keys,
        rarities=rarities,
    )


def _vary(rows: Sequence[Row], family: Sequence[str]) -> tuple[list[Row], Ints]:
    """Makes answers from rows: a chain of thought, tricks, a frame; one without its question."""
    chance = random.Random(0)
    others: dict[str, list[str]] = {}
    for row in rows:
        others.setdefault(row.language, []).append(row.expected)
    made: list[Row] = []
    source: list[int] = []
    for place, row in enumerate(rows):
        if family[place] != "llama" and len(row.candidate) < 500 and chance.random() < 0.2:
            made.append(thinking_aloud(row, chance))
            source.append(place)
        if chance.random() < TRICKED:
            tricked = list(tricks(row, chance.choice(others[row.language]), chance))
            made += tricked
            source += [place] * len(tricked)
    chance = random.Random(1)
    for place, row in enumerate(rows):
        if chance.random() < TRICKED:
            made.append(framed(row, chance))
            source.append(place)
        if chance.random() < ALONE:
            made.append(row._replace(question="", expected="", correct=False, kind="alone"))
            source.append(place)
    return made, np.array(source)


def _rarities(rows: Sequence[Row]) -> dict[int, float]:
    """How rare terms are, in quarters; those of one or two questions are as rare as unseen ones."""
    texts = {(r.question, r.expected, r.language) for r in rows}
    found = Counter(t for q, e, code in texts for t in read(q, code).terms | read(e, code).terms)
    return {
        checksum(term): round(4 * min(8.0, max(1.0, math.log2(len(texts) / n) - 3))) / 4
        for term, n in sorted(found.items())
        if n > 2
    }


@contextmanager
def _forked(work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Iterator[Any]]:
    """Gives the results of tasks in their order; processes inherit the tasks, copying nothing."""
    _TASKS[:] = [(work, task) for task in tasks]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        yield pool.imap(_run, range(len(tasks)), chunksize=1 + len(tasks) // 200)
    _TASKS.clear()


_TASKS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def _run(number: int) -> Any:
    work, task = _TASKS[number]
    return work(*task)


def _look(row: Row, rarities: dict[int, float]) -> tuple[dict[str, float], list[Keys]]:
    flat = read(spoken(row.candidate)[0], row.language).flat
    seen = features(
        row.question,
        row.expected,
        row.candidate,
        row.language,
        lambda term: rarities.get(checksum(term), 8.0),
        lambda flat: [0.0] * len(PHRASING),
        vectors.load(),
    )
    return seen, [np.array(sorted(keys), np.uint32) for keys in sentence_sequences(flat)]


def _read_all(
    rows: Sequence[Row], rarities: dict[int, float]
) -> tuple[list[dict[str, float]], list[list[Keys]]]:
    """Returns the features of rows, and the word sequences of their sentences."""
    with _forked(_look, [(row, rarities) for row in rows]) as looks:
        seen, found = zip(*looks, strict=True)
    return list(seen), list(found)


def _sequences(
    found: Sequence[Sequence[Keys]], judged: int
) -> tuple[Keys, sparse.csr_matrix, Ints]:
    """Returns the sequences frequent in the first rows; which sentence has which; the starts."""
    sentences = [keys for row in found for keys in row]
    starts = np.cumsum([0, *map(len, found)])
    keys, at = np.unique(np.concatenate(sentences), return_inverse=True)
    ends = np.cumsum([0, *map(len, sentences)])
    has = sparse.csr_matrix((np.ones(len(at)), at, ends), shape=(len(sentences), len(keys)))
    often = _anywhere(has, starts)[:judged].sum(axis=0).A1 >= COMMON_SEQUENCE
    return keys[often], has[:, often], starts


def _anywhere(sentences: sparse.csr_matrix, starts: Ints) -> sparse.csr_matrix:
    """Returns (rows, sequences) 1 where any sentence of a row has the sequence."""
    count = sentences.shape[0]
    rows = sparse.csr_matrix(
        (np.ones(count), np.arange(count), starts), shape=(len(starts) - 1, count)
    )
    return (rows @ sentences).sign()


@dataclass(frozen=True)
class Wording:
    """Word sequences that tell a refusal, by logistic regression: an array for each place."""

    chosen: tuple[Ints, ...]
    """Columns of the table's sequences."""
    weights: tuple[Ints, ...]
    bias: int

    def score(self, table: Table) -> Floats:
        """Returns (rows, `PHRASING`) how much rows sound like declining, as `Phrases` does."""
        anywhere, opening, closing = (
            has[:, chosen] @ weights
            for has, chosen, weights in zip(table.places, self.chosen, self.weights, strict=True)
        )
        alone = table.sentences[:, self.chosen[0]] @ self.weights[0]
        first = table.starts[:-1]
        units = (
            anywhere + opening + closing + self.bias,
            alone[first] + opening,
            alone[table.starts[1:] - 1] + closing,
            np.maximum.reduceat(alone, first),
            np.minimum.reduceat(alone, first),
        )
        return Phrases.log_odds(np.stack(units, axis=1))

    def phrases(self, table: Table) -> Phrases:
        """Returns the same as the judge reads it."""
        places = {
            place: dict(zip(table.sequence_keys[chosen].tolist(), weights.tolist(), strict=True))
            for place, chosen, weights in zip(PLACES, self.chosen, self.weights, strict=True)
        }
        return Phrases(**places, bias=self.bias)


def learn_wording(table: Table, train: Bools) -> tuple[Wording, Floats]:
    """Returns what was learned from the judged rows of `train`, and scores of all these rows.

    The rows of a family of models get their scores from the other families, so that the trees do
    not trust the scores more than they may.
    """
    judged = train & table.judged
    refusal = table.column("refusal")
    chosen = tuple(
        _telling(has[judged], refusal[judged], count)
        for has, count in zip(table.places, PHRASES, strict=True)
    )
    has = sparse.hstack(
        [has[:, own] for has, own in zip(table.places, chosen, strict=True)], format="csr"
    )

    def learn(rows: Bools) -> Wording:
        *weights, bias = np.rint(Phrases.UNIT * _regressed(has[rows], refusal[rows])).astype(int)
        ends = np.cumsum([*map(len, chosen)])[:-1]
        return Wording(chosen, tuple(np.split(np.array(weights), ends)), int(bias))

    scores = np.zeros((len(table.rows), len(PHRASING)), np.float32)
    for family in sorted(set(table.family[judged])):
        own = train & (table.family == family)
        scores[own] = learn(judged & ~own).score(table)[own]
    return learn(judged), scores


def _telling(has: sparse.csr_matrix, refusal: Bools, most: int) -> Ints:
    """Returns the sequences that tell most of a refusal, ascending."""
    count = has.sum(axis=0).A1
    rate = refusal.mean()
    surprise = np.abs(has.T @ refusal - count * rate) / np.sqrt(count * rate * (1 - rate) + 1)
    surprise[count < COMMON_SEQUENCE] = 0
    return np.sort(np.argsort(-surprise, kind="stable")[:most])


def _regressed(has: sparse.csr_matrix, refusal: Bools) -> npt.NDArray[np.float64]:
    """Returns the weights of columns, then the offset."""
    transposed = has.T.tocsr()

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        odds = has @ weights[:-1] + weights[-1]
        missed = 1 / (1 + np.exp(-odds)) - refusal
        shrunk = SHRINK * weights
        shrunk[-1] = 0
        value = (np.logaddexp(0, odds) - refusal * odds).sum() + shrunk @ weights / 2
        return value, np.append(transposed @ missed, missed.sum()) + shrunk

    found = optimize.minimize(
        loss,
        np.zeros(has.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "maxiter": 200, "ftol": 1e-8, "gtol": 1e-2},
    )
    return np.asarray(found.x)


@dataclass(frozen=True)
class Learned:
    """Two forests and the wording they know."""

    correct: Forest
    refusal: Forest
    wording: Wording

    def score(self, table: Table, test: Bools, *, heard: bool) -> Scores:
        """Returns (2, rows) the log odds of correct and of refusal; `heard`: wording is known."""
        seen = table.features[test].copy()
        seen[:, table.phrasing] = self.wording.score(table)[test] if heard else Phrases.UNHEARD
        return np.stack(
            [
                forest.score(seen[:, [table.names.index(n) for n in forest.names.tolist()]])
                for forest in (self.correct, self.refusal)
            ]
        )


def learn(table: Table, train: Bools) -> Learned:
    """Trains both forests on the rows of `train`, what was made of them included."""
    wording, scores = learn_wording(table, train)
    seen = table.features.copy()
    # Three rows in ten do not know the wording, as no row of a language without labels will.
    deaf = np.array([zlib.crc32(str(n).encode()) % 10 < 3 for n in table.source])
    scores[deaf] = Phrases.UNHEARD
    seen[:, table.phrasing] = scores
    # How single sentences sound told a refusal better, and whether an answer is right no better.
    less = seen.copy()
    less[:, table.phrasing[1:]] = Phrases.UNHEARD
    return Learned(
        _grow(table, less, train & (table.column("kind") != "alone"), "correct", CORRECT),
        _grow(table, seen, train, "refusal", REFUSAL),
        wording,
    )


def _grow(table: Table, seen: Floats, train: Bools, label: str, settings: Settings) -> Forest:
    own = [
        WEIGHTS.get(row.kind, MADE_WEIGHT) * (1 if row.language == "en" else NATIVE_WEIGHT)
        for row, used in zip(table.rows, train, strict=True)
        if used
    ]
    model = catboost.CatBoostClassifier(**COMMON | settings)
    model.fit(seen[train], table.column(label)[train].astype(int), sample_weight=own)
    return forest(model, table.names)


def forest(model: catboost.CatBoostClassifier, names: Sequence[str]) -> Forest:
    """Returns CatBoost's trees as arrays."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/trees.json", format="json")
        told = json.loads(Path(folder, "trees.json").read_text(encoding="utf-8"))
    if told["scale_and_bias"] != [1, [0]]:
        raise ValueError(f"scale and bias {told['scale_and_bias']}: only trees are kept")
    trees = told["oblivious_trees"]
    levels = max(len(tree["splits"] or ()) for tree in trees)
    feature = np.zeros((levels, len(trees)), np.uint8)
    border = np.full((levels, len(trees)), np.inf, np.float32)  # of a level that a tree has not
    leaves = np.zeros((len(trees), 1 << levels))
    for n, tree in enumerate(trees):
        for level, split in enumerate(tree["splits"] or ()):
            feature[level, n] = split["float_feature_index"]
            border[level, n] = split["border"]
        leaves[n, : len(tree["leaf_values"])] = tree["leaf_values"]
    whole = np.rint(leaves * Forest.UNIT)
    if np.abs(whole).max() > np.iinfo(np.int16).max:
        raise ValueError(f"a leaf of {np.abs(leaves).max()}: learn slower, or take a larger unit")
    return Forest(np.array(names), feature, border, whole.astype(np.int16))


def splits(table: Table, kind: str) -> Iterator[tuple[Bools, Bools]]:
    """Yields what is trained on and what is judged; see the head of this file.

    English: each family in each group of regions. Other languages: each family in two groups of
    questions, other ones than the family before. A language apart: all that is in it.
    """
    language = table.column("language")
    english = language == "en"
    families = sorted(set(table.family))
    if kind == "languages":
        for code in sorted(set(language) - {"en"}):
            regions = set(table.region[language == code])
            yield ~np.isin(table.region, list(regions)), language == code
    elif kind == "english":
        groups = region_groups(table)
        for group, family in product(range(GROUPS), families):
            here, own = groups == group, table.family == family
            yield ~here & ~own, english & here & own
    else:
        for place, family in enumerate(families):
            for n in (place % FOLDS, (place - 1) % FOLDS):
                here, own = table.fold == n, table.family == family
                yield ~here & ~own, ~english & here & own


def region_groups(table: Table) -> Ints:
    """Returns (rows,) the group of the row's region; groups are of like size."""
    names, counts = np.unique(table.region, return_counts=True)
    group = {str(name): n % GROUPS for n, name in enumerate(names[np.lexsort((names, -counts))])}
    return np.array([group[region] for region in table.region])


def out_of_sight(table: Table, kind: str) -> Scores:
    """Returns (2, rows) log odds by trees that did not see the row; NaN for rows of other kinds."""
    scores = np.full((2, len(table.rows)), np.nan)
    parts = list(splits(table, kind))
    with _forked(_learn_and_score, [(table, *part, kind != "languages") for part in parts]) as made:
        for (_, test), found in zip(parts, made, strict=True):
            scores[:, test] = found
    return scores


def _learn_and_score(table: Table, train: Bools, test: Bools, heard: bool) -> Scores:
    return learn(table, train).score(table, test, heard=heard)


def all_out_of_sight(table: Table, kept: Path | None) -> dict[str, Scores]:
    """Returns `out_of_sight` of each kind; from the file `kept` where it was made of the same."""
    sha = hashlib.sha256(table.features.tobytes())
    for part in (table.sentences.indices, table.source, table.column("correct")):
        sha.update(np.ascontiguousarray(part).tobytes())
    sha.update(
        repr(
            (COMMON, CORRECT, REFUSAL, PHRASES, SHRINK, WEIGHTS, MADE_WEIGHT, NATIVE_WEIGHT)
        ).encode()
    )
    if kept and kept.exists():
        with np.load(kept) as data:
            if str(data["sha"]) == sha.hexdigest():
                return {kind: data[kind] for kind in KINDS}
    scores = {kind: out_of_sight(table, kind) for kind in KINDS}
    if kept:
        with kept.open("wb") as file:
            np.savez(file, sha=sha.hexdigest(), **scores)
    return scores


# --- calibration ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What was said of rows, or is known of them."""

    correct: Bools
    refusal: Bools
    confidence: npt.NDArray[np.float64]
    settled: Bools
    """(targets, rows)."""


@dataclass(frozen=True)
class Calibration:
    """See `OfflineModel`."""

    slopes: Floats
    refusal_cuts: Floats
    refusal_slopes: Floats
    thresholds: Floats

    def judge(self, table: Table, scores: Scores, languages: Ints) -> Judged:
        """Judges all rows as `tiebe.offline` does."""
        correct, refusal, margin = decide(
            *scores,
            table.says,
            self.slopes[languages],
            self.refusal_cuts[languages],
            self.refusal_slopes,
        )
        sure = np.array([confidence(m) for m in np.nan_to_num(margin).tolist()])
        settled = (sure >= self.thresholds[languages].T) & ~(correct & table.doubted)
        return Judged(correct, refusal, sure, settled)


def calibrate(table: Table, scores: Scores, languages: Ints, rows: Bools) -> Calibration:
    """Learns from `rows` how far the trees' log odds can be trusted in each language.

    Thresholds are the least ones at which the judge agreed as often as promised; in a language
    without labels none is. Of a language other than English there are too few rows for that, so
    those of the others count a little too.
    """
    count = len(LANGUAGES)
    agreed = table.column("correct")
    right, declines = scores
    cuts = np.zeros(count, np.float32)
    english = languages == LANGUAGES.index("en")
    for group in (english, ~english):
        own = rows & group & table.says
        cuts[np.unique(languages[group])] = _best_cut(declines[own], table.column("refusal")[own])
    refusal = (declines > cuts[languages]) & table.says
    slopes = np.tile(np.array([1, 0], np.float32), (count, 1))
    for n in np.unique(languages[rows]):
        own = rows & (languages == n) & ~refusal & table.says
        slopes[n] = _logistic(right[own, None], agreed[own])
    own = rows & refusal
    refusal_slopes = _logistic(np.stack([declines[own], right[own]], axis=1), ~agreed[own])
    anything = np.zeros((count, len(TARGETS)), np.float32)
    plain = Calibration(slopes, cuts, refusal_slopes, anything)
    thresholds = np.full((count, len(TARGETS)), 2, np.float32)
    judged = plain.judge(table, scores, languages)
    may = rows & judged.settled[0]
    for n in np.unique(languages[rows]):
        if LANGUAGES[n] != OTHER:
            used = may & (english if LANGUAGES[n] == "en" else ~english)
            weight = np.where(languages[used] == n, 1, NEIGHBOUR_WEIGHT)
            hits = (judged.correct == agreed)[used]
            sure = judged.confidence[used]
            thresholds[n] = [_least(sure, hits, weight, target) for target in TARGETS]
    return Calibration(slopes, cuts, refusal_slopes, thresholds)


def _best_cut(declines: npt.NDArray[np.float64], refusal: Bools) -> float:
    """The log odds in tenths from which on calling rows refusals gives the best F1 all around."""
    cuts = np.arange(-10, 11) / 10
    called = declines[:, None] > cuts
    both = (called & refusal[:, None]).sum(0)
    f1 = 2 * both / np.maximum(called.sum(0) + refusal.sum(), 1)
    return float(cuts[2 + np.argmax(np.convolve(f1, np.ones(5), "valid"))]) if len(refusal) else 0.0


def _logistic(x: npt.NDArray[np.float64], y: Bools) -> Floats:
    """Weights and offset of a logistic regression, by Newton's method with a weak prior."""
    x = np.column_stack([x, np.ones(len(x))])
    weights = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-(x @ weights)))
        gradient = x.T @ (y - p) - 0.1 * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 0.1 * np.eye(len(weights))
        weights += np.linalg.solve(hessian, gradient)
    return weights.round(3).astype(np.float32)


def _least(
    sure: npt.NDArray[np.float64], hits: Bools, weight: npt.NDArray[np.float64], target: float
) -> float:
    """The least confidence from which on the share of hits is the target; 2 where there is none."""
    order = np.argsort(-sure, kind="stable")
    share = np.cumsum((hits * weight)[order]) / np.cumsum(weight[order])
    last = np.append(sure[order][1:] != sure[order][:-1], True)
    enough = np.flatnonzero((share >= target) & last)
    # Rounded up to a step of float32 that no confidence above it misses.
    return float(sure[order][enough[-1]]) - 1e-5 if len(enough) else 2.0


def language_index(table: Table, *, apart: bool = False) -> Ints:
    """Returns (rows,) each row's place in `LANGUAGES`; `apart`: that of a language unheard of."""
    place = {code: n for n, code in enumerate(LANGUAGES)}
    return np.array([place[OTHER if apart else row.language] for row in table.rows])


# --- commands ------------------------------------------------------------------------------------


def model_of(table: Table, scores: dict[str, Scores]) -> OfflineModel:
    """Returns the judge that learned from all rows, calibrated on what it had not seen."""
    learned = learn(table, np.ones(len(table.rows), bool))
    known = np.where(np.isnan(scores["english"]), scores["native"], scores["english"])
    near = calibrate(table, known, language_index(table), _scored(table, known))
    apart = scores["languages"]
    far = calibrate(table, apart, language_index(table, apart=True), _scored(table, apart))
    slopes = near.slopes.copy()
    slopes[-1] = far.slopes[-1]
    return OfflineModel(
        correct=learned.correct,
        refusal=learned.refusal,
        rarities=table.rarities,
        phrases=learned.wording.phrases(table),
        languages=LANGUAGES,
        slopes=slopes,
        refusal_cuts=np.append(near.refusal_cuts[:-1], far.refusal_cuts[-1]),
        refusal_slope=near.refusal_slopes,
        targets=np.array(TARGETS, np.float32),
        thresholds=near.thresholds,
    )


def _scored(table: Table, scores: Scores) -> Bools:
    return table.judged & ~np.isnan(scores[0])


def figures(table: Table, scores: dict[str, Scores]) -> dict[str, Any]:
    """Returns what the judge reaches on rows unseen by trees, calibration and thresholds."""
    found: dict[str, Any] = {"data_file": _sha(OUT)}
    for kind in KINDS:
        judged = judge_unseen(table, scores[kind], kind)
        tested = _scored(table, scores[kind])
        found[kind] = _measure(table, judged, tested)
        if kind != "english":
            language = table.column("language")
            found[kind]["by_language"] = {
                code: _measure(table, judged, tested & (language == code))
                for code in LANGUAGES
                if code not in ("en", OTHER)
            }
        if kind != "languages":
            found[kind]["tricks"] = _tricked(table, judged, ~np.isnan(scores[kind][0]))
    return found


def judge_unseen(table: Table, scores: Scores, kind: str) -> Judged:
    """Judges rows by what other regions, questions or languages told of calibration."""
    languages = language_index(table, apart=kind == "languages")
    part = {
        "english": region_groups(table),
        "native": table.fold,
        "languages": table.column("language"),
    }[kind]
    there = ~np.isnan(scores[0])
    count = len(table.rows)
    whole = Judged(
        np.zeros(count, bool),
        np.zeros(count, bool),
        np.zeros(count),
        np.zeros((len(TARGETS), count), bool),
    )
    for n in np.unique(part[there]):
        rows = _scored(table, scores) & (part != n)
        judged = calibrate(table, scores, languages, rows).judge(table, scores, languages)
        own = there & (part == n)
        for name in Judged.__annotations__:
            getattr(whole, name)[..., own] = getattr(judged, name)[..., own]
    return whole


def _measure(table: Table, judged: Judged, rows: Bools) -> dict[str, Any]:
    correct, refusal = table.column("correct")[rows], table.column("refusal")[rows]
    says, declines = judged.correct[rows], judged.refusal[rows]
    agreement = float((says == correct).mean())
    chance = says.mean() * correct.mean() + (1 - says.mean()) * (1 - correct.mean())
    off = _by_model(table, says, correct, rows)
    sure, hits = judged.confidence[rows], says == correct
    edges = np.quantile(sure, np.linspace(0, 1, 11)[1:-1])
    bins = np.searchsorted(edges, sure)
    gaps = [abs(float((hits - sure)[bins == n].sum())) for n in range(10)]
    cascade = {}
    for place, target in enumerate(TARGETS):
        settled = judged.settled[place][rows]
        cascade[str(target)] = {
            "settled": round(float(settled.mean()), 4),
            "agreement": round(float(hits[settled].mean()), 4) if settled.any() else None,
            "off_at_most": max(
                map(abs, _by_model(table, np.where(settled, says, correct), correct, rows).values())
            ),
        }
    return {
        "n": int(rows.sum()),
        "agreement": round(agreement, 4),
        "kappa": round(float((agreement - chance) / (1 - chance)), 4),
        "refusal_f1": round(
            float(2 * (refusal & declines).sum() / (refusal.sum() + declines.sum())), 4
        ),
        "calibration_error": round(sum(gaps) / len(sure), 4),
        "off_at_most": max(map(abs, off.values())),
        "off": off,
        "cascade": cascade,
    }


def _by_model(table: Table, says: Bools, correct: Bools, rows: Bools) -> dict[str, float]:
    """By how many points the accuracy of each model is off."""
    names = table.model[rows]
    return {
        str(name): round(100 * float(says[names == name].mean() - correct[names == name].mean()), 2)
        for name in np.unique(names)
    }


def _tricked(table: Table, judged: Judged, scored: Bools) -> dict[str, dict[str, float]]:
    """The shares of made answers said to be correct, and settled so at some targets."""
    kinds = table.column("kind")
    found = {}
    for name in sorted(set(kinds) - set(WEIGHTS)):
        rows = scored & (kinds == name)
        settled = judged.settled[:, rows] & judged.correct[rows]
        found[name] = {
            "n": int(rows.sum()),
            "correct": round(float(judged.correct[rows].mean()), 4),
        }
        found[name] |= {
            f"settled at {target}": round(float(settled[TARGETS.index(target)].mean()), 4)
            for target in (0.9, 0.97, 0.99)
        }
    return found


@click.group()
def main() -> None:
    """Trains and measures the offline judge."""


_data = click.option("--data", type=click.Path(path_type=Path, exists=True), default=DATA)
_scores = click.option(
    "--scores",
    type=click.Path(path_type=Path),
    help="Where scores of unseen rows, minutes of work, are kept for the next command.",
)


@main.command()
@_data
@_scores
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def fit(data: Path, scores: Path | None, out: Path) -> None:
    """Writes the judge's data file."""
    table = load(data)
    model = model_of(table, all_out_of_sight(table, scores))
    with out.open("wb") as file:
        write_model(model, file)
    click.echo(f"{out}: {out.stat().st_size} bytes, sha256 {_sha(out)}")


@main.command()
@_data
@_scores
@click.option("--out", type=click.Path(path_type=Path), default=FIGURES)
def evaluate(data: Path, scores: Path | None, out: Path) -> None:
    """Writes and prints what unseen models, regions, questions and languages give."""
    table = load(data)
    found = figures(table, all_out_of_sight(table, scores))
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    click.echo(out.read_text(encoding="utf-8"))


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
