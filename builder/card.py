"""Card: what a release tells of itself: README.md, eval.yaml, pictures.

All of it is rendered from the templates of dataset_card/, out of the rows and of what the run told.
The metadata is exact, because loaders compare it with the files.
"""

import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import jinja2
import pyarrow as pa
import yaml
from datasets import Features
from huggingface_hub import DatasetCard, DatasetCardData

from tiebe.load import HUB
from tiebe.prompts import load_prompt
from tiebe.records import Question, to_row
from tiebe.regions import LANGUAGES, REGIONS, Region
from tiebe.resources import folder as resource_folder
from tiebe.scores import PERIODS

__all__ = [
    "About",
    "Change",
    "Config",
    "ModelUse",
    "PromptUse",
    "Size",
    "Statistics",
    "write_card",
]

_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class PromptUse:
    """A prompt that the questions were made with."""

    name: str
    """`name@version`."""
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A model that the questions were made with."""

    stage: str
    asked: str
    served: tuple[str, ...] = ()
    """What the servers said they served."""


@dataclass(frozen=True, slots=True)
class About:
    """What the card tells besides the rows."""

    as_of: str = ""
    """The day whose page revisions were taken; empty: the newest at the time."""
    prompts: tuple[PromptUse, ...] = ()
    models: tuple[ModelUse, ...] = ()
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per region slug: `events` listed, `references` cited, `articles` read (Table 5)."""
    stages: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per stage: `in`, `out`, and the number of drops by reason."""
    notes: tuple[str, ...] = ()
    """Further sentences on how this release was built."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a release changed against the one before, in one region and for one reason."""

    version: str
    kind: Literal["added", "changed", "withdrawn"]
    region: str
    count: int
    reason: str = ""
    ids: tuple[str, ...] = ()
    """Of the questions that are gone: withdrawn ones, and those that changed ones replace; and of
    those of which only the translation changed."""


@dataclass(slots=True)
class Statistics:
    """What was written."""

    rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Rows by (region slug, split, year)."""
    articles: Counter[str] = field(default_factory=Counter)
    """Article texts by region slug."""
    flags: Counter[str] = field(default_factory=Counter)
    """Rows by flag."""
    flagged: int = 0
    """Rows with any flag."""
    samples: dict[str, list[Question]] = field(default_factory=dict)
    """By region slug, a question of the mini sample without a flag, and its native row."""

    def count(self, row: Question) -> None:
        """Takes a row into account; English rows of a region come before its native ones."""
        self.rows[row.region, row.split, row.year] += 1
        self.flags.update(set(row.flags))
        self.flagged += bool(row.flags)
        sample = self.samples.get(row.region)
        if row.split == "native":
            if sample and sample[0].id == row.id:
                sample.append(row)
        elif row.mini and not row.flags and (not sample or row.id < sample[0].id):
            self.samples[row.region] = [row]

    def total(self, region: str | None = None, split: str | None = None) -> int:
        """Returns the number of rows of a region and split; None stands for all of them."""
        return sum(
            n for (r, s, _), n in self.rows.items() if region in (None, r) and split in (None, s)
        )

    @property
    def regions(self) -> list[Region]:
        """The regions that have rows, by name, World last."""
        found = [REGIONS[slug] for slug in {region for region, _, _ in self.rows}]
        return sorted(found, key=lambda r: (r.macro_region is None, r.name))

    @property
    def years(self) -> list[str]:
        """The years that have rows."""
        return sorted({year for _, _, year in self.rows})

    def periods(self) -> dict[str, Counter[str]]:
        """Returns English and native rows by period and region slug, as in Table 1."""
        periods: dict[str, Counter[str]] = {}
        for (region, _, year), n in sorted(self.rows.items(), key=lambda item: item[0][2]):
            names = [name for first, name in PERIODS if first <= int(year)]
            periods.setdefault(names[-1] if names else year, Counter())[region] += n
        return periods


# ---- card


@dataclass(frozen=True, slots=True)
class Size:
    """The size of files: in rows, as a table in memory, on disk."""

    rows: int = 0
    memory: int = 0
    disk: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.rows + other.rows, self.memory + other.memory, self.disk + other.disk)


@dataclass(slots=True)
class Config:
    """A configuration of the dataset."""

    schema: pa.Schema
    paths: dict[str, str] = field(default_factory=dict)
    """Pattern of the files of each split."""
    sizes: defaultdict[str, Size] = field(default_factory=lambda: defaultdict(Size))


def write_card(
    folder: Path,
    version: str,
    configs: Mapping[str, Config],
    statistics: Statistics,
    about: About,
    changes: Iterable[Change],
) -> None:
    """Writes README.md, eval.yaml and images/ into a release.

    Args:
        folder: Of the release.
        version: Of the release.
        configs: By name; `all` is the default.
        statistics: Of its rows.
        about: What the run told.
        changes: The changelog, the oldest release first.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_folder("dataset_card")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cell": _cell,
        "full": lambda row: json.dumps(to_row(row), ensure_ascii=False, indent=2),
        "thousands": "{:,}".format,
        "shade": lambda n: min(n.bit_length(), 9),
    }
    judge = load_prompt("judge")
    values = {
        "hub": HUB,
        "version": version,
        "configs": configs,
        "statistics": statistics,
        "periods": statistics.periods(),
        "samples": _samples(statistics),
        "about": about,
        "changelog": _summary(changes),
        "regions": statistics.regions,
        "years": statistics.years,
        "REGIONS": REGIONS,
        "LANGUAGES": LANGUAGES,
        "judge": judge,
        # For str.format, by which Inspect fills its templates in.
        "rules": str(judge.meta["system"]).strip().replace("{", "{{").replace("}", "}}"),
    }

    def render(template: str) -> str:
        return environment.get_template(template).render(values)

    metadata = _metadata(configs, statistics).to_yaml()
    DatasetCard(f"---\n{metadata}\n---\n\n{render('README.md.jinja')}").save(folder / "README.md")
    evaluation = render("eval.yaml.jinja")
    yaml.safe_load(evaluation)  # a template that was changed for the worse is told here
    (folder / "eval.yaml").write_text(evaluation, "utf-8")
    (folder / "images").mkdir(exist_ok=True)
    for name in ("coverage.svg", "pipeline.svg"):
        (folder / "images" / name).write_text(render(f"{name}.jinja"), "utf-8")


def _metadata(configs: Mapping[str, Config], statistics: Statistics) -> DatasetCardData:
    languages = {"en"} | {
        region.language_code
        for region in statistics.regions
        if statistics.total(region.slug, "native")
    }
    return DatasetCardData(
        pretty_name="TiEBe: Timely Events Benchmark",
        language=sorted(languages),
        license="cc-by-sa-4.0",
        multilinguality="multilingual" if len(languages) > 1 else "monolingual",
        annotations_creators="machine-generated",
        language_creators=["found", "machine-generated"],
        source_datasets=["original"],
        task_categories=["question-answering"],
        task_ids=["open-domain-qa"],
        size_categories=_size_category(statistics.total()),
        tags=["benchmark", "factual-recall", "temporal", "events", "news", "wikipedia"],
        configs=[
            {
                "config_name": name,
                **({"default": True} if name == "all" else {}),
                "data_files": [
                    {"split": split, "path": path} for split, path in sorted(config.paths.items())
                ],
            }
            for name, config in configs.items()
        ],
        dataset_info=[
            {
                "config_name": name,
                "features": Features.from_arrow_schema(config.schema)._to_yaml_list(),
                "splits": [
                    {"name": split, "num_bytes": size.memory, "num_examples": size.rows}
                    for split, size in sorted(config.sizes.items())
                ],
                "download_size": sum(size.disk for size in config.sizes.values()),
                "dataset_size": sum(size.memory for size in config.sizes.values()),
            }
            for name, config in configs.items()
        ],
    )


def _size_category(n: int) -> str:
    names = ["1K", "10K", "100K", "1M", "10M", "100M", "1B"]
    for i, name in enumerate(names):
        if n < 10 ** (i + 3):
            return f"n<{name}" if i == 0 else f"{names[i - 1]}<n<{name}"
    return f"n>{names[-1]}"


def _samples(statistics: Statistics) -> list[list[Question]]:
    """Returns a few questions, of as many languages as there are."""
    by_language: dict[str, list[Question]] = {}
    for rows in sorted(statistics.samples.values(), key=lambda rows: rows[0].id):
        by_language.setdefault(rows[-1].language, rows)
    return sorted(by_language.values(), key=lambda rows: (-len(rows), rows[0].id))[:_SAMPLES]


def _summary(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Returns the changelog with one line a release, change and reason, the newest first."""

    def key(change: Change) -> tuple[str, str, str]:
        return change.version, change.kind, change.reason

    lines = []
    for (version, kind, reason), group in groupby(sorted(changes, key=key), key=key):
        members = list(group)
        names = [REGIONS[c.region].name if c.region in REGIONS else c.region for c in members]
        count = sum(change.count for change in members)
        told = {"version": version, "kind": kind, "reason": reason, "count": count}
        lines.append(told | {"regions": ", ".join(names) if len(names) < 6 else len(names)})
    return sorted(lines, key=lambda line: line["version"], reverse=True)


def _cell(text: str, limit: int = 240) -> str:
    """Returns a stranger's text as the cell of a Markdown table: no markup in it comes alive."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= limit else flat[: limit - 1] + "…"
    return re.sub(r"[|`*_~#\[\]\\]", lambda m: f"&#{ord(m[0])};", html.escape(short, quote=False))
