"""The charts of a report, as Vega-Lite specifications of its tables.

A specification names its tables as data; the page puts in the rows that its switches leave, and
colours and type by theme.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiebe.regions import REGIONS
from tiebe.reports.tables import Table

__all__ = ["Chart", "make_charts"]

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a report."""

    name: str
    tables: tuple[str, ...]
    """The names of the tables it draws; the first is the one shown and linked beneath it."""
    alt: str
    """What it shows, for those who cannot see it."""
    spec: Spec
    captions: Mapping[str, str] = field(default_factory=dict)
    """A line beneath it by split."""


def make_charts(tables: Mapping[str, Table], models: list[str]) -> list[Chart]:
    """Returns the charts that can be drawn of the tables.

    Args:
        tables: What `make_tables` gave.
        models: Display names of the models, in the order of their colours.
    """
    colour = {
        "field": "model",
        "type": "nominal",
        "scale": {"domain": models},
        "legend": {"title": None, "orient": "bottom", "symbolOpacity": 1, "symbolSize": 90},
    }
    shape = {"field": "model", "type": "nominal", "scale": {"domain": models}}
    step = max(24, min(44, 300 // max(len(models), 1)))
    charts = [
        Chart(
            "ranking",
            ("ranking",),
            "Accuracy of each model with its 95 % interval, best first.",
            _ranking(step),
        ),
        Chart(
            "drop_at_cutoff",
            ("drop_at_cutoff",),
            "Accuracy of each model on events before and after its knowledge cutoff.",
            _drop(step),
        ),
        Chart(
            "gaps",
            ("regions",),
            "How many points each region lies behind the reference region, with 95 % intervals.",
            _gaps(),
        ),
        Chart(
            "accuracy_over_time",
            ("time_by_model", "cutoffs"),
            "Accuracy of each model over the time of the events; upright lines are the published "
            "knowledge cutoffs.",
            _over_time("accuracy", "Accuracy", colour, shape),
        ),
        Chart(
            "refusal_over_time",
            ("time_by_model", "cutoffs"),
            "Share of refusals of each model over the time of the events; upright lines are the "
            "published knowledge cutoffs.",
            _over_time("refusal", "Refusals", colour, shape),
        ),
        Chart(
            "cutoffs",
            ("cutoffs",),
            "For each model the month from which on its accuracy is lower, with its 95 % interval, "
            "and the published knowledge cutoff.",
            _cutoffs(),
        ),
        Chart(
            "english_native",
            ("english_native", "english_native_by_region"),
            "For each region and model how many points of accuracy are lost when the same "
            "questions are asked in the native language.",
            _english_native(colour, shape, _hardest(tables)),
        ),
        Chart(
            "english_native_by_model",
            ("english_native_by_model",),
            "For each model how much of the loss comes from more refusals and how much from more "
            "wrong answers.",
            _loss_by_model(),
        ),
        *(
            Chart(
                f"indicator_{name}",
                ("indicators",),
                f"Mean accuracy of the models on events before 2023, by country and {title}.",
                _scatter(name, title, log=log),
                _correlation_captions(tables, name),
            )
            for name, title, log in (
                ("gdp", "GDP in US dollars (log)", True),
                ("hdi", "Human Development Index", False),
                ("mys", "Mean years of schooling", False),
                ("population", "Population (log)", True),
            )
        ),
    ]
    if "coverage" in tables:
        periods = [c for c in tables["coverage"].data.columns if "–" in str(c)]
        charts.append(
            Chart(
                "coverage",
                ("coverage",),
                "Number of questions of each region, by period of the events.",
                _coverage(periods),
            )
        )
    charts.append(
        Chart(
            "question_types",
            ("question_types",),
            "Share of each type of question among the English ones.",
            _bars("question_type", "share", "Share of the questions"),
        )
    )
    charts.append(
        Chart(
            "availability",
            ("availability",),
            "Number of events that the pages of each country list, by tier.",
            _availability(),
        )
    )
    drawn = [chart for chart in charts if all(name in tables for name in chart.tables)]
    if "cutoffs" in tables and (tables["cutoffs"].data[["stated", "month"]] == "").all(axis=None):
        drawn = [
            chart for chart in drawn if chart.name != "cutoffs"
        ]  # neither is known of any model
    return drawn


_PERCENT = {"format": "%", "title": None, "tickCount": 5}


def _tips(*fields: tuple[str, str, str]) -> list[Spec]:
    """Returns the lines of a tooltip from names, titles and formats."""
    return [
        {"field": name, "title": title, **({"type": "quantitative", "format": f} if f else {})}
        for name, title, f in fields
    ]


_POWERS = {
    "values": [10**power for power in range(3, 16)],
    "labelExpr": "replace(format(datum.value, '~s'), 'G', 'B')",
}
_SCORE_TIPS = _tips(
    ("model", "Model", ""),
    ("accuracy", "Accuracy", ".1%"),
    ("low", "from", ".1%"),
    ("high", "to", ".1%"),
    ("refusal", "Refusals", ".1%"),
    ("n", "n", ",d"),
)


def _as_text(name: str, as_: str) -> Spec:
    """Returns the transform that writes a month as people do."""
    return {"calculate": f"utcFormat(toDate(datum.{name}), '%B %Y')", "as": as_}


def _y(name: str, order: str, direction: str = "descending") -> Spec:
    """Returns the encoding of names down the side, ordered by a number."""
    return {
        "field": name,
        "type": "nominal",
        "sort": {"field": order, "op": "max", "order": direction},
        "axis": {"title": None, "ticks": False, "domain": False, "labelLimit": 150},
    }


def _ranking(step: int) -> Spec:
    x = {"type": "quantitative", "axis": _PERCENT, "scale": {"zero": True}}
    return {
        "data": {"name": "ranking"},
        "height": {"step": step},
        "encoding": {"y": _y("model", "accuracy"), "tooltip": _SCORE_TIPS},
        "layer": [
            {
                "mark": {"type": "bar", "height": 16, "opacity": 0.4, "cornerRadius": 3},
                "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "tick", "thickness": 3, "size": 24, "opacity": 1},
                "encoding": {"x": {"field": "accuracy", **x}},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "fontWeight": 600},
                "encoding": {
                    "x": {"field": "high", **x},
                    "text": {"field": "accuracy", "type": "quantitative", "format": ".1%"},
                },
            },
        ],
    }


def _drop(step: int) -> Spec:
    x = {
        "type": "quantitative",
        "axis": _PERCENT | {"values": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        "scale": {"zero": True, "nice": False, "padding": 34},  # room for the figures beside
    }
    tips = _tips(
        ("model", "Model", ""),
        ("cutoff", "Cutoff", ""),
        ("source", "which is", ""),
        ("accuracy_before", "Before", ".1%"),
        ("n_before", "n before", ",d"),
        ("accuracy_after", "After", ".1%"),
        ("n_after", "n after", ",d"),
    )
    side = {"scale": {"domain": ["before", "after"], "range": "sides"}, "legend": None}
    return {
        "data": {"name": "drop_at_cutoff"},
        "height": {"step": step},
        "encoding": {"y": _y("model", "accuracy_before"), "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.35},
                "encoding": {
                    "x": {"field": "accuracy_after", **x},
                    "x2": {"field": "accuracy_before"},
                },
            },
            *(
                {
                    "mark": {
                        "type": "point",
                        "filled": True,
                        "size": 95,
                        "opacity": 1,
                        "shape": mark,
                    },
                    "encoding": {
                        "x": {"field": f"accuracy_{name}", **x},
                        "color": {"datum": name, **side},
                    },
                }
                for name, mark in (("before", "circle"), ("after", "diamond"))
            ),
            {
                "mark": {"type": "text", "align": "left", "dx": 9, "fontWeight": 600},
                "encoding": {
                    "x": {"field": "accuracy_before", **x},
                    "text": {"field": "accuracy_before", "type": "quantitative", "format": ".0%"},
                },
            },
            {
                "mark": {"type": "text", "align": "right", "dx": -9},
                "encoding": {
                    "x": {"field": "accuracy_after", **x},
                    "text": {"field": "accuracy_after", "type": "quantitative", "format": ".0%"},
                },
            },
        ],
    }


def _gaps() -> Spec:
    x = {"type": "quantitative", "axis": _PERCENT | {"title": "behind the reference region"}}
    tips = _tips(
        ("region", "Region", ""),
        ("accuracy", "Accuracy", ".1%"),
        ("gap", "Gap", ".1%"),
        ("gap_low", "from", ".1%"),
        ("gap_high", "to", ".1%"),
        ("n", "n", ",d"),
    )
    return {
        "data": {"name": "regions"},
        "transform": [{"filter": "isValid(datum.gap)"}],
        "height": {"step": 24},
        "encoding": {"tooltip": tips},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.35, "height": {"band": 0.7}},
                "encoding": {"y": _y("region", "gap"), "x": {"field": "gap", **x}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2.5},
                "encoding": {
                    "y": _y("region", "gap"),
                    "x": {"field": "gap_low", **x},
                    "x2": {"field": "gap_high"},
                },
            },
            {
                "mark": {"type": "rule", "strokeDash": [4, 4], "strokeWidth": 1.5, "aria": False},
                "encoding": {"x": {"datum": 0.2, "type": "quantitative"}, "tooltip": None},
            },
        ],
    }


def _over_time(name: str, title: str, colour: Spec, shape: Spec) -> Spec:
    picked = {"condition": {"param": "picked", "value": 1}, "value": 0.12}
    x = {
        "type": "temporal",
        "scale": {"type": "utc"},
        "axis": {
            "title": None,
            "format": "%Y",
            "tickCount": {"interval": "year", "step": 1},
            "labelFlush": False,
        },
    }
    lines = {
        "data": {"name": "time_by_model"},
        # Small groups are left out where there are others.
        "transform": [
            {"calculate": "datum.small ? 1 : 0", "as": "few"},
            {"joinaggregate": [{"op": "mean", "field": "few", "as": "share_few"}]},
            {"filter": "datum.share_few == 1 || datum.few == 0"},
            _as_text("since", "start"),
        ],
    }
    tips = [
        {"field": "start", "type": "nominal", "title": "From"},
        *_SCORE_TIPS,
    ]
    return {
        "height": 300,
        "layer": [
            {
                "data": {"name": "cutoffs"},
                "transform": [{"filter": "datum.stated_end != ''"}],
                "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
                "encoding": {
                    "x": {"field": "stated_end", **x},
                    "color": colour,
                    "opacity": {
                        "condition": {"param": "picked", "value": 0.6},
                        "value": 0.08,
                    },
                    "tooltip": _tips(("model", "Model", ""), ("stated", "Published cutoff", "")),
                },
            },
            {
                **lines,
                "params": [
                    {
                        "name": "picked",
                        "select": {"type": "point", "fields": ["model"]},
                        "bind": "legend",
                    }
                ],
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {
                    "x": {"field": "since", **x},
                    "y": {
                        "field": name,
                        "type": "quantitative",
                        "axis": _PERCENT | {"title": title},
                    },
                    "color": colour,
                    "opacity": picked,
                },
            },
            {
                **lines,
                "mark": {"type": "point", "filled": True, "size": 50},
                "encoding": {
                    "x": {"field": "since", **x},
                    "y": {"field": name, "type": "quantitative"},
                    "color": colour,
                    "shape": shape,
                    "opacity": picked,
                    "tooltip": tips,
                },
            },
        ],
    }


def _cutoffs() -> Spec:
    x = {
        "type": "temporal",
        "scale": {"type": "utc"},
        "axis": {"title": None, "format": "%b %Y", "labelOverlap": True, "tickCount": 6},
    }
    tips = _tips(
        ("model", "Model", ""),
        ("since", "Lower from", ""),
        ("from", "between", ""),
        ("to", "and", ""),
        ("stated", "Published cutoff", ""),
        ("before", "Accuracy before", ".1%"),
        ("after", "and after", ".1%"),
        ("note", "Note", ""),
    )
    months = {"month": "since", "low": "from", "high": "to"}
    told = [{"filter": "datum.month != ''"}, *(_as_text(*pair) for pair in months.items())]
    return {
        "data": {"name": "cutoffs"},
        "height": {"step": 30},
        "encoding": {
            "y": {
                "field": "model",
                "type": "nominal",
                "sort": {"field": "month", "op": "max", "order": "descending"},
                "axis": {"title": None, "ticks": False, "domain": False, "labelLimit": 150},
            },
            "tooltip": tips,
        },
        "layer": [
            {
                "transform": told,
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.35},
                "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "transform": told,
                "mark": {"type": "point", "filled": True, "size": 95, "opacity": 1},
                "encoding": {"x": {"field": "month", **x}},
            },
            {
                "transform": [{"filter": "datum.stated_end != ''"}],
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "size": 110,
                    "strokeWidth": 2,
                    "opacity": 1,
                },
                "encoding": {
                    "x": {"field": "stated_end", **x},
                    "color": {
                        "datum": "after",
                        "scale": {"domain": ["before", "after"], "range": "sides"},
                        "legend": None,
                    },
                },
            },
        ],
    }


def _english_native(colour: Spec, shape: Spec, order: list[str]) -> Spec:
    x = {
        "type": "quantitative",
        "axis": _PERCENT | {"title": "English minus native language"},
    }
    y = _y("region", "difference") | {"sort": order}
    tips = _tips(
        ("region", "Region", ""),
        ("model", "Model", ""),
        ("english", "English", ".1%"),
        ("native", "Native", ".1%"),
        ("difference", "Difference", ".1%"),
        ("low", "from", ".1%"),
        ("high", "to", ".1%"),
        ("n", "n", ",d"),
    )
    mean = [tip for tip in tips if tip["field"] != "model"]
    return {
        "height": {"step": 30},
        "layer": [
            {
                "data": {"name": "english_native_by_region"},
                "mark": {"type": "bar", "opacity": 0.25, "height": {"band": 0.75}},
                "encoding": {"y": y, "x": {"field": "difference", **x}, "tooltip": mean},
            },
            {
                "data": {"name": "english_native"},
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
                "encoding": {
                    "y": y,
                    "x": {"field": "difference", **x},
                    "color": colour,
                    "shape": shape,
                    "tooltip": tips,
                },
            },
        ],
    }


def _hardest(tables: Mapping[str, Table]) -> list[str]:
    """Returns the names of the regions, that which loses most in its native language first."""
    if "english_native_by_region" not in tables:
        return []
    data = tables["english_native_by_region"].data.sort_values("difference", ascending=False)
    return [REGIONS[slug].name if slug in REGIONS else slug for slug in data["region"]]


def _loss_by_model() -> Spec:
    names = {"by_refusal": "more refusals", "by_wrong": "more wrong answers"}
    return {
        "data": {"name": "english_native_by_model"},
        "transform": [
            {"fold": list(names), "as": ["part", "points"]},
            {
                "calculate": " : ".join(f"datum.part == '{k}' ? '{v}'" for k, v in names.items())
                + " : ''",
                "as": "part",
            },
        ],
        "height": {"step": 38},
        "mark": {"type": "bar"},
        "encoding": {
            "y": _y("model", "difference"),
            "yOffset": {"field": "part", "sort": list(names.values())},
            "x": {
                "field": "points",
                "type": "quantitative",
                "axis": _PERCENT | {"title": "lost in the native language"},
            },
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": list(names.values()), "range": "sides"},
                "legend": {"title": None, "orient": "bottom"},
            },
            "tooltip": _tips(
                ("model", "Model", ""),
                ("part", "Part", ""),
                ("points", "Lost", ".1%"),
                ("difference", "English minus native", ".1%"),
                ("control", "without cut-off answers", ".1%"),
            ),
        },
    }


def _scatter(name: str, title: str, *, log: bool) -> Spec:
    x: Spec = {
        "field": name,
        "type": "quantitative",
        "axis": {"title": title, "tickCount": 4, "grid": not log, **(_POWERS if log else {})},
        "scale": {"type": "log", "nice": False} if log else {"zero": False},
    }
    if log:
        x["scale"]["padding"] = 12
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "axis": _PERCENT,
        "scale": {"zero": False},
    }
    tips = _tips(
        ("region", "Country", ""),
        ("accuracy", "Accuracy", ".1%"),
        (name, title, ",~r"),
        ("n", "n", ",d"),
    )
    return {
        "data": {"name": "indicators"},
        "height": 220,
        "encoding": {"x": x, "y": y, "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.5},
                "transform": [
                    {
                        "regression": "accuracy",
                        "on": name,
                        **({"method": "log"} if log else {}),
                    }
                ],
                "encoding": {"tooltip": None},
            },
            {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9}},
            {
                "mark": {"type": "text", "dy": -10, "fontSize": 10},
                "encoding": {"text": {"field": "code", "type": "nominal"}},
            },
        ],
    }


def _correlation_captions(tables: Mapping[str, Table], indicator: str) -> dict[str, str]:
    if "correlations" not in tables:
        return {}
    data = tables["correlations"].data
    captions: dict[str, str] = {}
    for split, part in data[data["indicator"] == indicator].groupby("split"):
        said = [
            f"{line['method'].capitalize()} {line['value']:.2f} [{line['low']:.2f}, "
            f"{line['high']:.2f}], p = {line['p']:.3f}"
            for line in part.to_dict("records")
        ]
        captions[str(split)] = "; ".join(said) + f"; n = {part['n'].iloc[0]}"
    return captions


def _coverage(periods: list[str]) -> Spec:
    return {
        "data": {"name": "coverage"},
        "transform": [
            {"fold": periods, "as": ["period", "count"]},
            {"calculate": f"indexof({periods!r}, datum.period)", "as": "order"},
        ],
        "height": {"step": 22},
        "mark": {"type": "bar"},
        "encoding": {
            "y": _y("region", "questions"),
            "x": {"field": "count", "type": "quantitative", "axis": {"title": "Questions"}},
            "color": {
                "field": "period",
                "type": "ordinal",
                "scale": {"domain": periods, "range": "ramp"},
                "legend": {"title": None, "orient": "bottom"},
            },
            "order": {"field": "order"},
            "tooltip": _tips(
                ("region", "Region", ""),
                ("period", "Period", ""),
                ("count", "Questions", ",d"),
                ("questions", "of all", ",d"),
            ),
        },
    }


def _bars(name: str, value: str, title: str) -> Spec:
    x = {"field": value, "type": "quantitative", "axis": _PERCENT | {"title": title}}
    return {
        "data": {"name": "question_types"},
        "height": {"step": 24},
        "encoding": {
            "y": _y(name, value),
            "x": x,
            "tooltip": _tips(
                (name, "Type", ""),
                ("questions", "Questions", ",d"),
                ("share", "Share", ".1%"),
                ("accuracy", "Accuracy", ".1%"),
            ),
        },
        "layer": [
            {"mark": {"type": "bar", "height": {"band": 0.7}}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {"text": {"field": value, "type": "quantitative", "format": ".1%"}},
            },
        ],
    }


def _availability() -> Spec:
    return {
        "data": {"name": "availability"},
        "height": 260,
        "transform": [{"window": [{"op": "row_number", "as": "rank"}]}],
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "rank",
                "type": "quantitative",
                "scale": {"domainMin": 0, "nice": False},
                "axis": {"title": "Countries"},
            },
            "y": {
                "field": "events",
                "type": "quantitative",
                "scale": {"type": "symlog"},
                "axis": {"title": "Events (log)"},
            },
            "color": {
                "field": "tier",
                "type": "ordinal",
                "scale": {"range": "tiers"},
                "sort": None,
                "legend": {"title": "Events", "orient": "bottom"},
            },
            "tooltip": _tips(
                ("country", "Country", ""), ("events", "Events", ",d"), ("tier", "Tier", "")
            ),
        },
    }
