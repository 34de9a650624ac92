"""The builder's records, from a retrospective page to a candidate question."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tiebe.records import Drop, event_id, record_id

__all__ = [
    "Article",
    "Candidate",
    "Decision",
    "Drop",
    "Event",
    "Page",
    "Precision",
    "Reference",
    "RegionYear",
]

Precision = Literal["day", "month", "none"]


@dataclass(frozen=True, slots=True)
class RegionYear:
    """A retrospective page that is wanted: what `collect` starts from."""

    region: str
    """A slug of `tiebe.regions.REGIONS`."""
    year: int

    @property
    def id(self) -> str:
        """From the region and the year, as the page's."""
        return record_id(self.region, self.year)


@dataclass(frozen=True, slots=True)
class Page:
    """A retrospective page at one revision."""

    region: str
    year: int
    title: str
    revision: int | None
    retrieved: str | None
    """Time of the revision's retrieval, ISO 8601 UTC; None for a page read from a folder."""
    wikitext: str

    @property
    def id(self) -> str:
        """From the region and the year; a later revision is the same page."""
        return record_id(self.region, self.year)


@dataclass(frozen=True, slots=True)
class Reference:
    """A source that a page cites for an event."""

    url: str
    archive_url: str | None = None
    title: str | None = None
    publisher: str | None = None
    published: str | None = None
    """`YYYY-MM-DD` or a prefix of it."""


@dataclass(frozen=True, slots=True)
class Event:
    """A dated line of a retrospective page."""

    region: str
    year: int
    """The page's year."""
    page_id: str
    page_title: str
    page_revision: int | None
    start: str | None
    """`YYYY-MM-DD` or `YYYY-MM`; None for an undated line."""
    end: str | None
    precision: Precision
    text: str
    references: tuple[Reference, ...] = ()

    @property
    def id(self) -> str:
        """From region, start and the casefolded text without punctuation."""
        return event_id(self.region, self.start, self.text)


@dataclass(frozen=True, slots=True)
class Article:
    """A cited document that was fetched, read and found to be about the event."""

    event: Event
    url: str
    """The URL as cited, whichever copy was read."""
    archive_url: str | None
    title: str
    published: str | None
    text: str
    how: Mapping[str, Any] = field(default_factory=dict)
    """How it was had: `copy` (live, archive, wayback), `fetched_url`, `sha256`, `extractor`,
    lengths, agreement, relevance."""

    @property
    def id(self) -> str:
        """From the event and the cited URL."""
        return record_id(self.event.id, self.url)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question and its answer as a model wrote them from an article."""

    event: Event
    article_id: str
    source_url: str
    archive_url: str | None
    source_title: str
    question: str
    answer: str
    writer: str
    """The model as served."""
    prompt: str
    """`name@version`."""
    supported: bool | None = None
    """Whether a second model finds the answer in the article; None when it was not asked."""

    @property
    def id(self) -> str:
        """From the article and the question."""
        return record_id(self.article_id, self.question)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a maintainer decided on a question: a line of decisions.jsonl.

    Of several lines on the same question, or on the same of its languages, the last counts.
    """

    id: str
    """The question's."""
    decision: Literal["keep", "fix", "withdraw"]
    reason: str = ""
    language: str = ""
    """Of the row that is fixed, an ISO 639 code; empty for the question in all its languages."""
    question: str = ""
    """The new one, of a fix."""
    answer: str = ""
    """The new one, of a fix."""
    at: str = ""
    """When, ISO 8601 UTC."""
    event_id: str = ""
    """The question's; on the event of a withdrawn question none is asked again."""
