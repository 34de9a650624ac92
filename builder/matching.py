"""Matching: which events of a page are those of an earlier release.

Pages are edited all the time: a line is reworded, a date corrected, a reference added. Its question
stays, so the event has to be known again, before anything is fetched or paid.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rapidfuzz import fuzz

from builder.records import Event
from tiebe.records import Question

__all__ = ["Match", "match_events", "similarity"]

SIMILAR = 0.9
"""So similar are two texts of one event, where no reference tells."""
SHARED = 0.5
"""So much at least do the words of two texts have in common that share a reference: one article
may be cited for several events."""

_ARCHIVE = re.compile(r"https?://(?:web\.)?archive\.\w+/(?:web/)?(?:\d{4,14}\w*/)?(?=https?:)")
_SCHEME = re.compile(r"https?://(?:www\.|m\.)?")


@dataclass(frozen=True, slots=True)
class Match:
    """An event of now and that of the base."""

    event_id: str
    base_event_id: str
    how: Literal["same", "reference", "text"]
    """`same`: the ids are equal, so text and date are; else what told."""
    similarity: float
    """Of the texts, 0 to 1."""


def match_events(base: Iterable[Question], events: Iterable[Event]) -> list[Match]:
    """Returns the events that are in the base, one of now for one of then at most.

    Only events of one region are compared, and only those of the same or the next month. Equal ids
    go first; then, the most similar first, texts that share a reference or are `SIMILAR`.

    Args:
        base: Rows of the earlier release; several of one event count as one.
        events: Of the pages as they are now.
    """
    old = {row.event_id: row for row in base}
    new = {event.id: event for event in events}
    matches = [Match(member, member, "same", 1.0) for member in new.keys() & old.keys()]
    near = defaultdict(list)
    for row in old.values():
        if row.event_id not in new:
            for month in _months(row.date):
                near[row.region, month].append(row)
    found: dict[tuple[str, str], Match] = {}
    for event in new.values():
        if event.id in old or event.start is None:
            continue
        urls = {_url(url) for r in event.references for url in (r.url, r.archive_url) if url}
        for row in near[event.region, _number(event.start)]:
            alike = similarity(event.text, row.event_desc)
            how: Literal["reference", "text"] | None = "text" if alike >= SIMILAR else None
            if urls & {_url(url) for url in (row.source_url, row.archive_url) if url}:
                words = fuzz.token_set_ratio(_plain(event.text), _plain(row.event_desc)) / 100
                how = "reference" if words >= SHARED else how
            if how:
                found[event.id, row.event_id] = Match(event.id, row.event_id, how, alike)
    taken: set[str] = set()
    for match in sorted(found.values(), key=_likeliest):
        if not {match.event_id, match.base_event_id} & taken:
            taken |= {match.event_id, match.base_event_id}
            matches.append(match)
    return sorted(matches, key=lambda match: match.event_id)


def similarity(one: str, other: str) -> float:
    """Returns how alike two texts are, 0 to 1, whatever their case, spaces and punctuation."""
    return fuzz.ratio(_plain(one), _plain(other)) / 100


def _likeliest(match: Match) -> tuple[float, bool, str, str]:
    return -match.similarity, match.how != "reference", match.event_id, match.base_event_id


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _number(date: str) -> int:
    """Returns the number of a date's month, counted from year 0."""
    return int(date[:4]) * 12 + int(date[5:7])


def _months(date: str) -> Iterator[int]:
    """Yields the months in which an event may stand after a correction of its date."""
    number = _number(date)
    yield from (number - 1, number, number + 1)


def _url(url: str) -> str:
    """Returns what tells a document: its URL without archive, scheme, www, fragment and slash."""
    live = _ARCHIVE.sub("", url)
    return _SCHEME.sub("", live).partition("#")[0].rstrip("/").casefold()
