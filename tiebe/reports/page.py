"""The report as one HTML file that asks nothing of the network, with its tables as CSV beside it.

What strangers wrote (questions, answers, reasons, names) is in the page only as JSON, compressed or
with every `<` escaped, and is shown as text nodes. A content security policy lets no script run but
the page's own, which it knows by their hashes.
"""

import base64
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from tiebe.errors import RecordError, TiebeError
from tiebe.models import find_model
from tiebe.records import read_rows
from tiebe.regions import LANGUAGES, REGIONS
from tiebe.reports.charts import make_charts
from tiebe.reports.tables import EVENTS, Inputs, Table, make_tables, write_csv
from tiebe.scores import SMALL, Rows, frame, judge_notes, texts

__all__ = ["report"]

TILES: Mapping[str, tuple[int, int]] = {
    "Canada": (1, 1),
    "the_United_Kingdom": (3, 1),
    "Germany": (4, 1),
    "Ukraine": (5, 1),
    "Russia": (6, 1),
    "the_United_States": (1, 2),
    "Portugal": (3, 2),
    "France": (4, 2),
    "Turkey": (5, 2),
    "China": (7, 2),
    "Mexico": (1, 3),
    "Nigeria": (4, 3),
    "Ethiopia": (5, 3),
    "India": (6, 3),
    "Colombia": (1, 4),
    "the_Democratic_Republic_of_the_Congo": (4, 4),
    "Indonesia": (7, 4),
    "Papua_New_Guinea": (8, 4),
    "Brazil": (2, 5),
    "Australia": (7, 5),
    "World": (5, 6),
    "Argentina": (1, 6),
    "New_Zealand": (8, 6),
}
"""Column and row of each region in a grid of eight columns, roughly where it lies on a map."""

METHOD = (
    ("Accuracy", "Right answers among those that were scored, as the judge decided them."),
    (
        "n",
        "All rows of a group. An answer without a verdict is unscored and counts neither as right "
        f"nor as wrong. A group of fewer than {SMALL} rows is marked: its figures say little.",
    ),
    (
        "Micro and macro",
        "In a micro average, shown unless said otherwise, every answer counts the same; in a macro "
        "average every region does.",
    ),
    (
        "Intervals",
        "95 %, from resampling events: questions on one event stand or fall together. Those of "
        "accuracies have Wilson's form with the bootstrap's standard error.",
    ),
    (
        "Contradictory",
        "Verdicts that call an answer both correct and a refusal are taken as they stand, and "
        "counted.",
    ),
    (
        "Cutoffs",
        "Published: the last month (or year) a model is said to know. Measured: the first month "
        "of lower accuracy, found as one change point. A published cutoff is drawn at its end.",
    ),
    (
        "English minus native",
        "Only questions with a verdict in both languages, of the same model. Answers that were cut "
        "off are left out in the column control.",
    ),
)


def report(
    rows: Rows,
    out: str | Path,
    *,
    release: str | Path | Rows | None = None,
    labels: Rows | None = None,
    survey: pd.DataFrame | None = None,
) -> Path:
    """Writes a report on verdicts: `index.html`, and a CSV file of each table beside it.

    Args:
        rows: Verdict rows of one or more models, see `tiebe.scores.frame`.
        out: A folder, made if it is not there; files of an older report in it are overwritten.
        release: For what the benchmark covers: a release (Hub repo id or folder), the run folder
            that built one, or rows of questions. None: the questions in `rows`.
        labels: People's verdicts (`correct`) on some of the answers, for the judge's agreement.
        survey: Columns country, events and tier, as `tiebe-build survey --json` prints them.

    Returns:
        The path of the page.

    Raises:
        RecordError: There are no rows, or they have no verdicts.
        SettingsError: The release is none.
        TiebeError: The extra `report` is not installed.
    """
    questions, extraction = _release(release)
    inputs = Inputs(
        frame(rows),
        questions,
        None if labels is None else frame(labels),
        survey,
        extraction,
    )
    if inputs.verdicts.empty:
        raise RecordError("there are no verdicts to report on")
    tables = make_tables(inputs)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables.values():
        write_csv(table.data, folder / f"{table.name}.csv")
    path = folder / "index.html"
    path.write_text(_page(inputs, tables), encoding="utf-8")
    return path


def _release(
    release: str | Path | Rows | None,
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Returns the questions of a release, and what it was built from where a run tells."""
    if release is None:
        return None, None
    from tiebe.load import load_tiebe

    if not isinstance(release, str | Path):
        return frame(release, judged=False), None
    run = Path(release)
    built = run / "release"
    source = built if built.is_dir() else release
    questions = frame(load_tiebe(language="both", source=source), judged=False)
    return questions, _extraction(run) if (run / "collect").is_dir() else None


def _extraction(run: Path) -> pd.DataFrame:
    """Counts events, references and documents of a builder's run by region, from its journals."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in read_rows(run, stage="collect"):
        if "references" in row:  # the others are pages
            counts[row["region"]]["events"] += 1
            counts[row["region"]]["references"] += len(row["references"])
    if (run / "retrieve").is_dir():
        for row in read_rows(run, stage="retrieve"):
            counts[row["event"]["region"]]["extracted"] += 1
    names = ("events", "references", "extracted")
    return pd.DataFrame(
        [
            {"region": slug, **{name: count[name] for name in names}}
            for slug, count in counts.items()
        ]
    )


def _page(inputs: Inputs, tables: Mapping[str, Table]) -> str:
    """Returns the page."""
    data = inputs.verdicts
    models = _models(tables, data)
    splits = [name for name in ("english", "native") if (data["split"] == name).any()]
    charts = make_charts(tables, [model["name"] for model in models])
    payload = {
        "models": models,
        "regions": _regions(data),
        "languages": {code: language.name for code, language in LANGUAGES.items()},
        "splits": splits,
        "events": _events(tables),
        "tables": {name: _table(table) for name, table in tables.items()},
        "charts": {
            chart.name: {
                "tables": chart.tables,
                "alt": chart.alt,
                "spec": chart.spec,
                "captions": chart.captions,
            }
            for chart in charts
        },
    }
    library, script = _library(), _asset("page.js")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined)
    template = environment.from_string(_asset("page.html.jinja"))
    return template.render(
        title=f"TiEBe: {_headline(data)}",
        css=Markup(_asset("page.css")),
        hashes=Markup(" ".join(_hash(code) for code in (library, script))),
        library=Markup(library),
        script=Markup(script),
        report=Markup(_json(payload).replace("<", "\\u003c")),
        packed=base64.b64encode(gzip.compress(_answers(data).encode(), 6, mtime=0)).decode(),
        tables=tables,
        charts=payload["charts"],
        sections=_sections(tables),
        splits=splits,
        events=payload["events"],
        headline=_headline(data),
        findings=[*_findings(tables, models), *judge_notes(data)],
        lag=_lag(tables, splits),
        time=_time(tables),
        method=METHOD,
        version=version("tiebe"),
    )


@cache
def _asset(name: str) -> str:
    return resources.files("tiebe.reports").joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Returns Vega, Vega-Lite and vega-embed as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise TiebeError("a report needs its charts: pip install 'tiebe[report]'") from error
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    code = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(() => {{{code}\n}})();"  # its names are many and short: they stay in there


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _models(tables: Mapping[str, Table], data: pd.DataFrame) -> list[dict[str, str]]:
    """Returns the models, best first in what the page opens with, with names to show."""
    ids = [name for name in sorted(data["model"].unique()) if name]
    if "ranking" in tables:
        ranking = tables["ranking"].data
        best = ranking.groupby("model")["accuracy"].first()
        opened = ranking[ranking["split"].isin(["english", "unknown"])]
        best.update(opened.drop_duplicates("model").set_index("model")["accuracy"])
        ids.sort(key=lambda name: -best.get(name, 0.0))
    names = {name: known.name if (known := find_model(name)) else name for name in ids}
    shared = pd.Series(list(names.values())).value_counts()
    return [
        {"id": name, "name": shown if shared[shown] == 1 else name} for name, shown in names.items()
    ]


def _regions(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Returns all known regions, then those of the rows that are none, with their tiles."""
    own = sorted(set(data["region"].unique()) - set(REGIONS) - {""})
    known = [
        {
            "slug": slug,
            "name": region.name,
            "language": region.language_code,
            "code": next((a for a in region.aliases if len(a) == 2 and a.isascii()), region.name),
            "column": TILES[slug][0],
            "row": TILES[slug][1],
        }
        for slug, region in REGIONS.items()
    ]
    return known + [
        {"slug": slug, "name": slug, "code": slug[:3], "column": i % 8 + 1, "row": 7 + i // 8}
        for i, slug in enumerate(own)
    ]


def _events(tables: Mapping[str, Table]) -> list[str]:
    """Returns which of `EVENTS` the tables tell apart."""
    if "ranking" not in tables:
        return ["all"]
    present = set(tables["ranking"].data["events_of"])
    return [name for name in EVENTS if name in present]


_LABELS = {
    "events_of": "events",
    "events": "clusters",
    "gdp": "GDP",
    "hdi": "HDI",
    "mys": "years of schooling",
    "small": "n < 30",
}


def _table(table: Table) -> dict[str, Any]:
    """Returns a table as JSON values: columns with their kinds, and rows."""
    data = table.data
    columns, values = [], []
    for name in data.columns:
        column = data[name]
        kind = {"f": "share", "i": "count", "u": "count", "b": "flag"}.get(
            column.dtype.kind, "text"
        )
        if name in ("p", "value", "kappa", "hdi", "mys") or (
            name in ("low", "high") and "method" in data
        ):
            kind = "number"
        columns.append(
            {"name": name, "label": _LABELS.get(name, name.replace("_", " ")), "kind": kind}
        )
        if column.dtype.kind == "f":
            values.append([None if np.isnan(v) else round(float(v), 5) for v in column])
        else:
            values.append(column.tolist())
    return {
        "title": table.title,
        "columns": columns,
        "rows": list(zip(*values, strict=True)),
    }


def _answers(data: pd.DataFrame) -> str:
    """Returns all answers as JSON of columns, in which each question is there once."""
    order = data.assign(_question=texts(data, "question"))
    order = order.sort_values(["region", "year", "item", "split", "model"], kind="stable")
    key = ["item", "split", "_question"]
    number = order.groupby(key, sort=False).ngroup()
    asked = order.loc[~number.duplicated()]
    url = texts(asked, "source_url")
    models = list(order["model"].unique())
    correct, refusal = order["correct"], order["refusal"].fillna(0.0) > 0
    verdict = np.select(
        [correct.isna(), (correct > 0) & refusal, correct > 0, refusal], [4, 3, 1, 2], default=0
    )
    return _json(
        {
            "models": models,
            "questions": {
                "text": asked["_question"].tolist(),
                "gold": texts(asked, "answer").tolist(),
                "region": asked["region"].tolist(),
                "year": asked["year"].tolist(),
                "month": asked["month"].tolist(),
                "language": asked["language"].tolist(),
                "url": url.where(url != "", texts(asked, "archive_url")).tolist(),
            },
            "answers": {
                "question": number.tolist(),
                "model": order["model"].map({name: i for i, name in enumerate(models)}).tolist(),
                "verdict": verdict.tolist(),
                "text": texts(order, "model_answer").tolist(),
                "reasoning": texts(order, "reasoning").tolist(),
            },
        }
    )


def _sections(tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Returns the sections that the page has: id and name."""
    needs: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("overview", "Overview", ()),
        ("regions", "Regions", ("regions",)),
        ("time", "Time", ("years_by_model",)),
        ("languages", "Languages", ("english_native",)),
        ("indicators", "Indicators", ("indicators",)),
        ("models", "Models", ("differences", "agreement")),
        ("coverage", "Coverage", ("coverage",)),
        ("answers", "Answers", ()),
        ("method", "Method", ()),
    )
    return [(id, name) for id, name, any_of in needs if not any_of or set(any_of) & set(tables)]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _headline(data: pd.DataFrame) -> str:
    models = data.loc[data["model"] != "", "model"].nunique()
    regions = data.loc[data["region"] != "", "region"].nunique()
    years = sorted(data.loc[data["year"] != "", "year"].unique())
    who = _count(models, "model") if models else "the model"
    what = f" of {_count(regions, 'region')}" if regions else ""
    when = f", {years[0]}–{years[-1]}" if len(years) > 1 else f", {years[0]}" if years else ""
    verb = "remembers" if models < 2 else "remember"
    return f"What {who} {verb} of the events{what}{when}"


def _findings(tables: Mapping[str, Table], models: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns what the figures say, in a sentence each."""
    names = {model["id"]: model["name"] for model in models}
    lines = []
    if "ranking" in tables:
        table = tables["ranking"].data
        first = table[(table["split"] == table["split"].iloc[0]) & (table["events_of"] == "all")]
        best = first.iloc[0]
        lines.append(
            f"{names.get(best['model'], best['model'])} knows most: {best['accuracy']:.1%} "
            f"[{best['low']:.1%} – {best['high']:.1%}] of {_count(best['questions'], 'question')}"
            + (f" in {best['split'].capitalize()}." if best["split"] == "english" else ".")
        )
    if "regions" in tables:
        table = tables["regions"].data
        first = table[(table["split"] == table["split"].iloc[0]) & (table["events_of"] == "all")]
        first = first[~first["small"]].sort_values("accuracy")
        if len(first) > 1:
            low, high = first.iloc[0], first.iloc[-1]
            lines.append(
                f"Best known is {_place(high['region'])} ({high['accuracy']:.0%}), least known "
                f"{_place(low['region'])} ({low['accuracy']:.0%})."
            )
    if "drop_at_cutoff" in tables:
        table = tables["drop_at_cutoff"].data
        drop = table[table["split"] == table["split"].iloc[0]]["drop"]
        lines.append(
            f"After the cutoff accuracy is {100 * drop.min():.0f} to {100 * drop.max():.0f} points "
            "lower."
            if len(drop) > 1
            else f"After the cutoff accuracy is {100 * drop.iloc[0]:.0f} points lower."
        )
    return lines


def _place(slug: str) -> str:
    return REGIONS[slug].name if slug in REGIONS else slug


def _time(tables: Mapping[str, Table]) -> str:
    """Returns what the charts over time show."""
    if "time_by_model" not in tables:
        return ""
    data = tables["time_by_model"].data
    step = "half year" if data["since"].str.endswith("-07").any() else "year"
    small = "" if data["small"].all() else f", groups of fewer than {SMALL} rows are left out"
    return (
        f"By {step} of the events; dashed lines are published cutoffs{small}. Choose models in the "
        "legend."
    )


def _lag(tables: Mapping[str, Table], splits: Sequence[str]) -> str:
    """Returns how many regions lag behind the reference by 20 points, and the largest gap."""
    if "regions" not in tables:
        return ""
    table = tables["regions"].data
    table = table[(table["split"] == table["split"].iloc[0]) & (table["events_of"] == "all")]
    table = table[table["gap"].notna()].sort_values("gap", ascending=False)
    if len(table) < 2:
        return ""
    if splits[:1] != ["english"]:
        return ""
    worst = table.iloc[0]
    far = int((table["gap"] >= 0.2).sum())
    return (
        f"{_count(far, 'region')} of {len(table) - 1} lie 20 points or more behind "
        f"{_place(worst['reference'])}; the largest gap is {100 * worst['gap']:.0f} points "
        f"({_place(worst['region'])}). English questions, all events; the bars follow the switches."
    )
