"""Retrieve: what an event cites becomes its article, or a Drop says why there is none.

Of each cited document the live copy is tried, then the archived one that the citation names. When
nothing that the event cites can be used, the Wayback Machine is asked for the captures nearest to
the event's date. A copy is used when it is an article and about the event; of several references
the one that fits best wins.
"""

import contextlib
import io
import json
import logging
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from builder import extract
from builder.records import Article, Drop, Event, Reference
from builder.web import Fetched, Web, canonical_url
from tiebe.engine import Outcome, Overrun, Stage, Wait, Workers
from tiebe.errors import FetchError
from tiebe.records import record_id
from tiebe.regions import REGIONS

__all__ = ["retrieve", "shifts", "stage", "statistics", "urls"]

log = logging.getLogger(__name__)

MOST_REFERENCES = 10  # of one event; a page that cites more for a line cites a list
OFF_EVENT = "text_off_event"
# The relevance needed by a text that does not look like the document which its citation describes:
# .83 of the 2025 release's rows without a fault have it, of articles on another event .001.
STRANGE = 0.7
# Of the dated citations of 40 pages .983 were published no earlier and .992 no later than this.
EARLY_DAYS, LATE_DAYS = 60, 365
FEWEST_SHIFTED = 3
_WORD = re.compile(r"\w+")
PDF_SECONDS, PDF_PAGES, PDF_CHARACTERS = 20.0, 100, 200_000
TEXTS_KEPT = 256

_REPLAY = re.compile(
    r"https?://(?:web\.)?archive\.org/web/(?P<time>\d{4,14})(?:[a-z]{2}_)?/(?P<url>.+)", re.I
)

_ATTEMPT = re.compile(r"(?:live|archive|wayback) \S+ \S+")

Kind = Literal["live", "archive", "wayback"]


@dataclass(frozen=True, slots=True)
class Copy:
    """A place where a cited document may be had."""

    kind: Kind
    url: str
    """What is fetched."""
    archive_url: str | None
    """What is published besides the cited URL: an archived copy that people can look at."""


def raw_replay(url: str) -> str:
    """Returns the URL of a Wayback capture as it was stored, without toolbar and rewritten links.

    Any other URL is returned as it is.
    """
    found = _REPLAY.fullmatch(url)
    if found is None:
        return url
    return f"https://web.archive.org/web/{found['time']}id_/{found['url']}"


def copies(reference: Reference) -> list[Copy]:
    """Returns the copies of a document that its citation names, the live one first."""
    live, archived = reference.url, reference.archive_url
    if found := _REPLAY.fullmatch(live):
        live, archived = found["url"], archived or live
        if not re.match(r"https?://", live, re.IGNORECASE):
            live = f"http://{live}"
    named = [Copy("live", live, archived)]
    if archived:
        named.append(Copy("archive", raw_replay(archived), archived))
    return named


def lookup_url(url: str, day: str) -> str:
    """Returns the question to the Wayback Machine's index for the captures of `url` around a day.

    Args:
        url: The cited document.
        day: `YYYY-MM-DD` or `YYYY-MM`.
    """
    return (
        f"https://web.archive.org/cdx/search/cdx?url={quote(url, safe='')}&output=json"
        f"&fl=timestamp,original&filter=statuscode:200&sort=closest&closest={_day(day):%Y%m%d}&limit=10"
    )


def nearest(index: bytes, day: str) -> list[str]:
    """Returns raw replays of two captures: the nearest to a day, and the nearest beyond that day.

    Args:
        index: The reply of the Wayback Machine's index: a JSON list of rows, names first.
        day: `YYYY-MM-DD` or `YYYY-MM`.

    Raises:
        ValueError: The reply is no such list.
    """
    try:
        rows = json.loads(index)
        if rows == []:
            return []
        names, *captures = rows
        found = []
        for capture in captures:
            values = dict(zip(names, capture, strict=True))
            ahead = (_day(values["timestamp"]) - _day(day)).days
            found.append((abs(ahead), ahead < 0, _replay(**values)))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"expected rows of timestamp and original: {error}") from error
    found.sort()
    sides = {before: url for _, before, url in reversed(found)}
    return list(dict.fromkeys(url for _, before, url in found if sides[before] == url))


def _replay(timestamp: str, original: str) -> str:
    return f"https://web.archive.org/web/{timestamp}id_/{original}"


def _day(when: str) -> date:
    """The day of `YYYY-MM-DD`, `YYYY-MM` or a timestamp; where none is named, the first."""
    digits = when.replace("-", "")
    return date(int(digits[:4]), int(digits[4:6] or 1), int(digits[6:8] or 1))


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one copy.

    As a string it is kept with the article or the Drop: `live URL fetch:not_found`,
    `archive URL read:bot_wall`, `wayback URL used`.
    """

    reference: Reference
    copy: Copy
    reason: str | None
    """Why the copy cannot be used; None when it can."""
    fetched: Fetched | None = None
    text: extract.Text | None = None
    relevance: float = 0.0

    def __str__(self) -> str:
        step = "fetch" if self.fetched is None else "read"
        result = f"{step}:{self.reason}" if self.reason else "used"
        return f"{self.copy.kind} {'%20'.join(self.copy.url.split())} {result}"


class PdfError(Exception):
    """A PDF is damaged or locked."""


class Reader:
    """Makes texts of fetched documents; the last ones are kept, since a stage may start over.

    Args:
        workers: The processes in which strangers' markup is read, with limits.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._texts: dict[tuple[str, str, str], extract.Text] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has read nothing yet."""
        return Reader, (self._workers,)

    def __call__(self, fetched: Fetched, url: str, region: str) -> extract.Text:
        """Returns the text of a document.

        Args:
            fetched: The document.
            url: Where its publisher has it.
            region: The slug of the region whose language it may be in.

        Raises:
            Overrun: A PDF took too long or too much memory.
            PdfError: A PDF cannot be read.
        """
        key = fetched.sha256, url, region
        with self._lock:
            found = self._texts.get(key)
        if found is None:
            found = self._read(fetched, url, region)
            with self._lock:
                self._texts[key] = found
                while len(self._texts) > TEXTS_KEPT:
                    del self._texts[next(iter(self._texts))]
        return found

    def _read(self, fetched: Fetched, url: str, region: str) -> extract.Text:
        language = REGIONS[region].language
        if fetched.is_pdf:
            text = self._workers.call(pdf_text, fetched.body, seconds=PDF_SECONDS)
            reasons = extract.faults(text, url=url)
            return extract.Text(
                text, "", None, not reasons, reasons, "pypdf", lengths={"pypdf": len(text)}
            )
        html = fetched.text(language.encodings if language else ())
        code = language.code if language else None
        return extract.article(html, url, workers=self._workers, language=code)


def pdf_text(body: bytes) -> str:
    """Returns the text of a PDF's first hundred pages.

    Raises:
        PdfError: It is damaged, or locked by a password.
    """
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # strangers' PDFs are full of faults
    parts: list[str] = []
    try:
        for page in PdfReader(io.BytesIO(body)).pages[:PDF_PAGES]:
            parts.append(page.extract_text())
            if sum(map(len, parts)) > PDF_CHARACTERS:
                break
    except MemoryError:
        raise
    except Exception as error:  # pypdf says itself that damaged files raise anything
        raise PdfError(f"{type(error).__name__}: {error}") from error
    return "\n\n".join(parts)


def retrieve(event: Event, *, web: Web, read: Reader, cutoff: str) -> Iterator[Article | Drop]:
    """Yields the event's article, or a Drop with the reason of the copy that came nearest to one.

    Args:
        event: With its references.
        web: Where documents come from.
        read: Makes texts of them.
        cutoff: The last month, `YYYY-MM`, whose events are wanted.

    Raises:
        Wait: A host may not be asked now; begin again later.
    """
    if event.start is None:
        yield Drop("retrieve", event.id, "undated")
    elif event.start[:7] > cutoff:
        yield Drop("retrieve", event.id, "after_cutoff", event.start)
    elif not event.references:
        yield Drop("retrieve", event.id, "no_reference")
    else:
        attempts = list(_named(event, web, read))
        if not any(attempt.reason is None for attempt in attempts):
            attempts += _captured(event, web, read)
        best = max(attempts, key=_fit)
        if best.reason is None:
            yield _article(event, best, attempts)
        else:
            yield Drop("retrieve", event.id, best.reason, "; ".join(map(str, attempts)))


def _fit(attempt: Attempt) -> tuple[bool, bool, float]:
    """What makes one attempt better than another; the first of equals wins."""
    return attempt.reason is None, attempt.text is not None, attempt.relevance


def _named(event: Event, web: Web, read: Reader) -> Iterator[Attempt]:
    """Tries the copies that citations name: of each document until one can be used."""
    for reference in event.references[:MOST_REFERENCES]:
        for copy in copies(reference):
            if copy.kind == "live" or web.settings.archive == "fallback":
                attempt = _attempt(event, reference, copy, web, read)
                yield attempt
                if attempt.reason is None:
                    break


def _captured(event: Event, web: Web, read: Reader) -> Iterator[Attempt]:
    """Tries what the Wayback Machine has of the documents, until a copy can be used."""
    if web.settings.archive == "off":
        return
    assert event.start is not None
    for reference in event.references[:MOST_REFERENCES]:
        url = copies(reference)[0].url
        try:
            lookup = lookup_url(canonical_url(url), event.start)
            captures = nearest(web.get(lookup).body, event.start)
        except FetchError as error:
            yield Attempt(reference, Copy("wayback", url, None), error.reason)
            continue
        except ValueError:
            yield Attempt(reference, Copy("wayback", url, None), "bad_index")
            continue
        if not captures:
            yield Attempt(reference, Copy("wayback", url, None), "not_archived")
        for capture in captures:
            copy = Copy("wayback", capture, capture.replace("id_/", "/", 1))
            attempt = _attempt(event, reference, copy, web, read)
            yield attempt
            if attempt.reason is None:
                return


def _attempt(event: Event, reference: Reference, copy: Copy, web: Web, read: Reader) -> Attempt:
    """Fetches and reads one copy and holds it against the event."""
    try:
        fetched = web.get(copy.url)
    except FetchError as error:
        return Attempt(reference, copy, error.reason)
    url = fetched.final_url if copy.kind == "live" else reference.url
    try:
        text = read(fetched, url, event.region)
    except (Overrun, PdfError) as error:
        reason = error.reason if isinstance(error, Overrun) else "unreadable_pdf"
        return Attempt(reference, copy, reason, fetched)
    relevance = extract.relevance(_citation(event, text.title, text.date, text.text, reference.url))
    off = relevance < _needed(event, reference, text)
    fault = next(iter(text.reasons), OFF_EVENT if off else None)
    return Attempt(reference, copy, fault, fetched, text, relevance)


def _citation(
    event: Event, title: str, published: str | None, text: str, url: str
) -> extract.Citation:
    """The event and an article on it, as `extract` compares them.

    A date that stands in the URL is no evidence: whatever a site now shows there bears it.
    """
    if published and _url_has(url, published):
        published = None
    article = "\n".join(filter(None, (title, published, text)))
    return extract.Citation(event.text, article, event.start, event.end)


def _url_has(url: str, day: str) -> bool:
    year, month, *rest = (int(part) for part in day.split("-"))
    parts = r"\D?0?".join(map(str, (month, *rest)))
    return re.search(rf"{year}\D?0?{parts}(?!\d)", url) is not None


def _needed(event: Event, reference: Reference, text: extract.Text) -> float:
    """The relevance that a text must have, by what the citation lets expect of it.

    Least where it bears the title that is cited; most where it has no word of that title, or was
    published at a time when hardly any source of an event is.
    """
    words = {w for w in _WORD.findall((reference.title or "").casefold()) if len(w) > 2}
    start = f"{text.title}\n{text.text[:1500]}".casefold()
    found = sum(word in start for word in words)
    if len(words) >= 3 and found >= 0.6 * len(words):
        return extract.OFF_EVENT
    strange = len(words) >= 3 and not found
    if text.date and event.start:
        early = (_day(event.start) - _day(text.date)).days
        late = (_day(text.date) - _day(event.end or event.start)).days
        strange = strange or early > EARLY_DAYS or late > LATE_DAYS
    return STRANGE if strange else extract.ABOUT_EVENT


def _article(event: Event, best: Attempt, attempts: Iterable[Attempt]) -> Article:
    assert best.fetched is not None and best.text is not None
    text, reference = best.text, best.reference
    how = {
        "copy": best.copy.kind,
        "fetched_url": best.fetched.final_url,
        "sha256": best.fetched.sha256,
        "extractor": text.extractor,
        "lengths": dict(text.lengths),
        "agreement": None if text.agreement is None else round(text.agreement, 4),
        "relevance": round(best.relevance, 4),
        "tried": [str(attempt) for attempt in attempts],
    }
    return Article(
        event=event,
        url=reference.url,
        archive_url=best.copy.archive_url,
        title=text.title or reference.title or "",
        published=text.date or reference.published,
        text=text.text,
        how=how,
    )


def stage(web: Web, workers: Workers, cutoff: str) -> Stage:
    """Returns the stage: Event to Article."""
    read = Reader(workers)

    def run(event: Event) -> Iterable[Article | Drop]:
        return retrieve(event, web=web, read=read, cutoff=cutoff)

    def owner(event: Event) -> str | None:
        for reference in event.references[:1]:
            with contextlib.suppress(FetchError):
                return web.settings.owner(canonical_url(copies(reference)[0].url))
        return None

    settings = web.settings
    params = {"archive": settings.archive, "refresh": settings.refresh, "cutoff": cutoff}
    return Stage("retrieve", 1, run, (Article,), params, owner=owner)


def shifts(
    events: Iterable[Event], outcome: Outcome, web: Web, workers: Workers
) -> dict[str, extract.Shift]:
    """Warns of pages whose events fit their neighbours' articles better than their own.

    That is how references look that were bound to the wrong lines. The articles in question were
    dropped as `text_off_event`; they are read again from the cache.

    Args:
        events: The stage's inputs, those of a page in its order.
        outcome: The stage's.
        web: Where the documents came from.
        workers: The processes that read them.

    Returns:
        The alarms by page title.
    """
    dropped = {drop.record_id: drop for drop in outcome.drops()}
    pages: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        drop = dropped.get(event.id)
        if drop is None or drop.reason == OFF_EVENT:
            pages[event.page_id].append(event)
    suspects = [
        members
        for members in pages.values()
        if sum(event.id in dropped for event in members)
        >= max(FEWEST_SHIFTED, extract.SHIFTED * len(members))
    ]
    if not suspects:
        return {}
    read = Reader(workers)
    articles = outcome.index(Article)
    alarms = {}
    for members in suspects:
        citations = []
        for event in members:
            ids = (record_id(event.id, reference.url) for reference in event.references)
            if article := next((articles[i] for i in ids if i in articles), None):
                texts = article.title, article.published, article.text, article.url
            elif seen := event.id in dropped and _seen(dropped[event.id], event, web, read):
                texts = seen.title, seen.date, seen.text, event.references[0].url
            else:
                continue
            citations.append(_citation(event, *texts))
        if alarm := extract.shift(citations):
            alarms[members[0].page_title] = alarm
            log.warning(
                "retrieve: %s: %d of %d events fit the article of the %s event better than their "
                "own: look whether its references are bound to the right lines",
                members[0].page_title,
                alarm.events,
                alarm.of,
                "next" if alarm.offset == 1 else "previous",
            )
    return alarms


def _seen(drop: Drop, event: Event, web: Web, read: Reader) -> extract.Text | None:
    """The text that was found to be off the event, while the cache has it."""
    for attempt in drop.detail.split("; "):
        _, url, result = attempt.split(" ")
        if result == f"read:{OFF_EVENT}":
            try:
                return read(web.get(url), url, event.region)
            except (FetchError, Wait, Overrun, PdfError) as error:
                log.info("%s cannot be read again: %s", url, error)
    return None


def urls(events: Iterable[Event], *, archive: bool) -> Iterator[str]:
    """Yields what retrieving these events may ask for, for `Web.hours`.

    Args:
        events: Those that are wanted.
        archive: Whether the archived copies that citations name are counted; not all are needed.
    """
    for event in events:
        for reference in event.references[:MOST_REFERENCES]:
            yield from (c.url for c in copies(reference) if archive or c.kind == "live")


def statistics(
    events: Iterable[Event], articles: Iterable[Article], drops: Iterable[Drop]
) -> list[dict[str, Any]]:
    """Returns what became of the events per region, and of the copies per host.

    Returns:
        Rows `by` (region, host), `name`, and counts: `events` (of a region), `tried`, `fetched` and
        `extracted` copies, `kept` events, of these `live`, `archive` and `wayback`, and `dropped`
        by reason: a region's events, a host's copies. Kept / events is the share with an article.
    """
    regions = {event.id: event.region for event in events}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    dropped: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    tried: list[tuple[str, str]] = []
    for region in regions.values():
        counts["region", region]["events"] += 1
    for article in articles:
        region = article.event.region
        host = urlsplit(article.how.get("fetched_url", article.url)).hostname or ""
        for place in (("region", region), ("host", host)):
            counts[place].update(("kept", article.how.get("copy", "live")))
        tried += [(region, attempt) for attempt in article.how.get("tried", ())]
    for drop in drops:
        region = regions[drop.record_id]
        dropped["region", region][drop.reason] += 1
        tried += [(region, a) for a in drop.detail.split("; ") if _ATTEMPT.fullmatch(a)]
    for region, attempt in tried:
        _, url, result = attempt.split(" ")
        step, _, reason = result.partition(":")
        host = urlsplit(url).hostname or ""
        reached = ["tried"] + ["fetched"] * (step != "fetch")
        reached += ["extracted"] * (not reason or reason == OFF_EVENT)
        for place in (("region", region), ("host", host)):
            counts[place].update(reached)
        if reason:
            dropped["host", host][reason] += 1
    names = ("tried", "fetched", "extracted", "kept", "live", "archive", "wayback")
    return [
        {"by": by, "name": name}
        | ({"events": counts[by, name]["events"]} if by == "region" else {})
        | {n: counts[by, name][n] for n in names}
        | {"dropped": dict(dropped[by, name].most_common())}
        for by, name in sorted(counts)
    ]
