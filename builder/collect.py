"""Stage: a region and a year to its retrospective page and the events on it.

A page comes from a MediaWiki API, pinned to a revision that has stood for some days, or from a
folder. It is parsed in a worker process, because strangers write it.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from builder.records import Event, Page, RegionYear
from builder.wikitext import Parsed, parse
from tiebe.engine import Overrun, Stage, Wait, Workers
from tiebe.errors import FetchError, SettingsError
from tiebe.records import Drop
from tiebe.regions import REGIONS, Region

__all__ = [
    "Folder",
    "MediaWiki",
    "PagesSettings",
    "Statistics",
    "early_ends",
    "open_source",
    "read",
    "settled",
    "stage",
    "statistics",
]

log = logging.getLogger(__name__)

PARSE_SECONDS = 30.0
"""A page of the usual size takes a tenth of a second, the largest two."""
MAX_BYTES = 2 << 20
"""MediaWiki saves no larger page."""
MAX_DEPTH = 100
"""MediaWiki expands no deeper nested template."""
BATCH = 50
"""Titles or revisions in one request: what an API allows anybody."""
MAX_LAG = 5
"""Seconds that the wiki's databases may lag behind when it is asked."""
BUSY = 80
"""Events on a page from which on each of its months should have some in both halves."""


@dataclass(frozen=True, slots=True)
class PagesSettings:
    """The `[pages]` table of run.toml: which retrospective pages, and from where.

    Raises:
        SettingsError: A value cannot be used.
    """

    source: str = "https://en.wikipedia.org/w/api.php"
    """The URL of a MediaWiki API, or `folder:PATH`."""
    regions: str | tuple[str, ...] = "all"
    years: tuple[int, int] = (2015, 2025)
    """First and last."""
    as_of: str = ""
    """The ISO date or time at which a revision is to be the current one; empty for now."""
    settled_days: int = 7
    """Days that it must have stood."""
    contact: str = ""
    """The operator's address, which Wikimedia asks for; needed for an API."""

    def __post_init__(self) -> None:
        if not self.source.startswith(("http://", "https://", "folder:")):
            raise SettingsError(
                f"pages.source = {self.source!r}: expected a MediaWiki API's URL or 'folder:PATH'"
            )
        if not 1000 <= self.years[0] <= self.years[1] <= 9999:
            raise SettingsError(
                f"pages.years = {[*self.years]}: expected [first, last], the earlier first"
            )
        if self.settled_days < 0:
            raise SettingsError(f"pages.settled_days = {self.settled_days}: expected 0 or more")
        if not self.contact.isprintable() or not self.contact.isascii():
            raise SettingsError(f"pages.contact = {self.contact!r}: expected printable ASCII")
        if self.as_of:
            _moment(self.as_of)


class Source(Protocol):
    """Where pages come from."""

    @property
    def params(self) -> Mapping[str, Any]:
        """What decides which text a page has; part of the stage's key."""

    @property
    def host(self) -> str | None:
        """The host that is asked, or None."""

    def page(self, wanted: RegionYear) -> Page | Drop:
        """Returns a page, or why there is none."""


def open_source(settings: PagesSettings, wanted: Iterable[RegionYear] = ()) -> "Folder | MediaWiki":
    """Opens the source of pages that settings name.

    Args:
        settings: The `[pages]` table.
        wanted: What will be asked for, so that an API is asked for many titles at a time.

    Raises:
        SettingsError: There is no such folder, or an API is to be asked without a contact.
    """
    if settings.source.startswith("folder:"):
        return Folder(Path(settings.source.removeprefix("folder:")))
    return MediaWiki(settings, wanted)


def stage(source: Source, workers: Workers) -> Stage:
    """Returns the stage: a RegionYear to its Page and its Events, or one Drop."""

    def run(wanted: RegionYear) -> Iterable[Page | Event | Drop]:
        page = source.page(wanted)
        if isinstance(page, Drop):
            return [page]
        parsed = read(page, workers)
        if isinstance(parsed, Drop):
            return [parsed]
        _report(page, parsed)
        return [page, *_unique(parsed.events)]

    return Stage(
        "collect",
        version=1,
        run=run,
        makes=(Page, Event),
        params=source.params,
        owner=lambda wanted: source.host,
    )


def read(page: Page, workers: Workers, *, seconds: float = PARSE_SECONDS) -> Parsed | Drop:
    """Parses a page in a worker process.

    Returns:
        What it says, or a Drop: `too_large`, `too_deep`, `too_slow`, `too_big` (in memory) or
        `crashed`.
    """
    size = len(page.wikitext.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return Drop("collect", page.id, "too_large", f"{page.title}: {size:,} bytes")
    depth = _depth(page.wikitext)
    if depth > MAX_DEPTH:
        return Drop("collect", page.id, "too_deep", f"{page.title}: {depth:,} nested templates")
    try:
        return workers.call(parse, page, seconds=seconds)
    except Overrun as error:
        return Drop("collect", page.id, error.reason, f"{page.title}: {error}")


def _depth(wikitext: str) -> int:
    """Returns how deep templates are nested, those that are never closed included."""
    deepest = depth = 0
    for brace in re.finditer(r"\{\{|\}\}", wikitext):
        depth = depth + 1 if brace.group() == "{{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _unique(events: Iterable[Event]) -> list[Event]:
    """Returns events, those that say the same of the same day as one with all references."""
    found: dict[str, Event] = {}
    for event in events:
        known = found.setdefault(event.id, event)
        if known is not event:
            more = [r for r in event.references if r not in known.references]
            found[event.id] = replace(known, references=(*known.references, *more))
    return list(found.values())


def _report(page: Page, parsed: Parsed) -> None:
    """Logs what a page seems to have lost, and in detail what was skipped."""
    for month in early_ends(parsed.events, until=page.retrieved):
        log.warning("%s: no event after %s-15: is a list missing?", page.title, month)
    if parsed.unknown_templates:
        names = ", ".join(f"{name} {n}" for name, n in parsed.unknown_templates.items())
        log.warning("%s: templates whose text is lost: %s", page.title, names)
    for skipped in parsed.skipped:
        level = logging.WARNING if skipped.reason == "transclusion" else logging.DEBUG
        log.log(level, "%s: skipped (%s): %s", page.title, skipped.reason, skipped.text[:120])
    for warning in parsed.warnings:
        log.debug("%s: %s", page.title, warning)


def page_title(wanted: RegionYear) -> str:
    """Returns the title of a retrospective page; a slug that is no region's is a country's name."""
    region = REGIONS.get(wanted.region) or Region(wanted.region, wanted.region.replace("_", " "))
    return region.page_title(wanted.year)


# --- Folder --------------------------------------------------------------------------------------


class Folder:
    """Pages in files `<year>_in_<slug>*.wiki`; a name counts up to its first dot."""

    host = None

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise SettingsError(f"pages.source: there is no folder {path}")
        self._files: dict[str, Path] = {}
        digest = hashlib.sha256()
        for file in sorted(path.glob("*.wiki")):
            name = file.name.split(".", 1)[0]
            if name in self._files:
                log.warning(
                    "%s is not read: %s is the same page", file.name, self._files[name].name
                )
                continue
            self._files[name] = file
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
        self.params = {"source": "folder", "sha256": digest.hexdigest()}

    def page(self, wanted: RegionYear) -> Page | Drop:
        """Returns the page in a folder's file."""
        title = page_title(wanted)
        file = self._files.get(f"{wanted.year}_in_{wanted.region}")
        if file is None:
            return Drop("collect", wanted.id, "missing", title)
        wikitext = file.read_text("utf-8", errors="replace")
        return Page(wanted.region, wanted.year, title, None, None, wikitext)


# --- MediaWiki -----------------------------------------------------------------------------------


class Revision(NamedTuple):
    """A revision of a page."""

    id: int
    timestamp: datetime


def settled(history: Sequence[Revision], until: datetime, days: int) -> Revision | None:
    """Returns the newest revision that stood for some days at a time, or the next best.

    What was reverted soon, as vandalism is, did not stand. Only what was current within four times
    `days` before `until` counts, lest a page that is edited daily be taken from last year; when
    nothing there stood so long, that which stood longest.

    Args:
        history: Newest first, none after `until`.
        until: Up to when the newest one has stood.
        days: How long it must have stood.

    Returns:
        None when the page itself is younger than `days`.
    """
    if not history or history[-1].timestamp > until - timedelta(days=days):
        return None
    ends = [until, *(revision.timestamp for revision in history)]
    candidates = [
        (end - revision.timestamp, revision)
        for end, revision in zip(ends, history, strict=False)
        if end >= until - timedelta(days=4 * days)
    ]
    for stood, revision in candidates:
        if stood >= timedelta(days=days):
            return revision
    return max(candidates, key=lambda candidate: candidate[0])[1]


class MediaWiki:
    """Pages of a wiki, by its API and with its etiquette.

    One request at a time, for many titles where that is possible, compressed, with `maxlag` and the
    operator's contact; a wiki that wants to be left alone is left alone as long as it says.

    Raises:
        SettingsError: There is no contact.
    """

    def __init__(self, settings: PagesSettings, wanted: Iterable[RegionYear] = ()) -> None:
        import requests

        if not settings.contact.strip():
            raise SettingsError(
                f"pages.contact is empty, and {settings.source} asks who runs this: "
                'set contact = "you@example.org" under [pages] (survey: --contact)'
            )
        self._settings = settings
        self.host = urlsplit(settings.source).hostname
        self.params = {
            "source": settings.source,
            "as_of": settings.as_of,
            "settled_days": settings.settled_days,
        }
        self._url = settings.source
        self._days = settings.settled_days
        self._as_of = _moment(settings.as_of) if settings.as_of else None
        self._expected = dict.fromkeys(wanted)
        self._loaded: dict[RegionYear, Page | Drop] = {}
        self._lock = threading.Lock()
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"tiebe/{version('tiebe')} ({settings.contact})"
        self._session.headers["Accept-Encoding"] = "gzip"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has a connection of its own."""
        return MediaWiki, (self._settings, tuple(self._expected))

    def page(self, wanted: RegionYear) -> Page | Drop:
        """Returns a page at its settled revision.

        Raises:
            Wait: The wiki wants to be left alone, or cannot be reached now.
            FetchError: It refuses the request.
        """
        with self._lock:
            if wanted not in self._loaded:
                others = [other for other in self._expected if other != wanted]
                self._load([wanted, *others[: BATCH - 1]])
            return self._loaded.pop(wanted)

    def _load(self, batch: Sequence[RegionYear]) -> None:
        """Loads pages: their newest revisions, the history where that is not settled, the text."""
        titles = {wanted: page_title(wanted) for wanted in batch}
        now = datetime.now(UTC)
        until = min(self._as_of or now, now)
        newest = self._newest(titles.values())
        chosen: dict[RegionYear, int] = {}
        loaded: dict[RegionYear, Page | Drop] = {}
        for wanted, title in titles.items():
            drop = Drop("collect", wanted.id, "missing", title)
            final, revision = newest.get(title, (title, None))
            if revision is None:
                loaded[wanted] = drop
            elif final != title and not _same_year(final, wanted.year):
                loaded[wanted] = replace(drop, reason="redirected", detail=f"{title} → {final}")
            elif revision.timestamp <= until - timedelta(days=self._days):
                chosen[wanted] = revision.id
            elif stood := settled(self._history(final, until), until, self._days):
                chosen[wanted] = stood.id
            else:
                loaded[wanted] = replace(drop, reason="unsettled")
        texts = self._texts(chosen.values())
        for wanted, number in chosen.items():
            if number in texts:
                title, retrieved, text = texts[number]
                page = Page(wanted.region, wanted.year, title, number, retrieved, text)
                loaded[wanted] = page
            else:
                reason = f"revision {number} of {titles[wanted]} has no text"
                loaded[wanted] = Drop("collect", wanted.id, "hidden", reason)
        self._loaded |= loaded
        for wanted in batch:
            self._expected.pop(wanted, None)

    def _newest(self, titles: Iterable[str]) -> dict[str, tuple[str, Revision | None]]:
        """Returns, by the title asked for, the title in the end and its newest revision."""
        asked = list(dict.fromkeys(titles))
        moved: dict[str, str] = {}
        found: dict[str, Revision | None] = {}
        for query in self._query(titles="|".join(asked), rvprop="ids|timestamp", redirects="1"):
            for step in [*query.get("normalized", ()), *query.get("redirects", ())]:
                moved[step["from"]] = step["to"]
            for page in query.get("pages", ()):
                for revision in page.get("revisions", ()):
                    found[page["title"]] = _revision(revision)
        result = {}
        for title in asked:
            final, steps = title, 0
            while final in moved and steps < 5:
                final, steps = moved[final], steps + 1
            result[title] = (final, found.get(final))
        return result

    def _history(self, title: str, until: datetime) -> list[Revision]:
        """Returns the revisions of a page up to a moment, newest first, as far as they matter."""
        revisions: list[Revision] = []
        enough = until - timedelta(days=4 * self._days)
        start = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        for query in self._query(
            titles=title, rvprop="ids|timestamp", rvstart=start, rvdir="older", rvlimit="max"
        ):
            for page in query.get("pages", ()):
                revisions += map(_revision, page.get("revisions", ()))
            if revisions and revisions[-1].timestamp < enough:
                break
        return revisions

    def _texts(self, numbers: Iterable[int]) -> dict[int, tuple[str, str, str]]:
        """Returns title, time of retrieval and wikitext by revision."""
        ids = "|".join(map(str, sorted(set(numbers))))
        texts: dict[int, tuple[str, str, str]] = {}
        if not ids:
            return texts
        for query in self._query(revids=ids, rvprop="ids|content", rvslots="main"):
            retrieved = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for page in query.get("pages", ()):
                for revision in page.get("revisions", ()):
                    content = revision.get("slots", {}).get("main", {}).get("content")
                    if content is not None:
                        texts[revision["revid"]] = (page["title"], retrieved, content)
        return texts

    def _query(self, **params: str) -> Iterator[Mapping[str, Any]]:
        """Yields the `query` of each part of an answer."""
        more: dict[str, str] = {}
        while True:
            answer = self._get({"prop": "revisions", **params, **more})
            yield answer.get("query", {})
            if not (more := answer.get("continue", {})):
                return

    def _get(self, params: Mapping[str, str]) -> Mapping[str, Any]:
        import requests

        fixed = {"action": "query", "format": "json", "formatversion": "2"}
        sent = {**fixed, "maxlag": str(MAX_LAG), **params}
        try:
            response = self._session.get(self._url, params=sent, timeout=(10, 60))
        except requests.RequestException as error:
            cause = FetchError(f"{self._url} cannot be reached: {error}", url=self._url)
            raise Wait(5, owner=self.host, cause=cause) from error
        status = response.status_code
        if status == 429 or status >= 500:
            raise self._wait(response, f"{self._url} answers {status}")
        if status != 200:
            said = " ".join(response.text.split())[:200]
            raise FetchError(f"{self._url} answers {status}: {said}", url=self._url, status=status)
        try:
            answer: Mapping[str, Any] = response.json()
        except requests.JSONDecodeError as error:
            raise FetchError(
                f"{self._url} answers no JSON: is it the address of an api.php?", url=self._url
            ) from error
        if problem := answer.get("error"):
            message = f"{self._url}: {problem.get('code')}: {problem.get('info')}"
            if problem.get("code") in ("maxlag", "ratelimited", "readonly"):
                raise self._wait(response, message)
            raise FetchError(message, url=self._url, status=status)
        return answer

    def _wait(self, response: Any, message: str) -> Wait:
        """Returns what makes the engine leave the wiki alone as long as it asks."""
        from builder.transport import retry_after

        cause = FetchError(message, url=self._url, status=response.status_code)
        asked = retry_after(response.headers.get("Retry-After", ""))
        seconds = float(MAX_LAG) if asked is None else min(asked, 3600.0)
        return Wait(seconds, owner=self.host, cause=cause)


def _same_year(title: str, year: int) -> bool:
    """Whether a redirect leads to a page of the year that is not the world's."""
    return str(year) in title and title != str(year)


def _revision(row: Mapping[str, Any]) -> Revision:
    return Revision(row["revid"], _moment(row["timestamp"]))


def _moment(text: str) -> datetime:
    """Returns a time in UTC; a date alone is its end."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"pages.as_of = {text!r}: expected a date such as '2025-04-30'"
        ) from error
    if len(text) <= 10:
        moment += timedelta(days=1) - timedelta(seconds=1)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# --- Statistics ----------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """The first columns of the paper's Table 5, by year where asked."""

    region: str
    year: int | None
    events: int
    references: int


def statistics(events: Iterable[Event], *, by_year: bool = True) -> list[Statistics]:
    """Counts events and their references per region and year, or per region over all years."""
    counts: dict[tuple[str, int | None], list[int]] = {}
    for event in events:
        numbers = counts.setdefault((event.region, event.year if by_year else None), [0, 0])
        numbers[0] += 1
        numbers[1] += len(event.references)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or 0))
    return [Statistics(*key, *numbers) for key, numbers in ordered]


def early_ends(events: Sequence[Event], *, until: str | None = None) -> list[str]:
    """Returns the months of a busy page that have no event after the 15th, `YYYY-MM`.

    That is how whole lists went missing. A page with few events says nothing, nor do months after
    its last event, nor the month in which it was retrieved.

    Args:
        events: Of one page.
        until: When it was retrieved, ISO 8601; None when that is not known.
    """
    if len(events) < BUSY:
        return []
    year = f"{events[0].year:04}"
    starts = [event.start for event in events if event.start and event.start[:4] == year]
    late = {start[:7] for start in starts if start[8:] > "15"}
    last = max((start[:7] for start in starts), default="")
    months = (f"{year}-{month:02}" for month in range(1, 13))
    return [m for m in months if m <= last and m not in late and (until is None or m < until[:7])]
