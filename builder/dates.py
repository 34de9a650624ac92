"""Reads the dates that editors write in front of a line: one day, a range, a month.

`read_prefix` finds the date and where the text after it begins, `resolve` completes it from where
the line stands. Nothing after the prefix is ever looked at.
"""

import datetime
import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from builder.records import Precision

__all__ = [
    "DASHES",
    "MONTH_NAMES",
    "Context",
    "Dates",
    "Prefix",
    "published",
    "read_prefix",
    "resolve",
]

MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DASHES = "-–—‒―−"

_MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, start=1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"Sept": 9}
_MONTH = rf"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?![^\W\d_])\.?"
_YEAR = r"(?P<year{0}>(?P<comma{0}>,)?\s?(?P<y{0}>\d{{4}})(?!\d))?"
_POINT = re.compile(
    rf"""(?P<y0>\d{{4}})-(?P<m0>\d\d)-(?P<d0>\d\d)(?!\d)
    | (?:the\s)?(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<m1>{_MONTH}){_YEAR.format(1)}
    | (?P<m2>{_MONTH})\s(?:the\s)?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|[.,:]\d){_YEAR.format(2)}
    | (?P<m3>{_MONTH}){_YEAR.format(3)}
    | (?:the\s)?(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|[.,]\d)""",
    re.X,
)
_WEEKDAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_OPENING = re.compile(
    rf"(?:{_WEEKDAY}\b[.,]*\s+)?(?P<vague>(?i:early|mid|late|(?:beginning|end)\sof)[\s-]+)?"
)
_JOINT = re.compile(
    rf"(?P<dash>\s?[{DASHES}]\s?)|\s(?:to|until|till|through|thru|and|&)\s|\s?[/&]\s?"
)
_SEPARATOR = re.compile(rf"(?:\s\({_WEEKDAY}\))?(?:(?:\s*[{DASHES}:,])+\s*|\s*\Z)")
# Words that begin a sentence and cannot go on one: "March The mayor", "4 March 2019 In a speech".
_SENTENCE = re.compile(r"\s(?:The|An?|In|At|On|By|For|After|Following|During|It|Its|Two|Three)\b")


@dataclass(slots=True)
class Point:
    """One date as written; what is not written is None."""

    style: Literal["full", "month first", "month", "day"]
    day: int | None
    month: int | None
    year: int | None
    end: int
    """Where it ends in the text."""
    before_year: int
    """Where it ends without its year."""
    comma: bool = False
    """Whether one stands before the year."""
    ordinal: bool = False

    @classmethod
    def read(cls, text: str, at: int) -> "Point | None":
        """Returns the date that begins at an offset."""
        m = _POINT.match(text, at)
        if m is None:
            return None
        end = m.end()
        if m["y0"]:
            year, month, day = int(m["y0"]), int(m["m0"]), int(m["d0"])
            return cls("full", day, month, year, end, end) if 0 < month < 13 else None
        if m["d4"]:
            ordinal = not m.group().endswith(m["d4"])
            return cls("day", int(m["d4"]), None, None, end, end, ordinal=ordinal)
        style: Literal["full", "month first", "month"] = (
            "full" if m["d1"] else "month first" if m["d2"] else "month"
        )
        n = {"full": "1", "month first": "2", "month": "3"}[style]
        return cls(
            style,
            int(m[f"d{n}"]) if style != "month" else None,
            _MONTHS[m[f"m{n}"].rstrip(".")],
            int(m[f"y{n}"]) if m[f"y{n}"] else None,
            end,
            m.start(f"year{n}") if m[f"y{n}"] else end,
            comma=m[f"comma{n}"] is not None,
        )


class Prefix(NamedTuple):
    """The date, or the range, that a line begins with."""

    first: Point
    last: Point | None
    vague: bool
    """Whether it says early, mid or late, which leaves the month."""
    end: int
    """Where the text after it begins."""

    @property
    def full(self) -> bool:
        """Whether it names a day and its month."""
        return self.first.style in ("full", "month first")


class Dates(NamedTuple):
    """When an event was."""

    start: str
    """`YYYY-MM-DD` or `YYYY-MM`."""
    end: str | None
    precision: Precision


class Context(NamedTuple):
    """What the place of a line adds to its prefix."""

    page_year: int
    year: int
    """The heading's when it names one, else the page's."""
    month: int | None
    """The parent bullet's or the heading's."""


def read_prefix(text: str, page_year: int) -> Prefix | None:
    """Returns the date at the beginning of a line; None when the line begins with its text.

    Args:
        text: A line of plain text.
        page_year: Near to it, a number behind a date and a comma is the date's year.
    """
    opening = _OPENING.match(text)
    first = Point.read(text, opening.end()) if opening else None
    if opening is None or first is None:
        return None
    vague = opening["vague"] is not None
    joint = _JOINT.match(text, first.end)
    last = Point.read(text, joint.end()) if joint else None
    if joint and last and _is_range(first, last):
        # "January 6 – 26 people are killed": a spaced dash makes no range of a bare number.
        spaced = joint["dash"] is not None and joint["dash"] != joint["dash"].strip()
        strict = last.style == "month" or (last.style == "day" and (spaced or first.style == "day"))
        if ended := _end(text, last, page_year, strict=strict, sure=first.year is not None):
            return Prefix(first, ended[0], vague, ended[1])
    strict = first.style in ("month", "day")
    ended = _end(text, first, page_year, strict=strict, sure=False)
    return Prefix(ended[0], None, vague, ended[1]) if ended else None


def _is_range(first: Point, last: Point) -> bool:
    """Whether a second date can be a range's end: a number alone only behind `January 4` or `4`."""
    if last.style != "day":
        return True
    return first.style == "day" or (first.style == "month first" and not last.ordinal)


def _end(
    text: str, point: Point, page_year: int, *, strict: bool, sure: bool
) -> tuple[Point, int] | None:
    """Returns a prefix's last date and where the text behind it begins; None if it is no prefix.

    Args:
        text: The line.
        point: The date.
        page_year: As above.
        strict: Whether a month or a number alone is the date, which may belong to the sentence
            ("May announces", "12 people").
        sure: Whether what looks like its year is one whatever follows.
    """
    if point.year is not None:
        sure = sure or (point.comma and abs(point.year - page_year) <= 1)
        at = _text_begins(text, point, strict=strict, capital=sure and not strict)
        if at is not None:
            return point, at
        # "9 October 2024 Mozambican election": the year is the first word of the text.
        point = replace(point, year=None, end=point.before_year)
    at = _text_begins(text, point, strict=strict, capital=not strict)
    return None if at is None else (point, at)


def _text_begins(text: str, point: Point, *, strict: bool, capital: bool) -> int | None:
    """Returns where the text begins behind a date; None if none can begin there.

    Args:
        text: The line.
        point: The date.
        strict: As above.
        capital: Whether a capital letter will do instead of a separator.
    """
    separator = _SEPARATOR.match(text, point.end)
    if separator is None:
        at = point.end
        begins = capital and text[at].isspace() and not text[at + 1 : at + 2].islower()
        return at + 1 if begins or _SENTENCE.match(text, at) else None
    sign, following = separator.group(), text[separator.end() : separator.end() + 1]
    if sign == "-" and not following.isupper():
        return None  # January 6-style, 12-year-old
    if following.isdigit() and point.style == "day":
        if sign == ":" or (strict and (sign == sign.strip() or sign.strip() == ",")):
            return None  # 10:30, 10–12 people; 10, 12 and 14 people
    if strict and sign.strip() == "," and following.islower():
        return None  # May, who resigned
    return separator.end()


def resolve(prefix: Prefix, context: Context) -> tuple[Dates | None, str | None]:
    """Returns when a prefix says, and a warning where it cannot be.

    A day that the calendar does not have leaves the month. None means that the prefix dates
    nothing: a day outside any month, or a year that is not the page's (with a warning).
    """
    first, last = prefix.first, prefix.last
    month = first.month or (last.month if last else None) or context.month
    if month is None:
        return None, None
    last_month = (last.month if last else None) or month
    year, last_year = _years(first, last, month, last_month, context)
    if abs(year - context.page_year) > 1:
        return None, f"the year {year} is not this page's"
    day = None if prefix.vague else first.day
    start = _stamp(year, month, day)
    if start is None:
        impossible = f"there is no day {day} in {MONTH_NAMES[month - 1]} {year}"
        return Dates(f"{year:04}-{month:02}", None, "month"), impossible
    end, warning = None, None
    if last is not None:
        end = _stamp(last_year, last_month, last.day)
        if end is None or end < start or abs(last_year - context.page_year) > 1:
            end, warning = None, "a range ends before it starts, or on no day of this page's reach"
    return Dates(start, None if end == start else end, "day" if day else "month"), warning


def _years(
    first: Point, last: Point | None, month: int, last_month: int, context: Context
) -> tuple[int, int]:
    """Returns the years of a range's ends; what is not written follows from the other end."""
    turns = last_month < month
    if first.year is not None:
        year = first.year
    elif last is not None and last.year is not None:
        year = last.year - turns
    elif turns and context.month == last_month:
        year = context.year - 1  # December – January among January's bullets
    else:
        year = context.year
    return year, (last.year if last and last.year is not None else year + turns)


def _stamp(year: int, month: int, day: int | None) -> str | None:
    """Returns `YYYY-MM-DD` or `YYYY-MM`; None for a day that the calendar does not have."""
    if day is None:
        return f"{year:04}-{month:02}"
    try:
        return datetime.date(year, month, day).isoformat()
    except ValueError:
        return None


def published(text: str) -> str | None:
    """Returns a citation's date as `YYYY-MM-DD`, or as much of it as the text says."""
    text = text.strip()
    iso = re.match(r"(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)", text)
    if iso and 0 < int(iso[2]) < 13:
        year, month = int(iso[1]), int(iso[2])
        return (_stamp(year, month, int(iso[3])) if iso[3] else None) or _stamp(year, month, None)
    point = Point.read(text, 0)
    if point is not None and point.year is None and (joint := _JOINT.match(text, point.end)):
        last = Point.read(text, joint.end())
        if last is not None and last.year is not None:
            point = replace(point, month=point.month or last.month, year=last.year)
    if point is not None and point.year is not None and point.month is not None:
        stamp = _stamp(point.year, point.month, point.day)
        return stamp or _stamp(point.year, point.month, None)
    found = re.search(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)", text)
    return found.group() if found else None
