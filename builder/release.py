"""Release: questions and articles become a folder that is published as it is.

```
README.md  eval.yaml  about.json  changelog.jsonl  decisions.jsonl (where there are decisions)
data/<slug>/english.parquet   data/<slug>/native.parquet   articles/<slug>.parquet
```

The folder is a function of its rows and of what the card tells: no time, duration or count of
tokens goes into it, so that the same input gives the same bytes. Rows of any order are spooled to
disk by region; what stays in memory is one sort key a row.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from builder.card import About, Change, Config, ModelUse, PromptUse, Size, Statistics, write_card
from builder.records import Article
from tiebe.errors import RecordError, SettingsError
from tiebe.load import MINI, SCHEMA, stratified
from tiebe.records import Question, to_row
from tiebe.regions import REGIONS

__all__ = [
    "ARTICLES",
    "About",
    "Change",
    "Edition",
    "ModelUse",
    "PromptUse",
    "Statistics",
    "compare",
    "read_about",
    "read_articles",
    "read_changes",
    "read_questions",
    "reflag",
    "write_release",
]

T = TypeVar("T")

ARTICLES = pa.schema(
    [
        pa.field("article_id", pa.string(), nullable=False),
        pa.field("event_id", pa.string(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("archive_url", pa.string()),
        pa.field("fetched_url", pa.string()),
        pa.field("copy", pa.string()),
        pa.field("sha256", pa.string()),
        pa.field("extractor", pa.string()),
        pa.field("title", pa.string(), nullable=False),
        pa.field("published", pa.string()),
        pa.field("text", pa.string(), nullable=False),
    ]
)
"""The schema of every file under articles/; `sha256` is that of the document as fetched."""

# What datasets writes too: chunks cut by content, so that the Hub stores an unchanged part once.
_PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "write_page_index": True,
    "use_content_defined_chunking": True,
}
_GROUP = 1000  # rows written at once
_ABOUT = "about.json"  # what the card tells besides the rows, to write it again


@dataclass(frozen=True, slots=True)
class Edition:
    """Which release to write."""

    version: str
    texts: Literal["full", "none"] = "full"
    about: About = field(default_factory=About)
    base: Path | None = None
    """The folder of the release before, whose changelog is carried on."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a question of the base is gone, by its id."""
    decisions: Path | None = None
    """A decisions.jsonl to be part of the release."""


def write_release(
    folder: Path,
    questions: Iterable[Question],
    articles: Iterable[Article | Mapping[str, Any]],
    edition: Edition,
) -> Statistics:
    """Writes a release; a folder that stands there is replaced when the new one is complete.

    Rows get their version, `since` (kept where they have one) and `mini`. Only articles that a
    question refers to are written.

    Args:
        folder: Where the release is to stand.
        questions: English and native rows, in any order.
        articles: In any order; rows of another release's `articles` may be among them.
        edition: Its version, and what the card tells.

    Raises:
        RecordError: A row stands there twice, has no English row, or has an unknown region.
        SettingsError: `folder` holds something that is no release.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "data").is_dir():
        raise SettingsError(f"{folder} holds no release and is not replaced: name another folder")
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    spool = part / "spool"
    spool.mkdir(parents=True)
    with ExitStack() as stack:
        rows, texts = _spooled(spool, stack, questions, articles, edition)
        statistics, configs = _write_tables(part, rows, texts, edition)
    shutil.rmtree(spool)
    changes = _changelog(part, edition)
    if edition.decisions:
        shutil.copyfile(edition.decisions, part / "decisions.jsonl")
    (part / _ABOUT).write_bytes(msgspec.json.encode(edition.about) + b"\n")
    write_card(part, edition.version, configs, statistics, edition.about, changes)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return statistics


def read_questions(
    folder: Path, *, splits: Iterable[str] = ("english", "native")
) -> Iterator[Question]:
    """Yields the rows of a release, by region, split, date and id."""
    for split in splits:
        for path in sorted(folder.glob(f"data/*/{split}.parquet")):
            for row in _read(path):
                yield msgspec.convert(row, Question)


def read_articles(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of the `articles` config of a release, with the columns of `ARTICLES`."""
    for path in sorted(folder.glob("articles/*.parquet")):
        yield from _read(path)


def read_changes(folder: Path) -> list[Change]:
    """Returns the changelog of a release, the oldest release first."""
    path = folder / "changelog.jsonl"
    if not path.is_file():
        return []
    return [msgspec.json.decode(line, type=Change) for line in path.read_bytes().splitlines()]


def read_about(folder: Path) -> About:
    """Returns what the card of a release tells besides its rows."""
    path = folder / _ABOUT
    return msgspec.json.decode(path.read_bytes(), type=About) if path.is_file() else About()


def reflag(folder: Path, flags: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
    """Writes new flags into the rows of a release, and the card anew; the rest of it stays.

    Args:
        folder: The release.
        flags: By id and language, of all its rows.
    """
    statistics = Statistics()
    configs = {"all": Config(SCHEMA)}
    version = ""

    def flagged(path: Path) -> Iterator[dict[str, Any]]:
        nonlocal version
        for row in _read(path):
            question = msgspec.convert(row | {"flags": flags[row["id"], row["language"]]}, Question)
            version = question.version
            statistics.count(question)
            yield to_row(question)

    for path in sorted(folder.glob("data/*/*.parquet")):
        part = path.with_suffix(".part")
        size = _write(part, flagged(path), SCHEMA)
        part.replace(path)
        _count(configs, path.parent.name, path.stem, size)
    for path in sorted(folder.glob("articles/*.parquet")):
        with pq.ParquetFile(path) as file:
            memory = sum(batch.nbytes for batch in file.iter_batches(_GROUP))
            size = Size(file.metadata.num_rows, memory, path.stat().st_size)
        statistics.articles[path.stem] = size.rows
        _count_articles(configs, size)
    about = read_about(folder)
    write_card(folder, version, configs, statistics, about, read_changes(folder))


def compare(
    version: str,
    base: Iterable[Question],
    rows: Iterable[Question],
    reasons: Mapping[str, str],
) -> list[Change]:
    """Returns what changed from one release to the next, counted in questions.

    Args:
        version: Of the next.
        base: The rows before.
        rows: The rows now.
        reasons: Why a question is gone, by its id.
    """
    before: dict[str, str] = {}
    native: dict[str, tuple[str, str]] = {}
    for row in base:
        if row.split == "english":
            before[row.id] = row.region
        else:
            native[row.id] = row.question, row.answer
    changed: dict[tuple[str, str], list[str]] = defaultdict(list)
    added: Counter[str] = Counter()
    for row in rows:
        if row.split == "native":
            if native.get(row.id, (row.question, row.answer)) != (row.question, row.answer):
                changed[row.region, reasons.get(row.id, "translation")].append(row.id)
        elif row.id in before:
            del before[row.id]
        elif row.replaces:
            changed[row.region, reasons.get(row.replaces, "")].append(row.replaces)
        else:
            added[row.region] += 1
    replaced = {member for ids in changed.values() for member in ids}
    withdrawn: dict[tuple[str, str], list[str]] = defaultdict(list)
    for member, region in before.items():
        if member not in replaced:
            withdrawn[region, reasons.get(member, "")].append(member)
    kinds: tuple[tuple[Literal["changed", "withdrawn"], Mapping[tuple[str, str], list[str]]], ...]
    kinds = (("changed", changed), ("withdrawn", withdrawn))
    return [
        *(Change(version, "added", region, n) for region, n in sorted(added.items())),
        *(
            Change(version, kind, region, len(ids), reason, tuple(sorted(ids)))
            for kind, groups in kinds
            for (region, reason), ids in sorted(groups.items())
        ),
    ]


# ---- tables


class _Spool(Generic[T]):
    """Records on disk, handed back in the order of their keys."""

    def __init__(self, file: BinaryIO, kind: type[T]) -> None:
        self.keys: list[tuple[str, str, int]] = []
        self._file = file
        self._decoder = msgspec.json.Decoder(kind)

    def add(self, date: str, member: str, record: T) -> None:
        self.keys.append((date, member, self._file.tell()))
        self._file.write(msgspec.json.encode(record) + b"\n")

    def __iter__(self) -> Iterator[T]:
        for _, _, offset in sorted(self.keys):
            self._file.seek(offset)
            yield self._decoder.decode(self._file.readline())


_Rows = dict[tuple[str, str], _Spool[Question]]
_Texts = dict[str, _Spool[dict[str, Any]]]


def _spooled(
    spool: Path,
    stack: ExitStack,
    questions: Iterable[Question],
    articles: Iterable[Article | Mapping[str, Any]],
    edition: Edition,
) -> tuple[_Rows, _Texts]:
    """Sorts what comes in any order into one spool per file that is to be written."""
    rows: _Rows = {}
    dates: dict[str | None, str] = {}
    for row in questions:
        if row.region not in REGIONS:
            raise RecordError(f"question {row.id}: no region has the slug {row.region!r}")
        key = (row.region, row.split)
        if key not in rows:
            file = stack.enter_context((spool / "-".join(key)).open("w+b"))
            rows[key] = _Spool(file, Question)
        rows[key].add(row.date, row.id, row)
        dates[row.article_id] = row.date
    for (region, split), spooled in rows.items():
        ids = {member for _, member, _ in spooled.keys}
        if len(ids) < len(spooled.keys):
            twice = [m for m, n in Counter(m for _, m, _ in spooled.keys).items() if n > 1]
            raise RecordError(f"{region}, {split}: {len(twice)} ids stand there twice: {twice[0]}")
        english = rows.get((region, "english"))
        if split == "native" and (
            lone := ids - {member for _, member, _ in (english.keys if english else [])}
        ):
            raise RecordError(f"{region}: {len(lone)} native rows have no English row: {min(lone)}")
    texts: _Texts = {}
    for article in articles if edition.texts == "full" else ():
        told = _article_row(article) if isinstance(article, Article) else dict(article)
        region, member = told["region"], told["article_id"]
        if member not in dates:
            continue
        if region not in texts:
            file = stack.enter_context((spool / f"{region}-articles").open("w+b"))
            texts[region] = _Spool(file, dict[str, Any])
        texts[region].add(dates[member], member, told)
    return rows, texts


def _write_tables(
    part: Path, rows: _Rows, texts: _Texts, edition: Edition
) -> tuple[Statistics, dict[str, Config]]:
    """Writes the parquet files."""
    mini = stratified(
        (
            ((region, date[:4]), member)
            for (region, split), spooled in rows.items()
            if split == "english"
            for date, member, _ in spooled.keys
        ),
        MINI,
    )
    statistics = Statistics()
    configs = {"all": Config(SCHEMA)}

    def stamped(spooled: _Spool[Question]) -> Iterator[dict[str, Any]]:
        for row in spooled:
            row = replace(
                row,
                version=edition.version,
                since=row.since or edition.version,
                mini=row.id in mini,
            )
            statistics.count(row)
            yield to_row(row)

    for (region, split), spooled in sorted(rows.items()):
        path = part / "data" / region / f"{split}.parquet"
        _count(configs, region, split, _write(path, stamped(spooled), SCHEMA))
    for region, found in sorted(texts.items()):
        size = _write(part / "articles" / f"{region}.parquet", found, ARTICLES)
        statistics.articles[region] = size.rows
        _count_articles(configs, size)
    return statistics, configs


def _count(configs: dict[str, Config], region: str, split: str, size: Size) -> None:
    """Takes a file of questions into account."""
    for name, folder in (("all", "*"), (region, region)):
        config = configs.setdefault(name, Config(SCHEMA))
        config.paths[split] = f"data/{folder}/{split}.parquet"
        config.sizes[split] += size


def _count_articles(configs: dict[str, Config], size: Size) -> None:
    """Takes a file of article texts into account."""
    config = configs.setdefault("articles", Config(ARTICLES))
    config.paths["articles"] = "articles/*.parquet"
    config.sizes["articles"] += size


def _article_row(article: Article) -> dict[str, Any]:
    how = article.how
    return {
        "article_id": article.id,
        "event_id": article.event.id,
        "region": article.event.region,
        "url": article.url,
        "archive_url": article.archive_url,
        "title": article.title,
        "published": article.published,
        "text": article.text,
    } | {name: how.get(name) for name in ("fetched_url", "copy", "sha256", "extractor")}


def _write(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Size:
    path.parent.mkdir(parents=True, exist_ok=True)
    count = memory = 0
    with pq.ParquetWriter(path, schema, **_PARQUET) as writer:
        for batch in _batches(rows):
            table = pa.Table.from_pylist(batch, schema)
            writer.write_table(table)
            count += table.num_rows
            memory += table.nbytes
    return Size(count, memory, path.stat().st_size)


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    batch: list[T] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _GROUP:
            yield batch
            batch = []
    if batch:
        yield batch


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_GROUP):
            yield from batch.to_pylist()


def _changelog(part: Path, edition: Edition) -> list[Change]:
    """Writes the changelog: that of the base, and what this release changes."""
    before = read_changes(edition.base) if edition.base else []
    base = read_questions(edition.base) if edition.base else iter(())
    now = read_questions(part)
    changes = [
        *(change for change in before if change.version != edition.version),
        *compare(edition.version, base, now, edition.reasons),
    ]
    lines = (msgspec.json.encode(change) + b"\n" for change in changes)
    (part / "changelog.jsonl").write_bytes(b"".join(lines))
    return changes
