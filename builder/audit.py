"""Audit: what `check` found, as counts, as `audit.jsonl` and as a page to browse."""

import base64
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from builder.check import Source, check, groups
from builder.release import read_articles, read_questions, reflag
from builder.rules import TRANSLATION, says, stands_for
from tiebe.errors import SettingsError
from tiebe.records import Question
from tiebe.regions import LANGUAGES, REGIONS

__all__ = [
    "PAGE",
    "ROWS",
    "Card",
    "Field",
    "Stored",
    "audit_release",
    "beyond",
    "cards",
    "page",
    "read_rows",
    "read_sources",
    "tally",
    "tally_table",
    "told",
    "write_audit",
]

ROWS, PAGE = "audit.jsonl", "audit.html"
"""The names of the files."""

FACETS = ("region", "year", "language")
"""What one can filter by; a card has a value for each."""
PAGE_SIZE = 25
_TEXT = 4000  # characters of an article that the page shows


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a card."""

    name: str
    label: str
    text: str
    lang: str = ""
    """ISO 639 code."""
    main: bool = False
    """Whether it stands out."""
    mark: bool = False
    """Whether its words are marked in the text beside."""


@dataclass(frozen=True, slots=True)
class Card:
    """A question in all its languages, with its article beside."""

    id: str
    facts: Sequence[str]
    """A value for each of `FACETS`; empty for none."""
    fields: Sequence[Field]
    flags: Sequence[str]
    title: str
    url: str
    text: str


class Stored(NamedTuple):
    """An article of a release."""

    title: str
    url: str
    text: str


def read_rows(folder: Path) -> list[Question]:
    """Returns the rows of a release.

    Raises:
        SettingsError: The folder holds none.
    """
    rows = list(read_questions(folder))
    if not rows:
        raise SettingsError(
            f"{folder} is neither a run, which has a run.toml, nor a release with data/*/*.parquet"
        )
    return rows


def read_sources(folder: Path) -> dict[str, Stored]:
    """Returns the articles of a release by id; none where it was written without texts."""
    return {
        row["article_id"]: Stored(row["title"], row["url"], row["text"])
        for row in read_articles(folder)
    }


def audit_release(folder: Path) -> list[Question]:
    """Checks a release and returns its rows with their flags, which are written into it.

    Args:
        folder: The release; `audit.jsonl` and `audit.html` come to stand in it.

    Raises:
        SettingsError: It is no release.
    """
    before, articles = read_rows(folder), read_sources(folder)
    rows = [row for group in groups(before) for row in check(group, articles=articles)]
    reflag(folder, {(row.id, row.language): row.flags for row in rows})
    write_audit(folder, rows, articles, title=f"Audit of release {rows[0].version}")
    return rows


def tally(rows: Iterable[Question]) -> dict[str, Counter[str]]:
    """Returns per region how many rows bear each flag; `english` and `native` are all rows.

    A flag of the question, its article or its event is counted in the English row alone, one of
    the translation in the native row.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.region][row.split] += 1
        counts[row.region].update(own_flags(row))
    return dict(sorted(counts.items()))


def own_flags(row: Question) -> list[str]:
    """Returns the flags that a row does not share with its English one."""
    return [flag for flag in row.flags if (flag in TRANSLATION) == (row.split == "native")]


def tally_table(counts: Mapping[str, Counter[str]]) -> str:
    """Returns the counts as text: a line per flag, a column per region, the whole last."""
    splits = ("english", "native")
    total: Counter[str] = Counter()
    for region in counts.values():
        total.update(region)
    names = [*splits, *sorted(set(total) - set(splits), key=lambda flag: (-total[flag], flag))]
    columns = {REGIONS[slug].name: region for slug, region in counts.items()} | {"all": total}
    width = max(map(len, names), default=0)
    head = [" " * width, *columns]
    lines = ["  ".join(head)]
    for name in names:
        cells = [f"{region[name] or '·':>{len(title)}}" for title, region in columns.items()]
        lines.append("  ".join([name.ljust(width), *cells]))
    return "\n".join(lines)


def beyond(
    rows: Sequence[Question], max_share: Mapping[str, float], kept: Iterable[str] = ()
) -> list[str]:
    """Returns a sentence for each share that is passed.

    Args:
        rows: All rows.
        max_share: By flag, or `wrong_article`, `after_cutoff`: the share of rows that may bear it,
            0 to 1; of native rows for flags of a translation.
        kept: Ids of questions that a maintainer has looked at and keeps: their flags do not count.
    """
    settled = set(kept)
    sentences = []
    for name, most in sorted(max_share.items()):
        split = "native" if name in TRANSLATION else "english"
        among = [row for row in rows if row.split == split]
        bearing = [
            row
            for row in among
            if row.id not in settled and any(stands_for(name, flag) for flag in row.flags)
        ]
        if len(bearing) > most * len(among):
            sentences.append(
                f"{name}: {len(bearing):,} of {len(among):,} {split} rows, "
                f"{len(bearing) / len(among):.2%}, where {most:.2%} are allowed"
            )
    return sentences


def cards(rows: Iterable[Question], articles: Mapping[str, Source]) -> list[Card]:
    """Returns a card for each question, its native row beside it, the most flagged first."""
    both: dict[str, dict[str, Question]] = defaultdict(dict)
    for row in rows:
        both[row.id][row.split] = row
    made = []
    for member, splits in both.items():
        english, native = splits.get("english"), splits.get("native")
        row = next(iter(splits.values()))
        source = articles.get(row.article_id or "")
        text = source.text if source else ""
        language = LANGUAGES[native.language] if native else None
        made.append(
            Card(
                id=member,
                facts=(REGIONS[row.region].name, row.year, language.name if language else ""),
                fields=[
                    *_fields(english, "English", "english"),
                    *(_fields(native, language.name, "native") if native and language else ()),
                    Field("event", f"Event, {row.date}", row.event_desc),
                ],
                flags=tuple(dict.fromkeys([*row.flags, *(native.flags if native else ())])),
                title=(source.title if source else "") or row.source_title,
                url=row.source_url,
                text=text if len(text) <= _TEXT else f"{text[:_TEXT]} …",
            )
        )
    made.sort(key=lambda card: (-len(card.flags), card.facts, card.id))
    return made


def _fields(row: Question | None, language: str, name: str) -> list[Field]:
    if row is None:
        return []
    return [
        Field(f"{name}.question", f"Question, {language}", row.question, row.language, main=True),
        Field(
            f"{name}.answer",
            f"Answer, {language}",
            row.answer,
            row.language,
            mark=row.split == "english",
        ),
    ]


def write_audit(
    folder: Path, rows: Sequence[Question], articles: Mapping[str, Source], *, title: str
) -> None:
    """Writes `audit.jsonl`, an object per row, and `audit.html`.

    Args:
        folder: Where the two are to stand.
        rows: With their flags.
        articles: By id.
        title: Of the page.
    """
    with (folder / ROWS).open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in rows:
            line = {
                "id": row.id,
                "region": row.region,
                "language": row.language,
                "split": row.split,
                "question": row.question,
                "flags": list(row.flags),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    shown = cards(rows, articles)
    raw = json.dumps(
        {"cards": [asdict(card) for card in shown], "choices": [], "decided": {}, **told(shown)},
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode("utf-8", "replace")
    packed = base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()
    # The file is the same for the same rows, and no script can be put into it that would know this.
    nonce = hashlib.sha256(raw).hexdigest()[:24]
    html = page(title, packed).replace("NONCE", nonce)
    (folder / PAGE).write_text(html, encoding="utf-8")


def told(shown: Iterable[Card]) -> dict[str, Any]:
    """Returns what the page is told beside its cards."""
    flags = {flag for card in shown for flag in card.flags}
    return {
        "facets": FACETS,
        "says": {flag: says(flag) for flag in sorted(flags)},
        "size": PAGE_SIZE,
    }


def page(title: str, packed: str = "") -> str:
    """Returns the page as HTML, in which NONCE stands for the one of its style and script.

    What strangers wrote is in it only as compressed JSON, and is shown as text nodes.

    Args:
        title: Its heading.
        packed: The cards; a page without them asks its server for them.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment.from_string(_asset("audit.html.jinja")).render(
        title=title,
        style=Markup(_asset("audit.css")),
        script=Markup(_asset("audit.js")),
        packed=packed,
    )


def _asset(name: str) -> str:
    return resources.files("builder").joinpath(name).read_text(encoding="utf-8")
