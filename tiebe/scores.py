"""Scores: accuracy, refusal and their uncertainty, from the verdicts on a model's answers.

Everything here is a pure function of verdict rows (dicts, a DataFrame, a Dataset or Verdict
records) and returns a DataFrame. Questions on one event stand or fall together, so every interval
comes from resampling whole events (the bootstrap clustered by event), never single answers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from tiebe.errors import RecordError, SettingsError, nearest
from tiebe.records import to_row

__all__ = ["KEYS", "PERIODS", "SMALL", "UNKNOWN", "between", "frame", "score"]

PERIODS: tuple[tuple[int, str], ...] = (
    (2015, "2015–2017"),
    (2018, "2018–2020"),
    (2021, "2021–2022"),
    (2023, "2023–2025"),
    (2026, "2026–"),
)
"""First year and name of each period: the paper's four, then what came since."""

SMALL = 30
"""A group with fewer rows than this is marked: its figures say little."""

UNKNOWN = "unknown"
"""The group of the rows that do not say what they are grouped by."""

KEYS = ("model", "region", "split", "language", "year", "month", "period")
"""What rows can be grouped by, beside the columns that they bring."""

Rows = pd.DataFrame | Iterable[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def frame(rows: Rows) -> pd.DataFrame:
    """Returns verdict rows as a DataFrame with the columns that scoring needs.

    `correct` becomes 1, 0 or NaN (unscored), `refusal` 1, 0 or NaN (not known); the `KEYS` become
    strings, empty where not known. Added are `item`, the question (`id`, else region
    and row, else its text), and `cluster`, the event (`event_id`, else region and row, else the
    question).

    Args:
        rows: A DataFrame, a Dataset, or an iterable of dicts or `Verdict` records.

    Raises:
        RecordError: There is no field `correct`, or it holds something else than true, false and
            null.
    """
    if isinstance(rows, pd.DataFrame):
        data = rows.reset_index(drop=True)
    else:
        dicts: list[Any] = [row if isinstance(row, Mapping) else to_row(row) for row in rows]
        data = pd.DataFrame.from_records(dicts)
    if "correct" not in data and len(data):
        raise RecordError("the rows have no field 'correct': judge the answers first")
    text = {name: _text(data, name) for name in (*KEYS, "id", "event_id", "row", "question")}
    language = text["language"]
    as_split = language.isin(["english", "native"])
    code = language.where(~as_split, language.map({"english": "en"}).fillna(""))
    split = _first(
        text["split"],
        language.where(as_split, code.map(lambda c: c and ("english" if c == "en" else "native"))),
    )
    place = (text["region"] + "/" + text["row"]).where(text["row"] != "", "")
    item = _first(text["id"], place, text["question"])
    return data.assign(
        correct=_truth(data, "correct"),
        refusal=_truth(data, "refusal"),
        model=text["model"],
        region=text["region"],
        language=code,
        split=split,
        year=text["year"],
        month=text["month"].map(lambda month: month and month.zfill(2)),
        period=text["year"].map({year: _period(year) for year in text["year"].unique()}),
        item=item,
        cluster=_first(text["event_id"], place, item),
    )


def between(
    data: pd.DataFrame, after: str | None = None, before: str | None = None
) -> pd.DataFrame:
    """Returns the rows of events after one month and before another, both left out.

    Args:
        data: What `frame` gave. A row without a month counts as its year's last for `before` and
            as its first for `after`, so that it is only kept where it surely belongs.
        after: `YYYY-MM`, or None for no limit.
        before: `YYYY-MM`, or None for no limit.

    Raises:
        SettingsError: A limit is no month.
    """
    kept = pd.Series(True, index=data.index)
    for limit, side in ((after, 1), (before, -1)):
        if limit is None:
            continue
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", limit):
            raise SettingsError(f"'{limit}' is no month, expected one as 2023-01")
        month = data["month"].where(data["month"] != "", "01" if side == 1 else "12")
        when = data["year"] + "-" + month
        kept &= (data["year"] != "") & ((when > limit) if side == 1 else (when < limit))
    return data[kept].reset_index(drop=True)


def score(
    rows: Rows,
    by: Sequence[str] | None = None,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Scores groups of verdicts.

    Accuracy is the micro average: every scored answer counts the same. Its interval has Wilson's
    form, with the standard error of a bootstrap over events and Student's t for their number, so
    that it keeps its level in small groups and near 0 and 1.

    Args:
        rows: See `frame`. Verdicts are taken as they stand: a row that is both correct and a
            refusal counts as both, and in `contradictory`.
        by: Names of `KEYS` or of any other column; None is `("model",)`, or one group for all
            where no row names a model.
        draws: Number of resamples.
        level: Level of the interval.
        seed: Seed of the resamples.

    Returns:
        One line per group, in sorted order: the columns of `by`, then n, accuracy, low, high,
        refusal (share of the scored rows), attempted (accuracy of the scored rows that are no
        refusal), unscored and contradictory (counts), events (number of clusters) and small
        (n < 30). Shares lie between 0 and 1 and are NaN where nothing is scored, or where no row
        says whether it is a refusal.

    Raises:
        SettingsError: A name in `by` is no column, or the rows do not say it.
        RecordError: See `frame`.
    """
    data = frame(rows)
    if by is None:
        by = ("model",) if (data["model"] != "").any() else ()
    groups, code = _groups(data, by)
    count = len(groups)
    scored = data["correct"].notna().to_numpy()
    correct = data["correct"].fillna(0.0).to_numpy()
    refusal = data["refusal"].fillna(0.0).to_numpy() * scored

    def total(values: npt.NDArray[Any]) -> Floats:
        return np.bincount(code, weights=values, minlength=count).astype(np.float64)

    n = np.bincount(code, minlength=count)
    base, right, contradictory = total(scored), total(correct), total(correct * refusal)
    told = total(scored & data["refusal"].notna().to_numpy())
    refused = np.where(told > 0, total(refusal), np.nan)
    pairs = pd.DataFrame({"code": code, "cluster": data["cluster"]})[scored].drop_duplicates()
    events = np.bincount(pairs["code"].to_numpy(dtype=np.intp), minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = right / base
        variance = _variance(_resamples(data, code, count, draws=draws, seed=seed), count)
        low, high = _wilson(accuracy, variance, events, level=level)
        return groups.assign(
            n=n,
            accuracy=accuracy,
            low=low,
            high=high,
            refusal=refused / base,
            attempted=(right - contradictory) / (base - refused),
            unscored=(n - base).astype(int),
            contradictory=contradictory.astype(int),
            events=events,
            small=n < SMALL,
        )


def _text(data: pd.DataFrame, name: str) -> pd.Series:
    """Returns a column as strings, empty where it is null or absent; 2018.0 is "2018"."""
    if name not in data:
        return pd.Series("", index=data.index, dtype=object)
    column = data[name]
    if pd.api.types.is_float_dtype(column):  # what pandas makes of integers with gaps
        column = column.convert_dtypes()
    column = column.astype(object)
    return column.where(column.notna(), "").map(str)


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


def _period(year: str) -> str:
    """Returns the name of the period a year lies in, empty where the year is none."""
    if not year.isdigit():
        return ""
    names = [name for first, name in PERIODS if first <= int(year)]
    return names[-1] if names else f"–{PERIODS[0][0] - 1}"


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
    numbers = keys.groupby(list(by), sort=True).ngroup().to_numpy().astype(np.intp)
    groups = keys.assign(number=numbers).drop_duplicates("number").sort_values("number")
    return groups[list(by)].reset_index(drop=True), numbers


def _resamples(
    data: pd.DataFrame, code: Ints, count: int, *, draws: int, seed: int
) -> Iterator[Floats]:
    """Yields the accuracy of each of `count` groups in resample after resample of the events.

    All groups see the same resample, so that what is computed from several of them (a difference,
    a macro average) keeps their dependence. A group that a resample misses is NaN there.
    """
    scored = data["correct"].notna().to_numpy()
    cluster, clusters = pd.factorize(data["cluster"][scored])
    cells = (
        pd.DataFrame({"cluster": cluster, "group": code[scored], "right": data["correct"][scored]})
        .groupby(["group", "cluster"], sort=False)["right"]
        .agg(["sum", "size"])
        .reset_index()
    )
    group, of = cells["group"].to_numpy(), cells["cluster"].to_numpy()
    right, size = cells["sum"].to_numpy(), cells["size"].to_numpy()
    random = np.random.default_rng(seed)
    for _ in range(draws if len(cells) else 0):
        picked = random.integers(len(clusters), size=len(clusters))
        weight = np.bincount(picked, minlength=len(clusters))[of]
        with np.errstate(invalid="ignore"):
            yield np.bincount(group, weights=weight * right, minlength=count) / np.bincount(
                group, weights=weight * size, minlength=count
            )


def _variance(samples: Iterator[Floats], count: int) -> Floats:
    """Returns the variance of each of `count` groups over the resamples that it is in."""
    number, first, second = np.zeros(count), np.zeros(count), np.zeros(count)
    for sample in samples:
        there = ~np.isnan(sample)
        value = np.where(there, sample, 0.0)
        number, first, second = number + there, first + value, second + value**2
    return np.maximum(second / number - (first / number) ** 2, 0.0)


def _wilson(
    share: Floats, variance: Floats, events: Ints, *, level: float
) -> tuple[Floats, Floats]:
    """Returns Wilson's interval for shares with a known sampling variance.

    The number of independent answers is that whose binomial variance is the given one; where all
    events agree (no variance) it is the number of events.
    """
    spread = variance > 1e-12
    n = np.where(spread, share * (1 - share) / np.where(spread, variance, 1.0), events)
    z = stdtrit(np.maximum(events - 1, 1), (1 + level) / 2)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
