"""Reads the events of a retrospective page, with their dates and references, from its wikitext.

Pure: a `Page` in, a `Parsed` out. Three steps:

1. Comments go, and references are taken out of the page (`builder.citations`).
2. The sections that may hold events are rendered to lines of plain text (`builder.rendering`).
3. Lines become bullets, and bullets events. What dates a bullet is its prefix (`builder.dates`),
   else its parent, else its heading; never a sibling, and never a date inside a sentence.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from builder.citations import Sources, marks
from builder.dates import DASHES, Context, Dates, read_prefix, resolve
from builder.records import Event, Page
from builder.rendering import INVISIBLE, LINK, Renderer, clean

__all__ = ["Parsed", "Reason", "Skipped", "parse"]

Reason = Literal[
    "undated", "ongoing", "scheduled", "table", "transclusion", "prose", "introduction", "empty"
]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a page that gives no event, and why."""

    reason: Reason
    text: str
    event: Event | None = None
    """The line as an event without a date, when `reason` is `undated`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a page says."""

    events: tuple[Event, ...] = ()
    """In page order, each with a start."""
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown_templates: Mapping[str, int] = field(default_factory=dict)
    """Templates in sections of events that no rule renders, so that their text is lost."""


def parse(page: Page) -> Parsed:
    """Returns the events of a retrospective page.

    How long it takes is up to the page: call it in a worker process with limits of time and memory
    when a stranger may have written it.
    """
    reader = _Reader(page)
    reader.read()
    return Parsed(
        tuple(reader.events),
        tuple(reader.skipped),
        tuple(reader.warnings),
        dict(reader.renderer.unknown.most_common()),
    )


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_REDIRECT = re.compile(r"\s*#REDIRECT\b[^\n]*", re.I)
_HEADING = re.compile(r"^(={1,6})([^\n]{1,400}?)\1[ \t\ue000\ue001\d]*$", re.M)
_PORTAL = re.compile(r"\{\{\s*current[ _]events(?:[ _]header)?\s*\|", re.I)
_ITEM = re.compile(r"\s*([*#:;]+)\s*(.*)")
_ON = re.compile(r"^\W*On\W+")
_LIST = re.compile(r"^\s*[*#]", re.M)
_EVENTS = re.compile(
    r"(?:(?:major|notable|key|main|significant|important|selected|monthly|other|list of"
    r"|timeline of|chronology of) )*events?"
    r"(?: (?:by (?:month|date|day)|and (?:exhibitions|news)|(?:in|of|during) .*))?"
    r"|timeline|chronology",
    re.I,
)
_UNDATED = re.compile(
    r"\bundated\b|\b(?:unknown|unspecified|uncertain|no) (?:date|day|month)s?\b"
    r"|\b(?:date|day|month)s? (?:is |are )?(?:unknown|unspecified|uncertain|unclear|not known)\b"
    r"|^(?:unknown|unspecified)$",
    re.I,
)
_FUTURE = r"(?:scheduled|predicted|upcoming|planned|future|expected|anticipated)"
_SCHEDULED = re.compile(
    rf"(?:{_FUTURE}|(?:and|or)|\s)+(?:events?|dates?|elections?)?|events? {_FUTURE}"
    r"|(?:cancell?ed|postponed) events?.*|events? (?:cancell?ed|postponed).*",
    re.I,
)
_ONGOING = re.compile(r"ongoing\b.*|events? ongoing", re.I)
_ONGOING_LINE = re.compile(rf"ongoing\s*(?:[{DASHES}:]|(?:since|from)\b)", re.I)
# "The 108th Grey Cup will be contested …", but not "It is confirmed that … will be held".
_SCHEDULED_LINE = re.compile(
    r"(?:(?!\b(?:that|whether|if|sa(?:id|ys)|announce\w*|confirm\w*|reveal\w*)\b)[^.;:])*?"
    r"\b(?:will be|(?:is|are) (?:scheduled|due|set) to be) (?:contested|held)\b",
    re.I,
)
_LEAD_IN = re.compile(r"\b(?:following|these|several|various|events?)\b", re.I)


class _Scope(NamedTuple):
    """What a heading, or a parent bullet, hands down to the bullets below it."""

    year: int
    month: int | None = None
    """Completes a prefix that is only a day."""
    dates: Dates | None = None
    """Of bullets without a prefix."""
    skip: Literal["ongoing", "scheduled"] | None = None


@dataclass(slots=True)
class _Bullet:
    """A list item: its own line, and the lines that continue it."""

    depth: int
    lines: list[str]
    colon: bool = False
    """Whether it is indented rather than bulleted."""


class _Parent(NamedTuple):
    """What the bullet above hands down."""

    depth: int
    scope: _Scope
    references: tuple[int, ...]
    topic: str


class _Reader:
    """Reads one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.events: list[Event] = []
        self.skipped: list[Skipped] = []
        self.warnings: list[str] = []
        self.sources = Sources(self.warn, self._plain)
        self.renderer = Renderer(self.sources, self.skip)
        self._portal = False

    def warn(self, message: str) -> None:
        """Keeps a warning."""
        self.warnings.append(message)

    def skip(self, reason: Reason, text: str) -> None:
        """Says what gives no event, and why."""
        self.skipped.append(Skipped(reason, text))
        if reason == "transclusion":
            self.warn(f"the content of another page is not read: {text}")

    def _plain(self, wikitext: str) -> str:
        """Returns what the field of a citation shows."""
        if not any(sign in wikitext for sign in ("[", "{", "<", "&", "''")):
            return " ".join(wikitext.split())
        counting, self.renderer.counting = self.renderer.counting, False
        text = clean(self.renderer.text(wikitext))
        self.renderer.counting = counting
        return text

    def read(self) -> None:
        """Reads the whole page."""
        text = INVISIBLE.sub("", self.page.wikitext.replace("\r\n", "\n"))
        if redirect := _REDIRECT.match(text):
            self.warn(f"the page is a redirect: {redirect.group().strip()}")
            return
        if text.rfind("<!--") > text.rfind("-->"):
            self.warn("a comment is never closed and hides the rest of the page")
        text = self.sources.extract(_COMMENT.sub("", text))
        self._portal = _PORTAL.search(text) is not None
        root = _Scope(self.page.year)
        path: list[tuple[int, _Scope | None]] = [(0, root)]
        chapters: list[tuple[str, bool]] = []
        for level, title, body in _sections(text):
            if level == 0:
                if self._portal or _LIST.search(body):
                    self.renderer.counting = False
                    self._section(body, root)
                    self.renderer.counting = True
                continue
            level = max(2, level)
            while path[-1][0] >= level:
                path.pop()
            above = path[-1][1]
            name = clean(self.renderer.text(title))
            if level == 2:
                scope = self._chapter(name, root)
            else:
                scope = self._heading(name, above) if above is not None else None
            path.append((level, scope))
            if scope is not None and not body.isspace():
                self._section(body, scope)
            chapters.append((name, scope is not None))
        if chapters and not any(read for _, read in chapters) and not self.events:
            names = ", ".join(name for name, _ in chapters)
            self.warn(f"no section of events among {names[:200]!r}")
        self._look_back()

    def _look_back(self) -> None:
        """Warns of days before the day above them in the same month: a sign of a wrong date."""
        days = [event.start for event in self.events if event.start and event.precision == "day"]
        back = [day for above, day in pairwise(days) if day < above and day[:7] == above[:7]]
        if back:
            self.warn(f"{len(back)} dates are before the one above them, the first is {back[0]}")

    def _chapter(self, title: str, root: _Scope) -> _Scope | None:
        """Returns the scope of a level-2 heading; None where its section holds no events."""
        scope = self._heading(title, root)
        return scope if _EVENTS.fullmatch(title) or scope is not root else None

    def _heading(self, title: str, above: _Scope) -> _Scope:
        """Returns the scope below a heading; the one above when it says nothing of dates."""
        title = title.strip(" :")
        if _ONGOING.fullmatch(title):
            return above._replace(skip="ongoing")
        if _SCHEDULED.fullmatch(title):
            return above._replace(skip="scheduled")
        if _UNDATED.search(title):
            return above._replace(month=None, dates=None)
        return self._date_heading(title, above)

    def _date_heading(self, title: str, above: _Scope) -> _Scope:
        """Returns the scope below a line that is a date and nothing else, or the one above."""
        prefix = read_prefix(title, self.page.year)
        if prefix is None or prefix.end < len(title):
            return above
        dates, _ = resolve(prefix, Context(self.page.year, above.year, above.month))
        if dates is None:
            return above
        if prefix.first.day is None and prefix.last is not None:
            return above._replace(month=None, dates=None)  # January – March: the bullets say which
        year = prefix.first.year or above.year
        return above._replace(year=year, month=int(dates.start[5:7]), dates=dates)

    def _section(self, body: str, scope: _Scope) -> None:
        """Reads the lines of a section: groups of bullets, each under one scope."""
        bullets: list[_Bullet] = []
        for line in self.renderer.text(body).split("\n"):
            item = _ITEM.match(line)
            below, first = scope, None
            if item is None:
                below = self._paragraph(line, scope, bullets)
            elif item[1].endswith(";"):
                term, _, rest = item[2].partition(" : ")
                below = self._heading(clean(term), scope)
                first = _Bullet(1, [rest], colon=True) if rest else None
            else:
                self._item(item[1], item[2], scope, bullets)
            if below is not scope:
                self._group(bullets, scope)
                bullets, scope = [first] if first else [], below
        self._group(bullets, scope)

    def _item(self, markup: str, text: str, scope: _Scope, bullets: list[_Bullet]) -> None:
        """Adds a list line: a bullet of its own, or a continuation of the one above."""
        colon = set(markup) == {":"}
        indented = ":" in markup and not (colon and (not bullets or bullets[-1].colon))
        numbered = markup.endswith("#") and "*" in markup
        if bullets and (indented or numbered) and not self._is_dated(text):
            bullets[-1].lines.append(text)
        elif not colon or scope.dates is not None or self._is_dated(text):
            bullets.append(_Bullet(len(markup), [text], colon))
        elif shown := clean(text):
            self.skip("prose", shown)

    def _is_dated(self, text: str) -> bool:
        prefix = read_prefix(clean(text), self.page.year)
        return prefix is not None and prefix.full

    def _paragraph(self, line: str, scope: _Scope, bullets: list[_Bullet]) -> _Scope:
        """Reads a line outside lists: a date alone is a heading, "On 4 January, …" an event."""
        text = clean(line)
        if not text:
            return scope
        if not text.isdecimal():
            below = self._date_heading(text.strip(" :"), scope)
            if below is not scope:
                return below
        if line.lstrip().startswith("{|"):
            self.skip("table", text)
        elif _ONGOING_LINE.match(text):
            self.skip("ongoing", text)
        elif text.startswith("On ") and self._is_dated(text[3:]):
            bullets.append(_Bullet(1, [_ON.sub("", line, count=1)]))
        elif scope.dates is not None and text[0] not in "|!":
            self.skip("prose", text)
        return scope

    def _group(self, bullets: list[_Bullet], scope: _Scope) -> None:
        """Turns the bullets under one heading into events."""
        parents = [_Parent(0, scope, (), "")]
        for i, bullet in enumerate(bullets):
            while parents[-1].depth >= bullet.depth:
                parents.pop()
            has_children = i + 1 < len(bullets) and bullets[i + 1].depth > bullet.depth
            parents.append(self._bullet(bullet, parents[-1], has_children=has_children))

    def _bullet(self, bullet: _Bullet, above: _Parent, *, has_children: bool) -> _Parent:
        """Emits the event of a bullet and returns what it hands down to its children."""
        raw, *more = bullet.lines
        text, scope = self._dated(clean(raw), above.scope)
        bare = not text
        cited = [marks(line) for line in bullet.lines]
        own = cited[0] if bare else tuple(n for numbers in cited for n in numbers)
        handed = _Parent(bullet.depth, scope, (*own, *above.references), above.topic)
        if bare:
            for line, numbers in zip(more, cited[1:], strict=True):
                self._emit(clean(line), scope, (*numbers, *handed.references), above.topic)
            if not more and not has_children:
                self.skip("empty", clean(raw))
        elif has_children and (topic := self._topic(raw, text, cited=bool(own))):
            return handed._replace(topic=f"{above.topic}{topic}: ")
        elif has_children and text.endswith(":") and _LEAD_IN.search(text):
            self.skip("introduction", text)
        else:
            text = " ".join(filter(None, (text, *map(clean, more))))
            self._emit(text, scope, handed.references, above.topic)
        return handed

    def _dated(self, line: str, scope: _Scope) -> tuple[str, _Scope]:
        """Returns a line without its prefix, and the scope with what the prefix says."""
        if prefix := read_prefix(line, self.page.year):
            context = Context(self.page.year, scope.year, scope.month)
            dates, warning = resolve(prefix, context)
            if warning is not None:
                self.warn(f"{warning}: {line[:80]!r}")
            if dates is not None:
                scope = scope._replace(month=int(dates.start[5:7]), dates=dates)
                return _stripped(line[prefix.end :]), scope
        if _ONGOING_LINE.match(line):
            scope = scope._replace(skip="ongoing")
        return _stripped(line), scope

    def _topic(self, raw: str, text: str, *, cited: bool) -> str:
        """Returns the topic that a parent bullet gives to its children, or an empty string.

        A topic is a link and a colon, or a few words and one; on a portal day it needs no colon.
        """
        name = text.rstrip(" :")
        labels = LINK.findall(raw)
        linked = bool(labels) and clean(labels[-1]) == name
        if text.endswith(":"):
            short = not cited and len(name.split()) <= 4 and not _LEAD_IN.search(name)
            return name if linked or short else ""
        return name if self._portal and not cited and name[-1:] not in (".", "!", "?") else ""

    def _emit(self, text: str, scope: _Scope, references: tuple[int, ...], topic: str) -> None:
        """Makes an event of a text, or says why not."""
        text = _stripped(text)
        if not text:
            return
        text = topic + text
        if scope.skip is not None or _SCHEDULED_LINE.match(text):
            self.skip(scope.skip or "scheduled", text)
            return
        start, end, precision = scope.dates or (None, None, "none")
        event = Event(
            region=self.page.region,
            year=self.page.year,
            page_id=self.page.id,
            page_title=self.page.title,
            page_revision=self.page.revision,
            start=start,
            end=end,
            precision=precision,
            text=text,
            references=self.sources.resolve(references),
        )
        if start is None:
            self.skipped.append(Skipped("undated", text, event))
        else:
            self.events.append(event)


def _sections(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields level, title and body of each section; the lead has level 0."""
    at, level, title = 0, 0, ""
    for heading in _HEADING.finditer(text):
        yield level, title, text[at : heading.start()]
        at, level, title = heading.end(), len(heading[1]), heading[2].strip()
    yield level, title, text[at:]


def _stripped(text: str) -> str:
    """Returns a text without separators before it and a lone backslash behind it."""
    return text.removesuffix("\\").strip().lstrip(f"{DASHES}:,; ")
