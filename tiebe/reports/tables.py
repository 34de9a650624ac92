"""The tables of a report: what the paper shows, computed from verdicts."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from tiebe.errors import RecordError
from tiebe.models import find_model
from tiebe.regions import REGIONS
from tiebe.scores import (
    COUNTRIES,
    INDICATORS,
    MONTH,
    QUESTION_TYPES,
    UNKNOWN,
    Bootstrap,
    agreement,
    between,
    correlations,
    coverage,
    cutoffs,
    differences,
    english_native,
    frame,
    gaps,
    score,
    texts,
)

__all__ = ["EVENTS", "TABLES", "Inputs", "Table", "latex", "make_tables", "plain", "write_csv"]

EVENTS: Mapping[str, str | None] = MappingProxyType({"all": None, "before 2023": "2023-01"})
"""The two windows of Figure 3: the month before which events lie, None for all of them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a report is made of."""

    verdicts: pd.DataFrame
    """As `tiebe.scores.frame` gives them."""
    questions: pd.DataFrame | None = None
    """All rows of the release that was asked; None: only those with a verdict are known of."""
    labels: pd.DataFrame | None = None
    """People's verdicts on some of the answers."""
    survey: pd.DataFrame | None = None
    """Columns country, events and tier: how many events the pages of each country list."""
    extraction: pd.DataFrame | None = None
    """Columns region, events, references, extracted: what a release was built from."""
    bootstrap: Bootstrap = field(default_factory=Bootstrap)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report."""

    name: str
    """A key of `TABLES`; the name of its CSV file."""
    title: str
    data: pd.DataFrame


def make_tables(inputs: Inputs, *names: str) -> dict[str, Table]:
    """Returns the tables that can be made of the inputs, by name.

    Args:
        inputs: See `Inputs`.
        names: Which of `TABLES`; none means all. What the rows do not say (a region, a year) leaves
            out the tables that are by it.
    """
    split = inputs.verdicts["split"]
    verdicts = inputs.verdicts.assign(split=split.where(split != "", UNKNOWN))
    inputs = replace(inputs, verdicts=verdicts)
    made = {}
    for name in names or TABLES:
        title, needs, make = TABLES[name]
        if all(verdicts[key].ne("").any() for key in needs):
            data = make(inputs)
            if len(data):
                made[name] = Table(name, title, data.reset_index(drop=True))
    return made


def _windows(inputs: Inputs, *needs: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields the verdicts of each of `EVENTS` that say what is needed."""
    for name, before in EVENTS.items():
        data = between(inputs.verdicts, before=before)
        if len(data) and all(data[key].ne("").any() for key in needs):
            yield name, data


def _scores(inputs: Inputs, *by: str) -> pd.DataFrame:
    """Returns the scores by split and what else is named, of all events."""
    return score(inputs.verdicts, ["split", *by], bootstrap=inputs.bootstrap)


def _windowed(inputs: Inputs, *by: str) -> pd.DataFrame:
    """Returns the scores by split and what else is named, for each of `EVENTS`."""
    parts = [
        score(data, ["split", *by], bootstrap=inputs.bootstrap).assign(events_of=name)
        for name, data in _windows(inputs, *by)
    ]
    table = pd.concat(parts, ignore_index=True)
    return table[["split", "events_of", *table.columns.drop(["split", "events_of"])]]


def _ranking(inputs: Inputs) -> pd.DataFrame:
    table = _windowed(inputs, "model")
    if (inputs.verdicts["region"] != "").any():
        macro = pd.concat(
            [
                score(data, ["split", "model"], average="macro", bootstrap=inputs.bootstrap)[
                    ["split", "model", "accuracy", "low", "high"]
                ].assign(events_of=name)
                for name, data in _windows(inputs, "model", "region")
            ]
        ).rename(columns={"accuracy": "macro", "low": "macro_low", "high": "macro_high"})
        table = table.merge(macro, on=["split", "model", "events_of"], how="left")
    return table.sort_values(
        ["split", "events_of", "accuracy"], ascending=[True, True, False], kind="stable"
    )


def _regions(inputs: Inputs) -> pd.DataFrame:
    parts = []
    for name, data in _windows(inputs, "region"):
        lag = gaps(data, ["split"], bootstrap=inputs.bootstrap).rename(
            columns={"low": "gap_low", "high": "gap_high"}
        )
        table = score(data, ["split", "region"], bootstrap=inputs.bootstrap)
        lag = lag.drop(columns=["n", "accuracy"])
        parts.append(
            table.merge(lag, on=["split", "region"], how="left").assign(
                events_of=name, reference=lambda t: t["reference"].fillna("")
            )
        )
    table = pd.concat(parts, ignore_index=True)
    return table[["split", "events_of", *table.columns.drop(["split", "events_of"])]]


def _time(inputs: Inputs) -> pd.DataFrame:
    """Scores by half year, or by year where most groups of half a year would be too small."""
    data = inputs.verdicts
    data = data[(data["year"] + "-" + data["month"]).str.fullmatch(MONTH).astype(bool)]
    if data.empty:
        return pd.DataFrame()
    half = data["month"].map(lambda month: "01" if month < "07" else "07")
    for start in (half, "01"):
        dated = data.assign(since=data["year"] + "-" + start)
        table = score(dated, ["split", "since", "model"], bootstrap=inputs.bootstrap)
        if table["small"].mean() < 0.5:
            break
    return table


def _drop(inputs: Inputs) -> pd.DataFrame:
    """Accuracy before and after each model's cutoff: the published one, else the measured one."""
    data = inputs.verdicts
    models = sorted(name for name in data["model"].unique() if name)
    stated = {name: known.cutoff for name in models if (known := find_model(name)) and known.cutoff}
    unknown = data[~data["model"].isin(stated)]
    measured = cutoffs(unknown, bootstrap=inputs.bootstrap).set_index("model")["month"]
    when = data["year"] + "-" + data["month"]
    found = measured.to_dict()
    first = data["model"].map(lambda name: found.get(name, "")).astype(object)
    side = data["cutoff"].mask(
        (first != "") & (data["year"] != "") & (data["month"] != ""),
        (when < first).map({True: "before", False: "after"}),
    )
    if side.eq("").all():
        return pd.DataFrame()
    table = score(
        data.assign(cutoff=side), ["split", "model", "cutoff"], bootstrap=inputs.bootstrap
    )
    table = table[table["cutoff"].isin(["before", "after"])]
    sides = [
        table[table["cutoff"] == name]
        .drop(columns=["cutoff", "average"])
        .set_index(["split", "model"])
        for name in ("before", "after")
    ]
    kept = ["n", "accuracy", "low", "high", "refusal"]
    wide = (
        sides[0][kept].add_suffix("_before").join(sides[1][kept].add_suffix("_after"), how="inner")
    )
    wide = wide.assign(drop=wide["accuracy_before"] - wide["accuracy_after"]).reset_index()
    limit = wide["model"].map(stated | found)
    source = wide["model"].map(lambda name: "published" if name in stated else "measured")
    wide.insert(2, "cutoff", limit)
    wide.insert(3, "source", source)
    return wide.sort_values(["split", "accuracy_before"], ascending=[True, False], kind="stable")


def _cutoffs(inputs: Inputs) -> pd.DataFrame:
    parts = [
        cutoffs(part, bootstrap=inputs.bootstrap).assign(split=split)
        for split, part in inputs.verdicts.groupby("split", sort=True)
    ]
    table = pd.concat(parts, ignore_index=True)
    # The first month that a model is not said to know: what a measured break is compared with.
    ends = [known.cutoff_date if (known := find_model(name)) else None for name in table["model"]]
    table["stated_end"] = [f"{end + dt.timedelta(days=1):%Y-%m}" if end else "" for end in ends]
    return table[["split", *table.columns.drop("split")]]


def _differences(inputs: Inputs) -> pd.DataFrame:
    # Pairs come in the order of appearance: best first, so that most differences are losses.
    order = score(inputs.verdicts, ["model"], bootstrap=Bootstrap(draws=0))
    best = order.sort_values("accuracy", ascending=False)["model"].tolist()
    rank = inputs.verdicts["model"].map({name: number for number, name in enumerate(best)})
    data = inputs.verdicts.assign(rank=rank).sort_values("rank", kind="stable")
    return differences(data, ["split"], bootstrap=inputs.bootstrap)


def _english_native(*by: str) -> Callable[[Inputs], pd.DataFrame]:
    def make(inputs: Inputs) -> pd.DataFrame:
        return english_native(inputs.verdicts, by, bootstrap=inputs.bootstrap)

    return make


def _indicators(inputs: Inputs) -> pd.DataFrame:
    """The points of Figures 8 and 9: a country's accuracy before 2023 and its indicators."""
    data = between(inputs.verdicts, before=EVENTS["before 2023"])
    known = [
        slug for slug in data["region"].unique() if slug in REGIONS and REGIONS[slug].indicators
    ]
    data = data[data["region"].isin(known) & data["correct"].notna()]
    if data["region"].nunique() < COUNTRIES:
        return data.iloc[:0]
    per_model = data.groupby(["split", "region", "model"])["correct"].mean()
    table = per_model.groupby(["split", "region"]).mean().rename("accuracy").reset_index()
    size = data.groupby(["split", "region"]).size().rename("n").reset_index()
    table = table.merge(size, on=["split", "region"])
    for name in INDICATORS:
        table[name] = [getattr(REGIONS[slug].indicators, name) for slug in table["region"]]
    return table


def _correlations(inputs: Inputs) -> pd.DataFrame:
    data = between(inputs.verdicts, before=EVENTS["before 2023"])
    return correlations(data, bootstrap=inputs.bootstrap).dropna(subset=["value"])


def _coverage(inputs: Inputs) -> pd.DataFrame:
    return coverage(inputs.verdicts if inputs.questions is None else inputs.questions)


def _question_types(inputs: Inputs) -> pd.DataFrame:
    """The shares of Figure 7, with the accuracy on each type."""
    rows = inputs.verdicts if inputs.questions is None else inputs.questions
    data = frame(rows, judged=False)
    data = data[data["split"] == "english"].drop_duplicates("item")
    count = data["question_type"].value_counts()
    table = pd.DataFrame({"question_type": [t for t in QUESTION_TYPES if t in count.index]})
    table["questions"] = table["question_type"].map(count)
    table["share"] = table["questions"] / max(len(data), 1)
    asked = inputs.verdicts[inputs.verdicts["split"] == "english"]
    if asked.empty:
        return asked
    scores = score(asked, ["question_type"], bootstrap=inputs.bootstrap)
    kept = ["question_type", "n", "accuracy", "low", "high", "refusal"]
    return table.merge(scores[kept], on="question_type", how="left").sort_values(
        "questions", ascending=False, kind="stable"
    )


def _agreement(inputs: Inputs) -> pd.DataFrame:
    if inputs.labels is None:
        return pd.DataFrame()
    table = agreement(inputs.verdicts, inputs.labels, bootstrap=inputs.bootstrap)
    names = ["judge", "n", "human", "verdict", "divergence", "low", "high", "kappa"]
    return table[[*names, "stricter", "laxer", "p"]] if len(table) else table


def _availability(inputs: Inputs) -> pd.DataFrame:
    if inputs.survey is None:
        return pd.DataFrame()
    missing = [name for name in ("country", "events", "tier") if name not in inputs.survey]
    if missing:
        raise RecordError(f"the survey has no column {' and '.join(missing)}")
    table = inputs.survey[["country", "events", "tier"]].astype({"events": int})
    table = table.assign(country=texts(table, "country"), tier=texts(table, "tier"))
    return table.sort_values("events", ascending=False, kind="stable")


def _extraction(inputs: Inputs) -> pd.DataFrame:
    """Table 5: from the events of the pages to the questions."""
    if inputs.extraction is None:
        return pd.DataFrame()
    asked = _coverage(inputs)[["region", "english", "questions"]]
    table = inputs.extraction.merge(asked, on="region", how="outer")
    numbers = table.columns.drop("region")
    return table.fillna(dict.fromkeys(numbers, 0)).astype(dict.fromkeys(numbers, int))


_Recipe = tuple[str, tuple[str, ...], Callable[[Inputs], pd.DataFrame]]

TABLES: Mapping[str, _Recipe] = MappingProxyType(
    {
        "ranking": ("Models", ("model",), _ranking),
        "regions": ("Regions, all models together", ("region",), _regions),
        "regions_by_model": (
            "Regions by model (Figure 3)",
            ("region", "model"),
            lambda inputs: _windowed(inputs, "region", "model"),
        ),
        "macro_regions_by_model": (
            "Parts of the world by model",
            ("macro_region", "model"),
            lambda inputs: _windowed(inputs, "macro_region", "model"),
        ),
        "periods_by_model": (
            "Periods by model (Figure 4)",
            ("period", "model"),
            lambda inputs: _scores(inputs, "period", "model"),
        ),
        "time_by_model": ("Half years (or years) by model", ("year", "month", "model"), _time),
        "years_by_model": (
            "Years by model",
            ("year", "model"),
            lambda inputs: _scores(inputs, "year", "model"),
        ),
        "years_by_region_and_model": (
            "Years by region and model (Appendix D)",
            ("region", "year", "model"),
            lambda inputs: _scores(inputs, "region", "year", "model"),
        ),
        "drop_at_cutoff": ("Before and after the cutoff", ("model", "year"), _drop),
        "cutoffs": ("Measured knowledge cutoffs", ("model", "month"), _cutoffs),
        "english_native": (
            "English minus native by model and region (Figure 5)",
            ("model", "region", "split"),
            _english_native("model", "region"),
        ),
        "english_native_by_model": (
            "English minus native by model",
            ("model", "split"),
            _english_native("model"),
        ),
        "english_native_by_region": (
            "English minus native by region",
            ("region", "split"),
            _english_native("region"),
        ),
        "indicators": ("Accuracy before 2023 and indicators", ("region", "year"), _indicators),
        "correlations": ("Correlations (Table 3)", ("region", "year"), _correlations),
        "differences": ("Each two models compared", ("model",), _differences),
        "coverage": ("Questions by region and period (Table 1)", ("region",), _coverage),
        "question_types": ("Types of questions (Figure 7)", ("question_type",), _question_types),
        "agreement": ("Judges and people (Table 2)", (), _agreement),
        "extraction": ("From pages to questions (Table 5)", (), _extraction),
        "availability": ("Events listed by country (Figure 6)", (), _availability),
    }
)
"""By name: the title, what rows must say, and how the table is made."""


_FORMS = {
    "p": "{:z.3f}",
    "value": "{:z.3f}",
    "kappa": "{:z.3f}",
    "kappa_low": "{:z.3f}",
    "kappa_high": "{:z.3f}",
    "hdi": "{:z.3f}",
    "mys": "{:z.2f}",
    "by": "{:+.4g}",
}


def _cells(data: pd.DataFrame) -> pd.DataFrame:
    """Returns a table as text: shares in percent, other numbers as people write them.

    What rounds to nothing has no sign (`z`).
    """
    shown = data.copy()
    for name in data.columns:
        column = data[name]
        if column.dtype.kind == "f":
            form = _FORMS.get(str(name), "{:z.1%}")
            if "method" in data:  # correlations are no shares
                form = "{:z.3f}"
            shown[name] = ["–" if np.isnan(v) else form.format(v) for v in column]
        elif name == "small":
            shown[name] = column.map({True: "n < 30", False: ""})
    return shown


def plain(data: pd.DataFrame) -> str:
    """Returns a table as aligned text."""
    return str(_cells(data).to_string(index=False))


def latex(data: pd.DataFrame, caption: str = "") -> str:
    """Returns a table in LaTeX, with the rules of booktabs."""
    cells = _cells(data).rename(columns=lambda name: str(name).replace("_", " "))
    style = cells.style.hide(axis="index").format(escape="latex")
    style = style.format_index(escape="latex", axis=1)
    return str(style.to_latex(hrules=True, caption=caption or None))


_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""How a text begins that a spreadsheet takes for a formula (OWASP, "CSV Injection")."""


def write_csv(data: pd.DataFrame, path: Path) -> None:
    """Writes a table as a CSV file for people: a single quote stands before text like a formula.

    Names and answers are strangers' words, and a spreadsheet would run them. Numbers stay numbers.

    Raises:
        OSError: The file cannot be written.
    """

    def harmless(cell: object) -> object:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell

    # Lines end as RFC 4180 has it: else older Pythons quote no lone CR, which would end a line too.
    data.map(harmless).to_csv(path, index=False, float_format="%.6g", lineterminator="\r\n")
