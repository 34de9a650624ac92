"""Loads the benchmark: from a release folder, from the Hub, from upstream's layouts of 2025.

Files of the Hub are taken at one commit, out of huggingface_hub's cache where they are there, and
read without a copy of them: nothing but the files decides what comes back. The version asked for
is compared with the `version` column, so that no cache can return another one.
"""

import functools
import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, Features, IterableDataset
from huggingface_hub import HfApi, HfFileSystem, get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

from tiebe.errors import FetchError, RecordError, SettingsError, VersionError
from tiebe.records import COLUMNS, canonical, from_row, to_row
from tiebe.regions import REGIONS, Region, find_language, find_regions
from tiebe.upstream import OldRow, parse, questions

__all__ = [
    "HUB",
    "MINI",
    "SCHEMA",
    "download_release",
    "load_tiebe",
    "stratified",
    "version_key",
]

log = logging.getLogger(__name__)

HUB = "TimelyEventsBenchmark/TiEBe"
"""The repo id of the published data."""

MINI = 1000
"""How many questions `mini` marks."""

_NULLABLE = {"end_date", "archive_url", "article_id", "page_revision", "replaces"}
_TYPES = {"page_revision": pa.int64(), "flags": pa.list_(pa.string()), "mini": pa.bool_()}

SCHEMA = pa.schema(
    [pa.field(n, _TYPES.get(n, pa.string()), nullable=n in _NULLABLE) for n in COLUMNS]
)
"""The columns of a question, as they are published."""

_TEXT = pa.field("text", pa.string())
_VERSION = re.compile(r"v?(\d{4}\.\d{2}(?:\.\d+)?)")
_MONTH = re.compile(r"\d{4}(-(0[1-9]|1[0-2]))?")
_REPO = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_KEYS = ["id", "region", "language", "year", "month", "mini", "since"]

# What huggingface_hub lets through when there is no network: the errors of its HTTP client.
_UNREACHABLE: tuple[type[Exception], ...] = (
    *HfHubHTTPError.__bases__[:1],
    OfflineModeIsEnabled,
    LocalEntryNotFoundError,
    CachedRepoTreeNotFoundError,
)

Regions = str | Region | Iterable[str | Region] | None
Years = int | range | tuple[int, int] | Iterable[int] | None


def load_tiebe(
    region: Regions = None,
    language: str = "english",
    *,
    years: Years = None,
    after: str | None = None,
    before: str | None = None,
    since: str | None = None,
    sample: Literal["mini"] | int | None = None,
    version: str | None = None,
    text: bool = False,
    source: str | Path = HUB,
    streaming: bool = False,
) -> Dataset | IterableDataset:
    """Loads questions, one row each, with the columns of `tiebe.records.Question`.

    Rows come by region, then English before native, then by date and id. From upstream's layouts
    of 2025 they come with the same columns: dates are split off the event's text, ids derived.

    Args:
        region: A slug, display name, alias ("USA"), ISO code or macro-region ("Asia"), or several
            of these. None: all.
        language: "english", "native" (what is spoken in the region, where that is not English),
            "both", or the ISO 639 code or name of a language.
        years: Of the event: an int, a range, or a pair (first, last), both included.
        after: Only events of the months after this one, "2024-07"; of a year, after its December.
            With a model's knowledge cutoff this is what it cannot know.
        before: Only events of the months before this one; of a year, before its January.
        since: Only questions that were first published after this release, "2025.04".
        sample: "mini", the fixed stratified thousand; or a number of questions, drawn from those
            that the other arguments leave, in proportion to regions and years, always the same.
        version: A release, "2025.04"; on the Hub also any tag or commit. None: the newest there,
            or, without network, the newest that was loaded before.
        text: Adds the column `text`, the article that the question was written from.
        source: A repo id of the Hub, or a release folder.
        streaming: Returns an `IterableDataset` that reads as it goes.

    Returns:
        A `datasets.Dataset`, or a `datasets.IterableDataset` when streaming.

    Raises:
        SettingsError: An argument is none of what is possible, or the source is no release.
        VersionError: The release asked for is not there, or cannot be had without network.
        FetchError: The Hub answers with an error.
        RecordError: A file is not what a release holds.
    """
    query = _query(language, years=years, after=after, before=before, since=since)
    if sample not in (None, "mini") and (not isinstance(sample, int) or sample < 1):
        raise SettingsError(f"sample must be 'mini' or a number from 1 up, not {sample!r}")
    release = _find(source, version)
    if since and release.upstream:
        raise SettingsError(f"{release.name}: the layout of 2025 does not tell when a row appeared")
    if text and not release.upstream and not release.articles:
        raise SettingsError(f"{release.name} has no article texts: leave out text=True")
    parts = _parts(release, region, language)
    if not streaming:
        release.download(path for part in parts for path in release.paths(part, text=text))
    if sample == "mini" and release.upstream:
        everything = [part for part in release.files if part[1] == "english"]
        query = replace(query, ids=_draw(release, everything, _Query(), MINI))
    elif sample == "mini":
        query = replace(query, mini=True)
    elif sample:
        query = replace(query, ids=_draw(release, parts, query, sample))
    features = Features.from_arrow_schema(SCHEMA.append(_TEXT) if text else SCHEMA)
    if streaming:
        next(_tables(release, parts[0], ["version"]), None)  # a wrong release is told at once
        return IterableDataset.from_generator(
            _stream,
            features=features,
            gen_kwargs={"release": release, "query": query, "text": text, "parts": parts},
        )
    with ThreadPoolExecutor(4) as pool:
        tables = list(
            pool.map(lambda part: pa.concat_tables(_wanted(release, part, query, text)), parts)
        )
    table = pa.concat_tables(tables)
    if len(versions := pc.unique(table["version"]).to_pylist()) > 1:
        raise VersionError(
            f"{release.name} is a mixture: its files are of {' and '.join(sorted(versions))}"
        )
    table = table.cast(features.arrow_schema) if len(table) else features.arrow_schema.empty_table()
    key = canonical([versions, text, table["id"].to_pylist(), table["language"].to_pylist()])
    return Dataset(table, fingerprint=hashlib.sha256(key).hexdigest()[:16])


def download_release(source: str, version: str) -> Path:
    """Returns the folder of a release of the Hub in the local cache, with all its files.

    Args:
        source: The repo id.
        version: The release, "2025.04" or "v2025.04".

    Raises:
        SettingsError: There is no such repo, or `version` is no name of a release.
        VersionError: The release is not there, has the layout of 2025, or cannot be had without
            network.
        FetchError: The Hub answers with an error.
    """
    version_key(version)
    release = _find(source, version)
    tree = get_cached_repo_tree(source, repo_type="dataset", revision=release.commit)
    release.download(file.path for file in tree)
    for part in release.files:
        for _ in _tables(release, part, ["version"]):
            pass  # reading is what holds the rows against the version
    return release.folder


def version_key(version: str) -> tuple[int, ...]:
    """Returns what releases are sorted by: `2025.04` < `2025.04.1` < `2025.05`.

    Raises:
        SettingsError: That is no name of a release.
    """
    match = _VERSION.fullmatch(version)
    if not match:
        raise SettingsError(f"{version!r} is no release; expected a year and month like '2025.04'")
    return tuple(map(int, match[1].split(".")))


def stratified(members: Iterable[tuple[Any, str]], n: int) -> set[str]:
    """Returns `n` of the ids, each stratum in proportion to its size (largest remainders).

    Within a stratum the smallest ids win. Ids are digits of a hash, so that is a draw whose seed
    is the data: it is the same for everyone, and hardly moves when rows come or go.

    Args:
        members: Pairs of a stratum (sortable) and an id.
        n: How many; all when there are not more.
    """
    strata = defaultdict(set)
    for stratum, member in members:
        strata[stratum].add(member)
    total = sum(map(len, strata.values()))
    n = min(n, total)
    shares = {stratum: divmod(n * len(ids), total) for stratum, ids in strata.items()}
    missing = n - sum(whole for whole, _ in shares.values())
    by_remainder = sorted(shares, key=lambda stratum: (-shares[stratum][1], stratum))
    extra = set(by_remainder[:missing])
    return {
        member
        for stratum, ids in strata.items()
        for member in sorted(ids)[: shares[stratum][0] + (stratum in extra)]
    }


# ---- what is asked for


@dataclass(frozen=True, slots=True)
class _Query:
    """Which rows of a file are wanted."""

    code: str | None = None
    years: tuple[str, ...] | None = None
    after: str = ""
    before: str = ""
    since: str = ""
    mini: bool = False
    ids: tuple[str, ...] | None = None

    def keep(self, table: pa.Table) -> pa.Table:
        """Returns the rows that are wanted, in their order."""
        wanted: list[pa.Array] = []
        if self.code:
            wanted.append(pc.equal(table["language"], self.code))
        if self.years is not None:
            wanted.append(pc.is_in(table["year"], pa.array(self.years, pa.string())))
        if self.after or self.before:
            month = pc.binary_join_element_wise(table["year"], table["month"], "-")
            if self.after:
                wanted.append(pc.greater(month, self.after))
            if self.before:
                wanted.append(pc.less(month, self.before))
        if self.since:
            bound = version_key(self.since)
            newer = [v for v in table["since"].unique().to_pylist() if version_key(v) > bound]
            wanted.append(pc.is_in(table["since"], pa.array(newer, pa.string())))
        if self.mini:
            wanted.append(table["mini"])
        if self.ids is not None:
            wanted.append(pc.is_in(table["id"], pa.array(self.ids, pa.string())))
        return table.filter(functools.reduce(pc.and_, wanted)) if wanted else table


def _query(
    language: str, *, years: Years, after: str | None, before: str | None, since: str | None
) -> _Query:
    query = _Query(
        code=_code(language),
        years=None if years is None else tuple(map(str, _years(years))),
        after=_month("after", after, "-12") if after else "",
        before=_month("before", before, "-01") if before else "",
        since=since or "",
    )
    if since:
        version_key(since)
    return query


def _code(language: str) -> str | None:
    """Returns the ISO code, or None for the names of splits."""
    return None if language in ("english", "native", "both") else find_language(language).code


def _years(years: Years) -> list[int]:
    if isinstance(years, int):
        return [years]
    if isinstance(years, tuple):
        if len(years) != 2 or not all(isinstance(year, int) for year in years):
            raise SettingsError(f"years as a pair are (first, last), not {years!r}")
        years = range(years[0], years[1] + 1)
    wanted = list(years or ())
    if not wanted or not all(isinstance(year, int) for year in wanted):
        raise SettingsError(
            f"years must be an int, a range or a pair (first, last) that is not empty, "
            f"not {years!r}"
        )
    return wanted


def _month(name: str, value: str, default: str) -> str:
    if not _MONTH.fullmatch(value):
        raise SettingsError(f"{name} must be a month like '2024-07', or a year, not {value!r}")
    return value if "-" in value else value + default


# ---- where the files are

Part = tuple[str, str]  # region slug, split


@dataclass(frozen=True, slots=True)
class _Release:
    """The files of a release: in a folder, or on the Hub at one commit and in its local cache."""

    name: str
    """For messages."""
    folder: Path
    version: str
    """That rows must be of; empty when any will do."""
    files: Mapping[Part, tuple[str, ...]]
    articles: Mapping[str, str]
    """Of upstream's layouts the texts stand in the rows."""
    upstream: bool
    repo: str = ""
    commit: str = ""
    offline: bool = False

    def paths(self, part: Part, *, text: bool = False) -> list[str]:
        """Returns the files that the rows of a region and split are read from."""
        paths = list(self.files[part])
        if self.upstream and part[1] == "native":
            paths += self.files[part[0], "english"]
        if text and part[0] in self.articles:
            paths.append(self.articles[part[0]])
        return paths

    def download(self, paths: Iterable[str]) -> None:
        """Makes files of the Hub local; without a request when they are that already."""
        missing = [path for path in paths if not (self.folder / path).exists()]
        if missing and self.repo:
            with _hub_errors(self.repo, self.name):
                _snapshot(self.repo, self.commit, missing, offline=self.offline)

    def open(self, path: str) -> Any:
        """Opens a file to read: the local one, else that of the Hub, piece by piece."""
        local = self.folder / path
        if local.exists() or not self.repo:
            return local.open("rb")
        with _hub_errors(self.repo, self.name):
            if self.offline:
                raise LocalEntryNotFoundError(path)
            return HfFileSystem().open(f"datasets/{self.repo}@{self.commit}/{path}")


class _Quiet(tqdm):
    """No bar for two small files."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"disable": True}))  # type: ignore[no-untyped-call]


def _find(source: str | Path, version: str | None) -> _Release:
    if isinstance(source, Path) or Path(source).is_dir():
        folder = Path(source)
        listed = [path.relative_to(folder).as_posix() for path in folder.glob("data/**/*")]
        listed += [path.relative_to(folder).as_posix() for path in folder.glob("articles/*")]
        release = _release(str(source), folder, listed, version)
        if version is not None and not _plain(version) and not release.upstream:
            raise VersionError(
                f"version is {version!r}; a folder holds one release, with a name like '2025.04'"
            )
        return release
    if not _REPO.fullmatch(source):
        raise SettingsError(f"source {source!r} is no folder here and no repo id like '{HUB}'")
    plain = _plain(version)
    revision = f"v{plain}" if plain else version
    name = f"{source}, {version or 'the newest release'}"
    with _hub_errors(source, name):
        offline = not _reachable(source, revision)
        try:
            folder = _snapshot(source, revision, offline=offline)
        except LocalEntryNotFoundError:
            if not plain:
                raise
            # What was loaded as the newest may be the release asked for: its rows will tell.
            folder = _snapshot(source, None, offline=offline)
        if offline:
            log.warning("%s: the Hub cannot be reached, so what was loaded before is used", name)
        tree = get_cached_repo_tree(source, repo_type="dataset", revision=folder.name)
    return replace(
        _release(name, folder, [file.path for file in tree], version),
        repo=source,
        commit=folder.name,
        offline=offline,
    )


def _reachable(repo: str, revision: str | None) -> bool:
    """Asks the Hub once: the calls that follow would wait and try again for half a minute."""
    try:
        HfApi().repo_info(repo, repo_type="dataset", revision=revision, timeout=10)
    except HfHubHTTPError as error:
        if error.response.status_code < 500:
            raise
        return False
    except _UNREACHABLE:
        return False
    return True


def _snapshot(
    repo: str,
    revision: str | None,
    paths: Sequence[str] = ("README.md", ".gitattributes"),
    *,
    offline: bool,
) -> Path:
    """Returns the local folder of a commit, with some of its files, and keeps its listing.

    The listing is what tells without network whether all that is asked for is there.
    """
    return Path(
        snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            allow_patterns=[re.sub(r"([*?\[])", r"[\1]", path) for path in paths],
            local_files_only=offline,
            tqdm_class=_Quiet if len(paths) < 3 else None,
        )
    )


def _release(name: str, folder: Path, listed: Iterable[str], version: str | None) -> _Release:
    """Tells the layout from the names of the files."""
    files: dict[Part, tuple[str, ...]] = {}
    old: dict[Part, tuple[str, ...]] = {}
    articles: dict[str, str] = {}
    for path in sorted(listed):
        if match := re.fullmatch(r"data/([^/]+)/(english|native)\.parquet", path):
            files[match[1], match[2]] = (path,)
        elif match := re.fullmatch(r"articles/([^/]+)\.parquet", path):
            articles[match[1]] = path
        elif match := re.fullmatch(r"data/(english|translated)/([^/]+)\.jsonl?", path):
            old[match[2], "english" if match[1] == "english" else "native"] = (path,)
        elif match := re.fullmatch(r"data/(\w+)-\d+-of-\d+(?:-\w+)?\.parquet", path):
            old[match[1], "english"] = (*old.get((match[1], "english"), ()), path)
    plain = _plain(version)
    if not files and not old:
        raise SettingsError(
            f"{name} is no release: there is no data/<region>/english.parquet in it"
        )
    if not files and plain:
        raise VersionError(
            f"{name} has the layout of 2025, whose rows bear no version: not {plain}"
        )
    return _Release(
        name,
        folder,
        plain if files else version or "legacy",
        files or old,
        articles,
        upstream=not files,
    )


def _plain(version: str | None) -> str:
    """Returns a release's name without the `v` of its tag; empty for anything else."""
    match = _VERSION.fullmatch(version or "")
    return match[1] if match else ""


@contextmanager
def _hub_errors(repo: str, name: str) -> Iterator[None]:
    try:
        yield
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise SettingsError(
            f"source {repo!r} is no folder here, and no dataset that the Hub shows you; "
            "a private one needs HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        try:
            tags = [tag.name for tag in HfApi().list_repo_refs(repo, repo_type="dataset").tags]
        except HfHubHTTPError:
            tags = []
        raise VersionError(
            f"there is no {name}; there are {', '.join(tags) or 'no releases'}"
        ) from error
    except HfHubHTTPError as error:
        raise FetchError(
            f"{name}: the Hub answers {error.response.status_code}",
            url=str(error.response.url),
            status=error.response.status_code,
        ) from error
    except _UNREACHABLE as error:
        raise VersionError(
            f"{name} was not loaded before, or not all of it, and the Hub cannot be reached: try "
            "again, or name a release on this machine by source=FOLDER (--source)"
        ) from error


# ---- rows


def _parts(release: _Release, region: Regions, language: str) -> list[Part]:
    """Returns the regions and splits to read.

    A release may hold regions that this version of the library does not know: their slugs are
    names too, and None stands for all that are there.
    """
    present = dict.fromkeys(slug for slug, _ in release.files)
    wanted: dict[str, None] = {}
    if region is None or region == "all":
        wanted = present
    else:
        for name in [region] if isinstance(region, str | Region) else region:
            slugs = [name] if name in present else [r.slug for r in find_regions([name])]
            found = [slug for slug in slugs if slug in present]
            if not found:
                raise SettingsError(
                    f"{release.name} has no questions on {name}; it has {', '.join(present)}"
                )
            wanted |= dict.fromkeys(found)
        if not wanted:
            find_regions([])
    code = _code(language)
    splits = {"both": ["english", "native"], "english": ["english"], "native": ["native"]}.get(
        language, ["english" if code == "en" else "native"]
    )
    parts = [
        (slug, split)
        for slug in sorted(wanted)
        for split in splits
        if (slug, split) in release.files
        and (not code or split == "english" or _language(slug) in (code, ""))
    ]
    if not parts:
        raise SettingsError(
            f"{release.name} has no questions on {', '.join(wanted)} in {language!r}; "
            "language='english' has some"
        )
    return parts


def _language(slug: str) -> str:
    """Returns the native language of a region; empty when the region is not known here."""
    return REGIONS[slug].language_code if slug in REGIONS else ""


def _tables(
    release: _Release, part: Part, columns: Sequence[str] = SCHEMA.names
) -> Iterator[pa.Table]:
    """Yields the rows of a region and split, and sees to it that they are of the right release."""
    if release.upstream:
        yield _old_table(release, part)
        return
    needed = list({*columns, "version"})
    for path in release.files[part]:
        try:
            with (
                _hub_errors(release.repo, release.name),
                release.open(path) as raw,
                pq.ParquetFile(raw) as file,
            ):
                for i in range(file.num_row_groups):
                    table = file.read_row_group(i, columns=needed)
                    versions = set(table["version"].unique().to_pylist())
                    if release.version and versions - {release.version}:
                        raise VersionError(
                            f"{release.name}: {path} holds {', '.join(sorted(versions))}, "
                            f"not {release.version}"
                        )
                    yield table.select(columns)
        except (pa.ArrowException, KeyError) as error:
            raise RecordError(f"{release.name}: {path} is no file of a release: {error}") from error


def _old_table(release: _Release, part: Part) -> pa.Table:
    """Returns rows of upstream's layouts with today's columns, and `text`."""
    slug, split = part

    def rows(split: str) -> list[OldRow] | None:
        if (slug, split) not in release.files:
            return None
        found: list[OldRow] = []
        for path in release.files[slug, split]:
            with release.open(path) as file:
                if path.endswith(".parquet"):
                    table = pq.read_table(file).to_pylist()
                    found += [from_row(OldRow, row, where=path) for row in table]
                else:
                    found += parse(file.read(), where=path)
        return found

    native = rows("native") if split == "native" else None
    pairs = questions(slug, rows("english") or [], native, version=release.version)
    return pa.Table.from_pylist(
        [to_row(row) | {"text": text} for row, text in pairs if row.split == split],
        SCHEMA.append(_TEXT),
    )


def _wanted(release: _Release, part: Part, query: _Query, text: bool) -> Iterator[pa.Table]:
    """Yields the rows that a query leaves, with their articles when texts are asked for."""
    articles: pa.Table | None = None
    for table in _tables(release, part):
        kept = query.keep(table)
        if not text:
            yield kept.select(SCHEMA.names)
        elif release.upstream:
            yield kept
        else:
            if articles is None:
                articles = _articles(release, part[0])
            at = pc.index_in(kept["article_id"], articles["article_id"])
            yield kept.append_column(_TEXT, articles["text"].take(at))


def _articles(release: _Release, slug: str) -> pa.Table:
    columns = pa.schema([pa.field("article_id", pa.string()), _TEXT])
    if slug not in release.articles:
        return columns.empty_table()
    with release.open(release.articles[slug]) as file:
        return pq.read_table(file, columns=columns.names)


def _draw(release: _Release, parts: Iterable[Part], query: _Query, n: int) -> tuple[str, ...]:
    """Returns the ids of `n` of the questions that a query leaves."""
    tables = (query.keep(table) for part in parts for table in _tables(release, part, _KEYS))
    return tuple(
        sorted(
            stratified(
                (
                    ((row["region"], row["year"]), row["id"])
                    for table in tables
                    for row in table.select(["region", "year", "id"]).to_pylist()
                ),
                n,
            )
        )
    )


def _stream(
    release: _Release, query: _Query, text: bool, parts: list[Part]
) -> Iterator[dict[str, Any]]:
    for part in parts:
        for table in _wanted(release, part, query, text):
            yield from table.to_pylist()
