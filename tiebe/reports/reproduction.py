"""Recomputes what the paper prints from upstream's data of 2025, number by number.

The printed numbers are data, `paper.toml`; here stands how ours are computed. A folder may hold a
part of the data: what cannot be computed from that part is said so, with the reason.
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tiebe.errors import RecordError, SettingsError
from tiebe.models import find_model
from tiebe.regions import REGIONS
from tiebe.results import read_upstream
from tiebe.scores import (
    PERIODS,
    Bootstrap,
    agreement,
    between,
    correlations,
    coverage,
    english_native,
    frame,
    gaps,
    score,
)
from tiebe.upstream import parse

__all__ = ["reproduce"]

POINT = Bootstrap(draws=1)
"""Only values are compared here, not intervals."""

MODELS = 9


class _Missing(Exception):
    """Ours cannot be computed; the message says why."""


@dataclass(frozen=True)
class Upstream:
    """Upstream's data as far as a folder holds it."""

    questions: pd.DataFrame
    events: pd.DataFrame
    """Columns region, references: one line per event."""
    verdicts: pd.DataFrame
    labels: pd.DataFrame | None = None

    @cached_property
    def early(self) -> pd.DataFrame:
        """The verdicts on events before 2023."""
        return between(self.verdicts, before="2023-01")

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """Questions by region and period."""
        if self.questions.empty:
            raise _Missing("the folder holds no questions (data/english/*.json)")
        table = coverage(self.questions).set_index("region")
        absent = {name: 0 for _, name in PERIODS if name not in table}
        return table.assign(**absent)


def reproduce(folder: Path, labels: pd.DataFrame | None = None) -> pd.DataFrame:
    """Returns every number of the paper's Tables 1, 2, 3 and 5 and of its claims beside ours.

    Args:
        folder: Upstream's layout: `data/english/*.json`, `data/translated/*.json`, anywhere below
            `<year>_in_<region>_events.json` and `<model>/<region>-answers_judged.json`; or the same
            as `qa.parquet`, `events.parquet` and `judged.parquet`.
        labels: A person's verdicts on some of the answers, for Table 2.

    Returns:
        One line per number: where, what, printed, ours, status ("same", "differs", "cannot be
        checked"), by (ours minus printed, where they differ) and why. Ours stands there as well
        where it is of a part of the data only.

    Raises:
        RecordError: A file is not what upstream's are.
        SettingsError: The folder holds nothing of all that.
    """
    data = _read(folder, labels)
    paper = tomllib.loads(
        resources.files("tiebe.reports").joinpath("paper.toml").read_text(encoding="utf-8")
    )
    lines = [*_table1(data, paper["table1"]), *_table2(data, paper["table2"])]
    lines += [*_table3(data, paper["table3"]), *_table5(data, paper["table5"])]
    lines += [_claim(data, claim) for claim in paper["claims"]]
    return pd.DataFrame(lines)


# Reading


def _read(folder: Path, labels: pd.DataFrame | None) -> Upstream:
    if not folder.is_dir():
        raise SettingsError(f"{folder}: no such folder")
    rows = {
        "qa": _questions(folder),
        "events": _events(folder),
        "judged": list(read_upstream(folder)),
    }
    tables = {name: _parquet(folder / f"{name}.parquet") for name in rows}
    frames = {name: pd.DataFrame(found) for name, found in rows.items()}
    for name, table in tables.items():
        if frames[name].empty and table is not None:
            frames[name] = table
    if all(table.empty for table in frames.values()):
        raise SettingsError(f"{folder}: nothing of upstream's data: data/, *_events.json, …_judged")
    events = frames["events"]
    if "links" in events:
        events = events.assign(references=events["links"].map(len))
    return Upstream(
        frame(frames["qa"], judged=False),
        events,
        frame(frames["judged"]),
        None if labels is None else frame(labels),
    )


def _parquet(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise RecordError(f"{path}: no parquet file that can be read: {error}") from error


def _questions(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for name, split in (("english", "english"), ("translated", "native")):
        for path in sorted((folder / "data" / name).glob("*.json")):
            for number, row in enumerate(parse(path.read_bytes(), where=str(path))):
                rows.append(
                    {
                        "region": path.stem,
                        "row": number,
                        "split": split,
                        "year": str(row.year),
                        "month": str(row.month),
                        "question": row.question,
                        "answer": row.answer,
                    }
                )
    return rows


def _events(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(folder.rglob("*_in_*_events.json")):
        try:
            months = json.loads(path.read_bytes())["Events"]
            found = [len(event["links"]) for month in months for event in month["Data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path}: not a file of upstream's events: {error!r}") from error
        slug = path.stem.partition("_in_")[2].removesuffix("_events")
        rows += [{"region": slug, "references": links} for links in found]
    return rows


# Comparing


def _line(
    where: str, what: str, printed: Any, value: Callable[[], float], *, bound: str = ""
) -> dict[str, Any]:
    """Returns one line: ours computed and compared as exactly as the printed number allows."""
    text = str(printed)
    decimals = len(text.partition(".")[2])
    line = {"where": where, "what": what, "printed": f"{bound} {text}".strip(), "ours": ""}
    partial = ""
    try:
        ours = value()
    except _Partial as part:
        ours, partial = part.value, str(part)
    except _Missing as missing:
        return line | {"status": "cannot be checked", "by": np.nan, "why": str(missing)}
    line["ours"] = f"{ours:.{decimals + (1 if decimals else 0)}f}"
    if partial:
        return line | {"status": "cannot be checked", "by": np.nan, "why": partial}
    off = ours - float(text)
    same = abs(off) <= 0.5 * 10**-decimals + 1e-9
    if bound == "at least":
        same = off >= 0
    elif bound == "about":
        same = abs(off) <= 0.1 * float(text)
    return line | {
        "status": "same" if same else "differs",
        "by": np.nan if same else off,
        "why": "",
    }


class _Partial(Exception):
    """Ours is of a part of the data; the message says of which."""

    def __init__(self, value: float, message: str) -> None:
        super().__init__(message)
        self.value = value


def _part_of(data: Upstream, scope: str) -> str:
    """Returns what is missing to compute the same as the paper; empty when nothing is."""
    missing = []
    asked = set(data.questions["region"] if scope == "questions" else data.verdicts["region"])
    if scope == "events":
        asked = set(data.events["region"])
    if len(asked & set(REGIONS)) < len(REGIONS):
        missing.append(f"{len(asked & set(REGIONS))} of {len(REGIONS)} regions")
    models = data.verdicts["model"].nunique()
    if scope == "models" and models < MODELS:
        missing.append(f"{models} of {MODELS} models")
    return f"of {' and '.join(missing)} only" if missing else ""


def _table1(data: Upstream, table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for slug, figures in table["rows"].items():
        for column, printed in zip(table["columns"], figures, strict=True):

            def ours(slug: str = slug, column: str = column) -> float:
                return _cell(data, slug, column)

            yield _line("Table 1", f"{_name(slug)}: {column}", printed, ours)


def _table5(data: Upstream, table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for slug, figures in table["rows"].items():
        for column, printed in zip(table["columns"], figures, strict=True):

            def ours(slug: str = slug, column: str = column) -> float:
                return _extraction(data, slug, column)

            yield _line("Table 5", f"{_name(slug)}: {column}", printed, ours)


def _extraction(data: Upstream, slug: str, column: str) -> float:
    """Returns a cell of Table 5."""
    if column == "extracted":
        raise _Missing("upstream's layout does not hold the documents that were retrieved")
    if column in ("events", "references"):
        if data.events.empty:
            raise _Missing("the folder holds no events (<year>_in_<region>_events.json)")
        part = data.events if slug == "Total" else data.events[data.events["region"] == slug]
        if part.empty:
            raise _Missing("the folder holds no events of this region")
        value = float(len(part) if column == "events" else part["references"].sum())
        return _checked(value, _part_of(data, "events") if slug == "Total" else "")
    return _cell(data, slug, column)


def _cell(data: Upstream, slug: str, column: str) -> float:
    """Returns a number of questions: of a region, or the total."""
    found = data.coverage[column]
    if slug == "Total":
        return _checked(float(found.sum()), _part_of(data, "questions"))
    if slug not in found.index:
        raise _Missing("the folder holds no questions of this region")
    return float(found[found.index == slug].iloc[0])


def _checked(value: float, part: str) -> float:
    if part:
        raise _Partial(value, part)
    return value


def _name(slug: str) -> str:
    return REGIONS[slug].name if slug in REGIONS else slug


def _table2(data: Upstream, table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, printed in table.items():
        judge, _, what = key.partition("_")

        def ours(judge: str = judge, what: str = what) -> float:
            line = _judge(data, "" if judge == "human" else judge)
            column = (
                "human" if judge == "human" else "verdict" if what == "correct" else "divergence"
            )
            return 100 * float(line[column])

        yield _line("Table 2", f"{judge}: {what}, percent", printed, ours)


def _judge(data: Upstream, name: str) -> Mapping[str, Any]:
    """Returns the agreement with people of the judge whose name holds `name`."""
    if data.labels is None:
        raise _Missing("the paper's annotations are not published; --labels takes others")
    table = agreement(data.verdicts, data.labels)
    found = table[table["judge"].str.casefold().str.contains(name, regex=False)]
    if found.empty:
        raise _Missing(f"no labelled answer was judged by {name or 'any judge'}")
    return dict(found.iloc[0])


def _table3(data: Upstream, table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, figures in table["rows"].items():
        split, _, method = key.partition("_")
        for indicator, printed in zip(table["columns"], figures, strict=True):

            def ours(split: str = split, method: str = method, indicator: str = indicator) -> float:
                value = _correlation(data, split, method, indicator)
                return _checked(value, _part_of(data, "models"))

            yield _line("Table 3", f"{method}, {split}: {indicator}", printed, ours)


def _correlation(data: Upstream, split: str, method: str, indicator: str) -> float:
    early = data.early[data.early["split"] == split]
    if early.empty:
        raise _Missing(f"the folder holds no verdicts on {split} questions before 2023")
    table = correlations(early, [], bootstrap=POINT)
    line = table[(table["method"] == method) & (table["indicator"] == indicator)].iloc[0]
    if np.isnan(line["value"]):
        raise _Missing("fewer than four countries")
    return float(line["value"])


# The claims of the text


def _claim(data: Upstream, claim: Mapping[str, Any]) -> dict[str, Any]:
    def ours() -> float:
        value = float(_MEASURES[claim["measure"]](data))
        scope = claim["scope"]
        return _checked(value, "" if scope in ("labels", "documents") else _part_of(data, scope))

    return _line(
        claim["where"], claim["what"], claim["printed"], ours, bound=claim.get("bound", "")
    )


def _some(data: pd.DataFrame, what: str) -> pd.DataFrame:
    if data.empty:
        raise _Missing(f"the folder holds no {what}")
    return data


def _questions_of(data: Upstream, column: str) -> float:
    return float(data.coverage[column].sum())


def _lag(data: pd.DataFrame) -> pd.DataFrame:
    """Returns the gaps to the United States of all models together, on English questions."""
    english = _some(data[data["split"] == "english"], "verdicts on English questions")
    if "the_United_States" not in set(english["region"]):
        raise _Missing("the folder holds no verdicts on the United States")
    return gaps(english, reference="the_United_States", bootstrap=POINT)


def _lead(data: pd.DataFrame, other: str) -> float:
    """Returns by how many points GPT-4.1 is ahead of another model on English questions."""
    english = _some(data[data["split"] == "english"], "verdicts on English questions")
    known = {name: find_model(name) for name in english["model"].unique()}
    ids = english["model"].map({name: m.id if m else name for name, m in known.items()})
    table = score(english.assign(model=ids), ["model"], bootstrap=POINT)
    accuracy = table.set_index("model")["accuracy"]
    for name in ("gpt-4.1", other):
        if name not in accuracy:
            raise _Missing(f"the folder holds no verdicts on answers of {name}")
    return float(100 * (accuracy["gpt-4.1"] - accuracy[other]))


def _losses(data: Upstream, by: str) -> pd.Series:
    """Returns English minus native by region or model, the largest loss first."""
    table = english_native(_some(data.verdicts, "verdicts"), [by], bootstrap=POINT)
    if table.empty:
        raise _Missing("the folder holds no verdicts on the same questions in both languages")
    return table.set_index(by)["difference"].sort_values(ascending=False)


def _place_of(losses: pd.Series, model: str) -> float:
    for place, name in enumerate(losses.index, 1):
        known = find_model(str(name))
        if known is not None and known.id == model:
            return float(place)
    raise _Missing(f"the folder holds no answers of {model} in both languages")


def _labelled(data: Upstream) -> float:
    if data.labels is None:
        raise _Missing("the paper's annotations are not published; --labels takes others")
    return float(data.labels["correct"].notna().sum())


def _events_of(data: Upstream) -> pd.DataFrame:
    return _some(data.events, "events (<year>_in_<region>_events.json)")


_MEASURES: Mapping[str, Callable[[Upstream], float]] = {
    "questions": lambda data: _questions_of(data, "questions"),
    "english_questions": lambda data: _questions_of(data, "english"),
    "native_questions": lambda data: _questions_of(data, "native"),
    "regions": lambda data: len(data.coverage),
    "languages": lambda data: len({*data.coverage["language"], "English"}),
    "native_regions": lambda data: int((data.coverage["native"] > 0).sum()),
    "events": lambda data: len(_events_of(data)),
    "events_lost": lambda data: len(_events_of(data)) - _questions_of(data, "english"),
    "extracted": lambda data: _extraction(data, "Total", "extracted"),
    "models": lambda data: _some(data.verdicts, "verdicts")["model"].nunique(),
    "labels": _labelled,
    "deepseek_agreement": lambda data: 100 * (1 - _judge(data, "deepseek")["divergence"]),
    "gpt4o_agreement": lambda data: 100 * (1 - _judge(data, "gpt-4o")["divergence"]),
    "lagging": lambda data: int((_lag(data.verdicts)["gap"] >= 0.2).sum()),
    "largest_gap": lambda data: 100 * _lag(data.verdicts)["gap"].max(),
    "lagging_before_2023": lambda data: int((_lag(data.early)["gap"] >= 0.2).sum()),
    "largest_gap_before_2023": lambda data: 100 * _lag(data.early)["gap"].max(),
    "lead_over_gpt4o": lambda data: _lead(data.verdicts, "gpt-4o"),
    "lead_over_gpt4o_before_2023": lambda data: _lead(data.early, "gpt-4o"),
    "lead_over_mistral": lambda data: _lead(data.verdicts, "mistral-large"),
    "small_language_gaps": lambda data: int((_losses(data, "region").abs() < 0.03).sum()),
    "hardest_languages": lambda data: len(
        {"Papua_New_Guinea", "Ethiopia"} & set(_losses(data, "region").index[:2])
    ),
    "better_in_native": lambda data: int((_losses(data, "model") < 0).sum()),
    "qwen2_place": lambda data: _place_of(_losses(data, "model"), "qwen2-72b"),
    "spearman_gdp_english": lambda data: _correlation(data, "english", "spearman", "gdp"),
    "spearman_gdp_native": lambda data: _correlation(data, "native", "spearman", "gdp"),
    "spearman_hdi_native": lambda data: _correlation(data, "native", "spearman", "hdi"),
    "spearman_mys_native": lambda data: _correlation(data, "native", "spearman", "mys"),
    "pearson_hdi_native": lambda data: _correlation(data, "native", "pearson", "hdi"),
}
