"""Scores: accuracy, refusal and their uncertainty, from the verdicts on a model's answers.

Everything here is a pure function of verdict rows (dicts, a DataFrame, a Dataset or Verdict
records) and returns a DataFrame. Questions on one event stand or fall together, so intervals come
from resampling whole events (the bootstrap clustered by event), never single answers. Shares and
their differences lie between -1 and 1; NaN says that there is nothing to compute from.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csc_array
from scipy.special import stdtr, stdtrit

from tiebe.cascade import Agreement, wanted
from tiebe.errors import RecordError, SettingsError, nearest
from tiebe.models import find_model
from tiebe.records import dicts
from tiebe.regions import REGIONS, find_regions

__all__ = [
    "COUNTRIES",
    "INDICATORS",
    "KEYS",
    "MONTH",
    "PERIODS",
    "QUESTION_TYPES",
    "SMALL",
    "UNKNOWN",
    "Bootstrap",
    "agreement",
    "between",
    "correlations",
    "coverage",
    "cutoffs",
    "differences",
    "english_native",
    "frame",
    "gaps",
    "judge_notes",
    "question_type",
    "score",
    "texts",
    "truncated",
]

PERIODS: tuple[tuple[int, str], ...] = (
    (2015, "2015–2017"),
    (2018, "2018–2020"),
    (2021, "2021–2022"),
    (2023, "2023–2025"),
    (2026, "2026–"),
)
"""First year and name of each period: the paper's four, then what came since."""

MONTH = r"[0-9]{4}-(?:0[1-9]|1[0-2])"
"""What a month looks like: `2023-01`."""

SMALL = 30
"""A group with fewer rows than this is marked: its figures say little."""

UNKNOWN = "unknown"
"""The group of the rows that do not say what they are grouped by."""

KEYS = (
    "model",
    "region",
    "macro_region",
    "split",
    "language",
    "year",
    "month",
    "period",
    "question_type",
    "cutoff",
)
"""What rows can be grouped by, beside the columns that they bring. `cutoff` is "before" or "after"
the model's published knowledge cutoff."""

QUESTION_TYPES = ("what", "how many", "which", "when", "who", "why", "how", "where", "other")

INDICATORS: Mapping[str, bool] = {"gdp": True, "hdi": False, "mys": False, "population": True}
"""The indicators of `tiebe.regions.Indicators`, and whether Pearson's correlation takes the log."""

Rows = pd.DataFrame | Iterable[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are computed."""

    draws: int = 1000
    """Number of resamples."""
    level: float = 0.95
    seed: int = 0


DEFAULT = Bootstrap()


# Rows


def frame(rows: Rows, *, judged: bool = True) -> pd.DataFrame:
    """Returns verdict rows as a DataFrame with the columns that scoring needs.

    `correct` becomes 1, 0 or NaN (unscored), `refusal` 1, 0 or NaN (not known); the `KEYS` become
    strings, empty where not known. Added are `item`, the question (`id`, else region and row, else
    its text), and `cluster`, the event (`event_id`, else region and row, else the question).

    Args:
        rows: A DataFrame, a Dataset, or an iterable of dicts or `Verdict` records. A frame that
            this function gave is returned as it is.
        judged: Whether the rows must have verdicts; questions alone have none.

    Raises:
        RecordError: There is no field `correct`, or it holds something else than true, false and
            null.
    """
    if isinstance(rows, pd.DataFrame):
        if rows.columns.isin(_ADDED).sum() == len(_ADDED):
            return rows
        data = rows.reset_index(drop=True)
    else:
        data = pd.DataFrame(list(dicts(rows)), dtype=object)
    if judged and "correct" not in data and len(data):
        raise RecordError("the rows have no field 'correct': judge the answers first")
    text = {
        name: texts(data, name)
        for name in ("model", "split", "language", "year", "month", "id", "event_id", "row")
    }
    region = _each(texts(data, "region"), _slug)
    question = texts(data, "question")
    language = text["language"]
    named = language.isin(["english", "native"])
    split = _first(
        text["split"],
        language.where(named, _each(language, lambda c: c and _SPLIT.get(c, "native"))),
    )
    native = _each(region, lambda slug: REGIONS[slug].language_code if slug in REGIONS else "")
    code = _first(
        language.where(~named, ""),
        native.where(split == "native", _each(split, lambda s: "en" if s == "english" else "")),
    )
    month = _each(text["month"], lambda month: month and month.zfill(2))
    place = (region + "/" + text["row"]).where(text["row"] != "", "")
    item = _first(text["id"], place, question)
    kind = _each(question, question_type).where(split == "english", "")
    kinds = dict(zip(item[kind != ""], kind[kind != ""], strict=True))
    return data.assign(
        correct=_truth(data, "correct"),
        refusal=_truth(data, "refusal"),
        model=text["model"],
        region=region,
        macro_region=_each(region, _macro_region),
        split=split,
        language=code,
        year=text["year"],
        month=month,
        period=_each(text["year"], _period),
        question_type=_first(kind, _each(item, lambda name: kinds.get(name, ""))),
        cutoff=_side_of_cutoff(text["model"], texts(data, "knowledge_cutoff"), text["year"], month),
        item=item,
        cluster=_first(text["event_id"], place, item),
    )


def between(
    data: pd.DataFrame, after: str | None = None, before: str | None = None
) -> pd.DataFrame:
    """Returns the rows of events after one month and before another, both left out.

    Args:
        data: What `frame` gave. A row without a month is only kept where its whole year belongs.
        after: `YYYY-MM`, or None for no limit.
        before: `YYYY-MM`, or None for no limit.

    Raises:
        SettingsError: A limit is no month.
    """
    kept = pd.Series(True, index=data.index)
    for limit, later in ((after, True), (before, False)):
        if limit is None:
            continue
        if not re.fullmatch(MONTH, limit):
            raise SettingsError(f"'{limit}' is no month, expected one as 2023-01")
        month = data["month"].where(data["month"] != "", "01" if later else "12")
        when = data["year"] + "-" + month
        kept &= (data["year"] != "") & ((when > limit) if later else (when < limit))
    return data[kept].reset_index(drop=True)


def question_type(question: str) -> str:
    """Returns which of `QUESTION_TYPES` an English question is: its first interrogative."""
    match = _INTERROGATIVE.search(question.casefold())
    if match is None:
        return "other"
    word = " ".join(match.group().split())
    return {"whom": "who", "whose": "who"}.get(word, word)


def truncated(answer: str, finish: str = "") -> bool:
    """Says whether an answer was cut off.

    Where the reason why the model stopped is not known, an answer counts as cut off that is at
    least 200 characters long and does not end in punctuation.
    """
    if finish:
        return finish == "length"
    text = answer.rstrip()
    return len(text) >= 200 and unicodedata.category(text[-1])[0] not in "PS"


def texts(data: pd.DataFrame, name: str) -> pd.Series:
    """Returns a column as strings, empty where it is null or absent; 2018.0 is "2018".

    A list becomes its members with slashes between, what UTF-8 cannot say a question mark, and a
    control character, which HTML does not know and nobody sees, U+FFFD; white space stays.
    """
    if name not in data:
        return pd.Series("", index=data.index, dtype=object)
    column = data[name]
    if pd.api.types.is_float_dtype(column):  # what pandas makes of integers with gaps
        column = column.convert_dtypes()
    column = column.astype(object)
    known = column.where(column.notna(), "")
    kept = [" / ".join(map(str, v)) if isinstance(v, list) else str(v) for v in known]
    clean = [_CONTROL.sub("\ufffd", text.encode("utf-8", "replace").decode()) for text in kept]
    return pd.Series(clean, index=data.index, dtype=object)


_ADDED = ("macro_region", "period", "question_type", "cutoff", "item", "cluster")
_SPLIT = {"": "", "en": "english", "english": "english"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_INTERROGATIVE = re.compile(r"\b(what|how\s+many|which|when|who|whom|whose|why|how|where)\b")


def _each(column: pd.Series, function: Any) -> pd.Series:
    """Returns a function of a column's strings, called once for each different one."""
    return column.map({value: function(value) for value in column.unique()}).astype(object)


def _truth(data: pd.DataFrame, name: str) -> pd.Series:
    """Returns a column as 1.0, 0.0 and NaN; all NaN where it is absent."""
    if name not in data:
        return pd.Series(np.nan, index=data.index, dtype=float)
    column = data[name]
    if pd.api.types.is_bool_dtype(column) and not column.hasnans:
        return column.astype(float)
    kept = column.astype(object).where(column.notna(), None)
    bad = ~kept.isin([True, False, None])
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise RecordError(
            f"row {at + 1}: field '{name}' is {kept.iloc[at]!r}, expected true, false or null"
        )
    return kept.astype(float)


def _first(*columns: pd.Series) -> pd.Series:
    """Returns per row the first of the strings that is not empty."""
    result = columns[0]
    for column in columns[1:]:
        result = result.where(result != "", column)
    return result


def _slug(name: str) -> str:
    """Returns the slug of a known region, any other name as it is."""
    try:
        regions = find_regions(name) if name else ()
    except SettingsError:  # a region of one's own
        return name
    return regions[0].slug if len(regions) == 1 else name


def _macro_region(slug: str) -> str:
    region = REGIONS.get(slug)
    return "" if region is None else region.macro_region or region.name


def _period(year: str) -> str:
    """Returns the name of the period a year lies in, empty where the year is none."""
    if not re.fullmatch("[0-9]{4}", year):
        return ""
    names = [name for first, name in PERIODS if first <= int(year)]
    return names[-1] if names else f"–{PERIODS[0][0] - 1}"


def _side_of_cutoff(
    model: pd.Series, own: pd.Series, year: pd.Series, month: pd.Series
) -> pd.Series:
    """Returns for each row "before" or "after" its model's cutoff, or nothing.

    The cutoff is what the row says (`own`), else the published one.

    The month of the cutoff itself is before it; so is, where only a year was published, that year.
    """

    def last_month(name: str) -> str:
        known = find_model(name)
        return "" if known is None or known.cutoff_date is None else f"{known.cutoff_date:%Y-%m}"

    own = _each(own, lambda cutoff: f"{cutoff}-12" if len(cutoff) == 4 else cutoff)
    limit = _first(own, _each(model, last_month))
    earliest = year + "-" + month.where(month != "", "01")
    latest = year + "-" + month.where(month != "", "12")
    known = (limit != "") & (year != "")
    side = pd.Series("", index=model.index, dtype=object)
    return side.mask(known & (latest <= limit), "before").mask(known & (earliest > limit), "after")


# Scores of groups


def score(
    rows: Rows,
    by: Sequence[str] | None = None,
    *,
    average: Literal["micro", "macro"] = "micro",
    bootstrap: Bootstrap = DEFAULT,
) -> pd.DataFrame:
    """Scores groups of verdicts.

    The interval of a micro average has Wilson's form, with the standard error of a bootstrap over
    events and Student's t for their number, so that it keeps its level in small groups and near 0
    and 1; that of a macro average is the plain one of the same standard error.

    Args:
        rows: See `frame`. Verdicts are taken as they stand: a row that is both correct and a
            refusal counts as both, and in `contradictory`.
        by: Names of `KEYS` or of any other column; None is `("model",)`, or one group for all
            where no row names a model.
        average: `micro`: every scored answer counts the same; `macro`: every region does.
        bootstrap: How the interval is computed.

    Returns:
        One line per group, in sorted order: the columns of `by`, then average (its name), n (rows),
        questions, accuracy, low, high, refusal (share of the scored rows), attempted (accuracy of
        the scored rows that are no refusal), unscored and contradictory (counts), events and small
        (n < 30). Refusal and attempted are NaN where no row says whether it is a refusal.

    Raises:
        SettingsError: A name in `by` is no column, or the rows do not say it.
        RecordError: See `frame`.
    """
    data = frame(rows)
    if by is None:
        by = ("model",) if (data["model"] != "").any() else ()
    groups, code = _groups(data, by)
    count = len(groups)
    tally = _tally(data, code, count)
    if average == "micro":
        samples = _resamples(data["correct"], data["cluster"], code, count, bootstrap)
        low, high = _wilson(
            tally["accuracy"].to_numpy(),
            _variance(samples, count),
            tally["events"].to_numpy(),
            bootstrap.level,
        )
    else:
        parts, part = _groups(data, [*by, "region"])
        of = code[np.unique(part, return_index=True)[1]] if len(data) else code
        inner = _tally(data, part, len(parts))
        for name in ("accuracy", "refusal", "attempted"):
            tally[name] = inner[name].groupby(of).mean().to_numpy()
        samples = (
            _group_means(block, of, count)
            for block in _resamples(data["correct"], data["cluster"], part, len(parts), bootstrap)
        )
        low, high = _plain(
            tally["accuracy"].to_numpy(),
            _variance(samples, count),
            tally["events"].to_numpy(),
            bootstrap.level,
        )
    return groups.assign(
        average=average,
        n=tally["n"],
        questions=tally["questions"],
        accuracy=tally["accuracy"],
        low=np.clip(low, 0.0, 1.0),
        high=np.clip(high, 0.0, 1.0),
        refusal=tally["refusal"],
        attempted=tally["attempted"],
        unscored=tally["unscored"],
        contradictory=tally["contradictory"],
        events=tally["events"],
        small=tally["n"] < SMALL,
    )


def _groups(data: pd.DataFrame, by: Sequence[str]) -> tuple[pd.DataFrame, Ints]:
    """Returns the groups in sorted order, one line each, and the number of each row's group."""
    known = list(dict.fromkeys([*KEYS, *data.columns]))
    for name in by:
        if name not in known:
            raise SettingsError(
                f"cannot group by '{name}', expected one of {', '.join(known)}"
                + nearest(name, known)
            )
        if name in KEYS and len(data) and (data[name] == "").all():
            raise SettingsError(f"cannot group by '{name}': no row says its {name}")
    if not by:
        return pd.DataFrame(index=range(min(len(data), 1))), np.zeros(len(data), dtype=np.intp)
    keys = data[list(by)].astype(object)
    keys = keys.where(keys.notna() & (keys != ""), UNKNOWN)
    try:
        numbers = keys.groupby(list(by), sort=True).ngroup().to_numpy().astype(np.intp)
    except TypeError as error:  # lists and dicts cannot be compared
        raise SettingsError(f"cannot group by {', '.join(by)}: {error}") from error
    groups = keys.assign(number=numbers).drop_duplicates("number").sort_values("number")
    return groups[list(by)].reset_index(drop=True), numbers


def _tally(data: pd.DataFrame, code: Ints, count: int) -> pd.DataFrame:
    """Returns the counts and shares of `count` groups, one line each."""
    scored = data["correct"].notna().to_numpy()
    correct = data["correct"].fillna(0.0).to_numpy()
    refusal = data["refusal"].fillna(0.0).to_numpy() * scored

    def total(values: npt.NDArray[Any]) -> Floats:
        return np.bincount(code, weights=values, minlength=count).astype(np.float64)

    def different(rows: npt.NDArray[np.bool_], *names: str) -> Ints:
        kept = data.loc[rows, list(names)].assign(group=code[rows]).drop_duplicates()
        return np.bincount(kept["group"].to_numpy(dtype=np.intp), minlength=count)

    n = np.bincount(code, minlength=count)
    base, right, contradictory = total(scored), total(correct), total(correct * refusal)
    told = total(scored & data["refusal"].notna().to_numpy())
    refused = np.where(told > 0, total(refusal), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return pd.DataFrame(
            {
                "n": n,
                "questions": different(np.ones(len(data), dtype=bool), "item", "split"),
                "events": different(scored, "cluster"),
                "accuracy": right / base,
                "refusal": refused / base,
                "attempted": (right - contradictory) / (base - refused),
                "unscored": (n - base).astype(int),
                "contradictory": contradictory.astype(int),
            }
        )


# The bootstrap


_CHUNK = 2_000_000  # numbers held at once


def _weights(clusters: int, statistics: int, bootstrap: Bootstrap) -> Iterator[Floats]:
    """Yields how often each cluster is drawn: blocks of (resamples, clusters).

    A block is small enough to hold it and the statistics that are computed of it.
    """
    random = np.random.default_rng(bootstrap.seed)
    block = max(1, _CHUNK // max(clusters, statistics, 1))
    for start in range(0, bootstrap.draws if clusters else 0, block):
        rows = min(block, bootstrap.draws - start)
        picked = random.integers(clusters, size=(rows, clusters))
        picked += np.arange(rows)[:, None] * clusters
        count = np.bincount(picked.ravel(), minlength=rows * clusters)
        yield count.reshape(rows, clusters).astype(np.float64)


def _resamples(
    value: pd.Series, cluster: pd.Series, code: Ints, count: int, bootstrap: Bootstrap
) -> Iterator[Floats]:
    """Yields the mean value of each of `count` groups in resamples of the clusters.

    All groups see the same resamples, so that what is computed from several of them (a gap, a macro
    average) keeps their dependence. A group that a resample misses is NaN there, and rows without
    a value are left out.

    Yields:
        Blocks of (resamples, groups).
    """
    there = value.notna().to_numpy()
    numbers, names = pd.factorize(cluster[there])
    shape = (len(names), count)
    place = (numbers, code[there])
    total = csc_array((value[there].to_numpy(dtype=float), place), shape=shape)
    size = csc_array((np.ones(int(there.sum())), place), shape=shape)
    for weight in _weights(len(names), count, bootstrap):
        with np.errstate(invalid="ignore"):
            yield np.asarray((weight @ total) / (weight @ size))


def _variance(blocks: Iterable[Floats], count: int) -> Floats:
    """Returns the variance of each of `count` statistics over the resamples that have it."""
    number, first, second = np.zeros(count), np.zeros(count), np.zeros(count)
    for block in blocks:
        there = ~np.isnan(block)
        value = np.where(there, block, 0.0)
        number, first = number + there.sum(axis=0), first + value.sum(axis=0)
        second = second + (value**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.maximum(second / number - (first / number) ** 2, 0.0)


def _group_means(block: Floats, of: Ints, count: int) -> Floats:
    """Returns the mean over each group of columns, those that are NaN left out."""
    table = csc_array((np.ones(len(of)), (np.arange(len(of)), of)), shape=(len(of), count))
    there = ~np.isnan(block)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.where(there, block, 0.0) @ table) / (there.astype(float) @ table))


_NO_SPREAD = 1e-12  # a variance below this is rounding: all events agree


def _student(variance: Floats, events: Ints, level: float) -> tuple[Floats, Floats]:
    """Returns variances corrected for the number of events, and Student's t for an interval."""
    free = np.maximum(events - 1.0, 1.0)
    return variance * events / free, np.asarray(stdtrit(free, (1 + level) / 2))


def _wilson(share: Floats, variance: Floats, events: Ints, level: float) -> tuple[Floats, Floats]:
    """Returns Wilson's interval for shares with a known sampling variance.

    The number of independent answers is that whose binomial variance is the given one; where all
    events agree (no variance) it is the number of events.
    """
    spread = variance > _NO_SPREAD
    variance, z = _student(variance, events, level)
    with np.errstate(invalid="ignore", divide="ignore"):
        n = np.where(spread, share * (1 - share) / np.where(spread, variance, 1.0), events)
        middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


def _plain(value: Floats, variance: Floats, events: Ints, level: float) -> tuple[Floats, Floats]:
    """Returns the value give or take t standard errors.

    Where all events agree the width is that of Wilson's interval for a share of none of them.
    """
    variance, z = _student(variance, events, level)
    with np.errstate(invalid="ignore", divide="ignore"):
        none = z**2 / (events + z**2)
        half = np.where(variance > _NO_SPREAD, z * np.sqrt(variance), none)
    return value - half, value + half


# Differences


def differences(
    rows: Rows,
    by: Sequence[str] = (),
    *,
    of: str = "model",
    pairs: Iterable[tuple[str, str]] | None = None,
    bootstrap: Bootstrap = DEFAULT,
) -> pd.DataFrame:
    """Compares models (or runs) two by two on the questions that both have a verdict for.

    Args:
        rows: See `frame`.
        by: Groups to compare within, as in `score`.
        of: The column whose values are compared.
        pairs: Which of them; None is each two, in the order in which they appear.
        bootstrap: How the interval is computed.

    Returns:
        One line per pair and group: the columns of `by`, first, second, n (questions), events,
        first_accuracy, second_accuracy, difference (second minus first), low, high, p (two-sided,
        of no difference), gained and lost (questions that only the second, only the first has
        right).

    Raises:
        SettingsError: See `score`.
        RecordError: See `frame`.
    """
    data = frame(rows)
    groups, code = _groups(data, by)
    key = ["group", "cluster", "item", "split"]
    wide = data.assign(group=code).pivot_table(index=key, columns=of, values="correct")
    verdict = {name: wide[name].to_numpy() for name in wide.columns if name != ""}
    if pairs is None:
        appeared = [name for name in data[of].unique() if name in verdict]
        pairs = itertools.combinations(appeared, 2)
    couples = [pair for pair in pairs if pair[0] in verdict and pair[1] in verdict]
    events = wide.index.to_frame(index=False)[["group", "cluster"]]
    tables = [pd.DataFrame(columns=[*by, "first", "second", "n", "difference"])]
    block = max(1, _CHUNK // max(len(events), 1))
    for some in (couples[at : at + block] for at in range(0, len(couples), block)):
        both = [
            pd.DataFrame(
                {
                    "group": events["group"] + number * len(groups),
                    "cluster": events["cluster"],
                    "first": verdict[first],
                    "second": verdict[second],
                }
            ).dropna()
            for number, (first, second) in enumerate(some)
        ]
        lines = [groups.assign(first=first, second=second) for first, second in some]
        table = pd.concat(lines, ignore_index=True).join(
            _paired(pd.concat(both, ignore_index=True), len(some) * len(groups), bootstrap)
        )
        tables.append(table[table["n"] > 0])
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _paired(pairs: pd.DataFrame, count: int, bootstrap: Bootstrap) -> pd.DataFrame:
    """Returns the columns from n on of `differences`, one line for each of `count` groups.

    Args:
        pairs: Columns group (its number), cluster, first and second (1 or 0).
        count: Number of groups.
        bootstrap: How the interval is computed.
    """
    code = pairs["group"].to_numpy(dtype=np.intp)
    change = pairs["second"] - pairs["first"]
    n = np.bincount(code, minlength=count)
    seen = pairs[["group", "cluster"]].drop_duplicates()["group"]
    events = np.bincount(seen.to_numpy(dtype=np.intp), minlength=count)
    variance = _variance(_resamples(change, pairs["cluster"], code, count, bootstrap), count)

    def total(values: Any) -> Floats:
        return np.bincount(code, weights=values, minlength=count).astype(np.float64)

    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total(change) / n
        low, high = _plain(mean, variance, events, bootstrap.level)
        corrected, _ = _student(variance, events, bootstrap.level)
        t = np.where(variance > _NO_SPREAD, np.abs(mean) / np.sqrt(corrected), 0.0)
        return pd.DataFrame(
            {
                "n": n,
                "events": events,
                "first_accuracy": total(pairs["first"]) / n,
                "second_accuracy": total(pairs["second"]) / n,
                "difference": mean,
                "low": np.clip(low, -1.0, 1.0),
                "high": np.clip(high, -1.0, 1.0),
                "p": 2 * stdtr(np.maximum(events - 1.0, 1.0), -t),
                "gained": total(change > 0).astype(int),
                "lost": total(change < 0).astype(int),
            }
        )


def gaps(
    rows: Rows,
    by: Sequence[str] = (),
    *,
    reference: str | None = None,
    bootstrap: Bootstrap = DEFAULT,
) -> pd.DataFrame:
    """Returns how far each country lies behind a reference region.

    Args:
        rows: See `frame`; the World is no country and is left out.
        by: Groups to compare within, as in `score`; with none, all models count together.
        reference: A region's name; None is the United States, or where no row is theirs the region
            with the highest accuracy among those with at least `SMALL` rows.
        bootstrap: How the interval is computed.

    Returns:
        One line per group and region, the largest gap first: the columns of `by`, region,
        reference, n, accuracy, gap (accuracy of the reference minus that of the region), low, high.

    Raises:
        SettingsError: The reference is unknown, or no row is its; see `score` too.
        RecordError: See `frame`.
    """
    data = frame(rows)
    data = data[data["region"] != "World"].reset_index(drop=True)
    if data.empty:
        return pd.DataFrame(columns=[*by, "region", "reference", "n", "accuracy", "gap"])
    present = set(data["region"])
    if reference is None:
        slug = "the_United_States"
        if slug not in present:
            overall = score(data, ["region"], bootstrap=Bootstrap(draws=0))
            large = overall[~overall["small"]] if (~overall["small"]).any() else overall
            slug = str(large.sort_values("accuracy", ascending=False)["region"].iloc[0])
    else:
        slug = _slug(reference)
        if slug not in present:
            raise SettingsError(
                f"no row is of the reference region '{reference}', expected one of "
                f"{', '.join(sorted(present))}" + nearest(reference, present)
            )
    groups, code = _groups(data, [*by, "region"])
    outer = groups[list(by)].apply(tuple, axis=1) if by else pd.Series([()] * len(groups))
    base = {key: at for at, key in outer[groups["region"] == slug].items()}
    at = outer.map(base)
    kept = at.notna().to_numpy()
    to = at[kept].to_numpy(dtype=np.intp)
    tally = _tally(data, code, len(groups))
    samples = (
        block[:, to] - block[:, kept]
        for block in _resamples(data["correct"], data["cluster"], code, len(groups), bootstrap)
    )
    accuracy = tally["accuracy"].to_numpy()
    gap = accuracy[to] - accuracy[kept]
    low, high = _plain(
        gap,
        _variance(samples, int(kept.sum())),
        tally["events"].to_numpy()[kept],
        bootstrap.level,
    )
    own = groups["region"][kept].to_numpy() == slug
    return (
        groups[kept]
        .assign(
            reference=slug,
            n=tally["n"][kept],
            accuracy=accuracy[kept],
            gap=gap,
            low=np.where(own, 0.0, np.clip(low, -1.0, 1.0)),
            high=np.where(own, 0.0, np.clip(high, -1.0, 1.0)),
        )
        .sort_values([*by, "gap"], ascending=[True] * len(by) + [False], kind="stable")
        .reset_index(drop=True)
    )


def english_native(
    rows: Rows, by: Sequence[str] = ("model", "region"), *, bootstrap: Bootstrap = DEFAULT
) -> pd.DataFrame:
    """Returns how much better the same questions are answered in English than in the native tongue.

    Only questions count that a model has a verdict for in both. The difference in accuracy is split
    into what more refusals and what more wrong answers in the native language take away; as a
    control it is computed again without the pairs in which an answer was cut off (`truncated`).

    Args:
        rows: See `frame`.
        by: Groups, as in `score`, of what both rows of a pair have in common.
        bootstrap: How the interval is computed.

    Returns:
        One line per group: the columns of `by`, n (pairs), english, native (accuracies), difference
        (English minus native), low, high, p, by_refusal and by_wrong (the two parts, NaN where
        refusals are not known), cut (pairs with a truncated answer), control (the difference
        without them).

    Raises:
        SettingsError: See `score`.
        RecordError: See `frame`.
    """
    data = frame(rows)
    data = data[data["correct"].notna() & data["split"].isin(["english", "native"])]
    answer, finish = texts(data, "model_answer"), texts(data, "finish")
    data = data.assign(
        cut=[truncated(*pair) for pair in zip(answer, finish, strict=True)],
        refused=data["refusal"].where(data["correct"] == 0, 0.0 * data["refusal"]),
    )
    key = list(dict.fromkeys(["model", "item", "cluster", *by]))
    columns = ["correct", "refused", "cut"]
    halves = [
        data[data["split"] == split].drop_duplicates(key)[[*key, *columns]]
        for split in ("english", "native")
    ]
    pairs = halves[0].merge(halves[1], on=key, suffixes=("", "_native"))
    groups, code = _groups(pairs, by)
    count = len(groups)
    both = pairs[["cluster"]].assign(
        group=code, first=pairs["correct_native"], second=pairs["correct"]
    )
    table = _paired(both, count, bootstrap)
    whole = ~(pairs["cut"].astype(bool) | pairs["cut_native"].astype(bool)).to_numpy()

    def mean(values: pd.Series, kept: Any = slice(None)) -> Floats:
        part = values[kept]
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.bincount(code[kept], weights=part.to_numpy(dtype=float), minlength=count)
                / np.bincount(code[kept], minlength=count)
            )

    by_refusal = mean(pairs["refused_native"] - pairs["refused"])
    return groups.assign(
        n=table["n"],
        english=table["second_accuracy"],
        native=table["first_accuracy"],
        difference=table["difference"],
        low=table["low"],
        high=table["high"],
        p=table["p"],
        by_refusal=by_refusal,
        by_wrong=table["difference"] - by_refusal,
        cut=np.bincount(code, weights=~whole, minlength=count).astype(int),
        control=mean(pairs["correct"] - pairs["correct_native"], whole),
    )


# Indicators


COUNTRIES = 4
"""With fewer a correlation says nothing."""


def correlations(
    rows: Rows, by: Sequence[str] = ("split",), *, bootstrap: Bootstrap = DEFAULT
) -> pd.DataFrame:
    """Correlates the accuracy in each country with its socioeconomic indicators of 2015.

    A country's accuracy is the mean of the models' accuracies there, as in Table 3 of the paper;
    Pearson's correlation takes the logarithm of GDP and population, as there. Countries are what is
    resampled and permuted here.

    Args:
        rows: See `frame`; regions without indicators are left out.
        by: Groups, as in `score`.
        bootstrap: Of the interval (percentiles); ten times its draws are the permutations.

    Returns:
        One line per group, indicator and method: the columns of `by`, indicator, method (spearman,
        pearson), log (whether of the logarithm), n (countries), value, low, high, p (two-sided, by
        permutation). NaN with fewer than four countries.

    Raises:
        SettingsError: See `score`.
        RecordError: See `frame`.
    """
    data = frame(rows)
    known = data["region"].map(
        lambda slug: slug in REGIONS and REGIONS[slug].indicators is not None
    )
    data = data[known.astype(bool)].reset_index(drop=True)
    groups, _ = _groups(data, by)
    per_model = data.groupby([*by, "region", "model"], sort=True)["correct"].mean()
    mean = per_model.groupby(level=[*by, "region"]).mean().dropna().reset_index()
    lines = []
    for record in groups.to_dict("records"):
        group = {str(name): value for name, value in record.items()}
        part = mean
        for name, value in group.items():
            part = part[part[name] == value]
        accuracy = part["correct"].to_numpy()
        for indicator, log in INDICATORS.items():
            values = np.array(
                [float(getattr(REGIONS[slug].indicators, indicator)) for slug in part["region"]]
            )
            for method in ("spearman", "pearson"):
                x = np.log(values) if log and method == "pearson" else values
                lines.append(
                    {
                        **group,
                        "indicator": indicator,
                        "method": method,
                        "log": log and method == "pearson",
                        "n": len(part),
                        **_correlation(x, accuracy, method == "spearman", bootstrap),
                    }
                )
    columns = [*by, "indicator", "method", "log", "n", "value", "low", "high", "p"]
    return pd.DataFrame(lines, columns=columns)


def _correlation(x: Floats, y: Floats, ranks: bool, bootstrap: Bootstrap) -> dict[str, float]:
    """Returns a correlation, its interval and the p value of none at all."""
    if len(x) < COUNTRIES:
        return {"value": np.nan, "low": np.nan, "high": np.nan, "p": np.nan}
    random = np.random.default_rng(bootstrap.seed)

    def along(a: Floats, b: Floats) -> Floats:
        """The correlation of each row of `a` with that of `b`."""
        if ranks:
            a, b = (pd.DataFrame(v).rank(axis=1).to_numpy() for v in (a, b))
        a = a - a.mean(axis=1, keepdims=True)
        b = b - b.mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
            )

    value = float(along(x[None], y[None])[0])
    picked = random.integers(len(x), size=(bootstrap.draws, len(x)))
    tail = (1 - bootstrap.level) / 2
    low, high = np.nanquantile(along(x[picked], y[picked]), [tail, 1 - tail])
    mixed = random.permuted(np.tile(y, (10 * bootstrap.draws, 1)), axis=1)
    extreme = np.abs(along(np.broadcast_to(x, mixed.shape), mixed)) >= abs(value) - 1e-12
    p = (1 + int(extreme.sum())) / (1 + len(mixed))
    return {"value": value, "low": float(low), "high": float(high), "p": p}


# The measured knowledge cutoff


def cutoffs(rows: Rows, *, bootstrap: Bootstrap = DEFAULT) -> pd.DataFrame:
    """Finds for each model the month from which on its accuracy is lower.

    One change point: of all months with at least `SMALL` answers on both sides, the one that makes
    a constant accuracy before it and a lower constant one from it on most likely. The interval
    resamples events; p is how often shuffled events show as strong a break.

    Args:
        rows: See `frame`; rows without year or month are left out.
        bootstrap: How interval (percentiles) and p are computed.

    Returns:
        One line per model: model, stated (published cutoff, as `YYYY-MM` or `YYYY`, else ""), n,
        month (the first of lower accuracy, `YYYY-MM`, or "" where the data cannot tell), low, high
        (months), before, after (accuracies), p, and note, which says why nothing can be told.

    Raises:
        SettingsError: No row says its model.
        RecordError: See `frame`.
    """
    data = frame(rows)
    models = [name for name in sorted(data["model"].unique()) if name]
    if len(data) and not models:
        raise SettingsError("cannot find cutoffs: no row says its model")
    dated = (data["year"] + "-" + data["month"]).str.fullmatch(MONTH) & data["correct"].notna()
    data = data[dated.astype(bool)]
    lines = []
    for name in models:
        known = find_model(name)
        part = data[data["model"] == name]
        lines.append(
            {
                "model": name,
                "stated": (known.cutoff if known else None) or "",
                "n": len(part),
                **_break(part, bootstrap),
            }
        )
    columns = ["model", "stated", "n", "month", "low", "high", "before", "after", "p", "note"]
    return pd.DataFrame(lines, columns=columns)


def _break(data: pd.DataFrame, bootstrap: Bootstrap) -> dict[str, Any]:
    """Returns the change point of one model's accuracy, the columns from `month` on."""
    nothing: dict[str, Any] = {"month": "", "low": "", "high": ""}
    nothing |= {"before": np.nan, "after": np.nan, "p": np.nan}
    when = data["year"].astype(int).to_numpy() * 12 + data["month"].astype(int).to_numpy() - 1
    if len(data) < 2 * SMALL:
        return nothing | {"note": f"fewer than {2 * SMALL} answers with a month"}
    start, span = int(when.min()), int(when.max() - when.min()) + 1
    month = when - start
    cluster, names = pd.factorize(data["cluster"])
    right = data["correct"].to_numpy()
    shape = (len(names), span)
    good = csc_array((right, (cluster, month)), shape=shape)
    size = csc_array((np.ones(len(month)), (cluster, month)), shape=shape)
    once = np.ones((1, len(names)))
    at, gain = _change_points(np.asarray(once @ good), np.asarray(once @ size))
    found, strength = int(at[0]), float(gain[0])
    if found < 0:
        return nothing | {"note": "accuracy is nowhere lower later on"}
    resampled = np.concatenate(
        [
            _change_points(np.asarray(w @ good), np.asarray(w @ size))[0]
            for w in _weights(len(names), span, bootstrap)
        ]
    )
    # Whole events change places, each keeping its answers together.
    random = np.random.default_rng(bootstrap.seed)
    first = month[np.unique(cluster, return_index=True)[1]]
    places = random.permuted(np.tile(first, (max(bootstrap.draws // 4, 1), 1)), axis=1)
    places += np.arange(len(places))[:, None] * span
    rows = len(places)

    def moved(table: csc_array) -> Floats:
        total = np.tile(table.sum(axis=1), rows)
        flat = np.bincount(places.ravel(), weights=total, minlength=rows * span)
        return flat.reshape(rows, span).astype(np.float64)

    _, shuffled = _change_points(moved(good), moved(size))
    p = (1 + int((shuffled >= strength).sum())) / (1 + rows)
    tail = (1 - bootstrap.level) / 2
    inside = resampled[resampled >= 0]
    low, high = (int(q) for q in np.quantile([found, *inside], [tail, 1 - tail], method="nearest"))

    def label(number: int) -> str:
        return f"{(start + number) // 12}-{(start + number) % 12 + 1:02d}"

    early = month < found
    result = {
        "month": label(found),
        "low": label(low),
        "high": label(high),
        "before": float(right[early].mean()),
        "after": float(right[~early].mean()),
        "p": p,
        "note": "",
    }
    if p > 1 - bootstrap.level:
        return result | {"month": "", "note": "no break stronger than chance"}
    if high - low > 36:
        return result | {"month": "", "note": "the break lies anywhere in more than three years"}
    return result


def _change_points(right: Floats, size: Floats) -> tuple[Ints, Floats]:
    """Returns the first months of lower accuracy, and the log likelihoods that the breaks gain.

    Args:
        right: Numbers of right answers, (series, months).
        size: Numbers of answers, (series, months).

    Returns:
        Two arrays of (series): -1 and 0 where no month has `SMALL` answers on both sides and a
        lower accuracy from it on.
    """

    def likelihood(right: Floats, size: Floats) -> Floats:
        share = np.clip(right / np.maximum(size, 1.0), 1e-9, 1 - 1e-9)
        return np.asarray(right * np.log(share) + (size - right) * np.log1p(-share))

    before, n_before = np.cumsum(right, axis=1)[:, :-1], np.cumsum(size, axis=1)[:, :-1]
    all_right, all_size = right.sum(axis=1)[:, None], size.sum(axis=1)[:, None]
    after, n_after = all_right - before, all_size - n_before
    possible = (n_before >= SMALL) & (n_after >= SMALL)
    possible &= before * n_after > after * n_before
    gain = likelihood(before, n_before) + likelihood(after, n_after)
    gain = np.where(possible, gain - likelihood(all_right, all_size), -np.inf)
    best = gain.argmax(axis=1)
    there = possible.any(axis=1)
    height = gain[np.arange(len(best)), best]
    return np.where(there, best + 1, -1), np.where(there, height, 0.0)


# Judges


def agreement(
    rows: Rows, labels: Rows, *, by: Sequence[str] = (), bootstrap: Bootstrap = DEFAULT
) -> pd.DataFrame:
    """Compares each judge with people, or with another judge, on the same answers (Table 2).

    Args:
        rows: See `frame`; the judge's name is taken from `judge` or `judge_model`.
        labels: The people's verdicts in `correct` and `refusal`, told apart by question, split and
            model as far as they name them.
        by: Columns whose groups are compared each for itself, as `language`.
        bootstrap: How the intervals are computed, over events.

    Returns:
        One line per judge and group: judge, the columns of `by`, n (answers that both decided),
        human and verdict (share judged correct by each), divergence (share judged differently) with
        low and high (Wilson's form), kappa (Cohen's) with kappa_low and kappa_high, stricter and
        laxer (counts: wrong for the judge and right for people, and the reverse), difference
        (verdict less human) with difference_low and difference_high, p (McNemar's exact test),
        direction (`stricter` or `laxer` where p is below 1 - level, else empty), and F1 for each
        class: f1_correct, f1_incorrect, f1_refusal (missing where one of both tells no refusals).

    Raises:
        RecordError: See `frame`; or a label fits several answers of one judge.
        SettingsError: There is no such column.
    """
    data, people = frame(rows), frame(labels)
    judge = _first(texts(data, "judge"), texts(data, "judge_model"))
    data = data.assign(judge=judge.where(judge != "", UNKNOWN))
    key = ["item", *(name for name in ("split", "model") if (people[name] != "").any())]
    people = people[people["correct"].notna()].drop_duplicates(key)
    both = data[data["correct"].notna()].merge(
        people[[*key, "correct", "refusal"]], on=key, suffixes=("", "_human")
    )
    several = both.duplicated([*key, "judge"])
    if several.any():
        first = both[several].iloc[0]
        same = both[(both["item"] == first["item"]) & (both["judge"] == first["judge"])]
        apart = [name for name in ("model", "split") if same[name].nunique() > 1]
        remedy = (
            f"name the {' and '.join(apart)} in the labels"
            if apart
            else "give each row an id of its own, in the answers that were judged"
        )
        raise RecordError(
            f"the label of question '{first['item']}' fits {len(same)} answers: {remedy}"
        )
    for name in by:
        if name not in both:
            raise SettingsError(f"no column '{name}' to group by{nearest(name, both.columns)}")
    lines = [
        dict(zip(("judge", *by), names, strict=True)) | _agreement(part, bootstrap)
        for names, part in both.groupby(["judge", *by], sort=True)
    ]
    return pd.DataFrame(lines, columns=None if lines else ["judge", *by, "n"])


def _agreement(both: pd.DataFrame, bootstrap: Bootstrap) -> dict[str, Any]:
    """Returns what `agreement` tells of answers that two have judged."""
    from scipy.stats import binomtest  # slow to import

    ours, theirs = both["correct"].to_numpy() == 1, both["correct_human"].to_numpy() == 1
    cells = np.stack([ours & theirs, ours & ~theirs, ~ours & theirs, ~ours & ~theirs], axis=1)
    numbers, names = pd.factorize(both["cluster"])
    counts = np.zeros((len(names), 4))
    np.add.at(counts, numbers, cells)
    total = counts.sum(axis=0, keepdims=True)
    samples = np.concatenate([weight @ counts for weight in _weights(len(names), 4, bootstrap)])
    tails = ((1 - bootstrap.level) / 2, (1 + bootstrap.level) / 2)
    apart, kappa, difference = _two_judges(total)
    drawn_apart, drawn_kappa, drawn_difference = _two_judges(samples)
    low, high = _wilson(
        apart, drawn_apart.var(keepdims=True), np.array([len(names)]), bootstrap.level
    )
    yes, stricter, laxer, no = total[0, 0], int(total[0, 2]), int(total[0, 1]), total[0, 3]
    odd = stricter + laxer
    p = float(binomtest(stricter, odd).pvalue) if odd else 1.0
    some = np.isfinite(drawn_kappa)
    kappas = np.quantile(drawn_kappa[some], tails) if some.any() else (np.nan, np.nan)
    told = both["refusal"].notna() & both["refusal_human"].notna()
    refusals = both.loc[told, ["refusal", "refusal_human"]].sum(axis=1)
    return {
        "n": len(both),
        "human": theirs.mean(),
        "verdict": ours.mean(),
        "divergence": apart[0],
        "low": low[0],
        "high": high[0],
        "kappa": kappa[0],
        "kappa_low": kappas[0],
        "kappa_high": kappas[1],
        "stricter": stricter,
        "laxer": laxer,
        "difference": difference[0],
        "difference_low": np.quantile(drawn_difference, tails[0]),
        "difference_high": np.quantile(drawn_difference, tails[1]),
        "p": p,
        "direction": ("stricter" if stricter > laxer else "laxer") if p < 2 * tails[0] else "",
        "f1_correct": _f1(yes, odd),
        "f1_incorrect": _f1(no, odd),
        "f1_refusal": _f1((refusals == 2).sum(), (refusals == 1).sum()),
    }


def _two_judges(cells: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns divergence, kappa and difference of tables (both, only ours, only theirs, none)."""
    share = cells / cells.sum(axis=1, keepdims=True)
    apart = share[:, 1] + share[:, 2]
    ours, theirs = share[:, 0] + share[:, 1], share[:, 0] + share[:, 2]
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = np.where(chance < 1, (1 - apart - chance) / (1 - chance), np.nan)
    return apart, kappa, ours - theirs


def _f1(both: float, one: float) -> float:
    """Returns the F1 of a class that both, or only one of two judges saw."""
    return 2 * both / (2 * both + one) if both + one else float("nan")


def judge_notes(rows: Rows) -> list[str]:
    """Returns what a reader of scores must know of who judged, in a sentence each; mostly nothing.

    Args:
        rows: See `frame`.
    """
    data = frame(rows)
    judges = sorted({name.partition(", refusal by")[0] for name in texts(data, "judge")} - {""})
    notes = []
    if len(judges) > 1:
        notes.append(
            f"The verdicts are of {len(judges)} judges ({'; '.join(judges)}): only models judged "
            "by the same one can be compared."
        )
    share = (texts(data, "decided_by") == "offline").mean() if len(data) else 0.0
    if share:
        notes.append(
            f"{share:.0%} of the verdicts are of the offline judge, which imitates one language "
            "model: models that lie close together may rank otherwise under that model itself."
        )
    return notes + [_cascade_note(name, data) for name in judges if wanted(name)]


def _cascade_note(judge: str, data: pd.DataFrame) -> str:
    """Tells how the model judged a sample of what the offline judge had settled for it."""
    part = data[texts(data, "judge").str.startswith(judge)]
    settled, target = _truth(part, "settled_as"), wanted(judge) or 0.0
    asked = part["correct"].notna() & (texts(part, "decided_by") != "offline")
    both = part[settled.notna() & asked]
    agreement = Agreement.of(zip(both["correct"], settled[both.index], strict=True))
    short = f": BELOW the {target:.1%} wanted" if agreement.misses(target) else ""
    return (
        f"{judge}: {settled.notna().mean():.0%} of {len(part):,} answers were settled offline"
        f"{agreement.of_sample(settled.notna().sum())}{short}."
    )


# What the benchmark covers


def coverage(questions: Rows) -> pd.DataFrame:
    """Counts the questions of each region by period, English and native together (Table 1).

    Args:
        questions: Rows of questions, or of verdicts, in which each question counts once.

    Returns:
        One line per region in the order of `tiebe.regions.REGIONS`: region, language (native, by
        name), a column per period that occurs, english, native and questions.
    """
    data = frame(questions, judged=False)
    data = data.drop_duplicates(["region", "item", "split"])
    periods = [
        name
        for name in [_period("0000"), *(n for _, n in PERIODS)]
        if (data["period"] == name).any()
    ]
    order = {slug: number for number, slug in enumerate(REGIONS)}
    regions = sorted(data["region"].unique(), key=lambda slug: (order.get(slug, len(order)), slug))
    lines = []
    for slug in regions:
        part = data[data["region"] == slug]
        native = REGIONS[slug].language if slug in REGIONS else None
        lines.append(
            {
                "region": slug,
                "language": native.name if native else "English",
                **{name: int((part["period"] == name).sum()) for name in periods},
                "english": int((part["split"] == "english").sum()),
                "native": int((part["split"] == "native").sum()),
                "questions": len(part),
            }
        )
    return pd.DataFrame(lines)
