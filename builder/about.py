"""Whether a text is about the event that cites it: by its names, numbers, words and dates.

Pure functions of stored texts. `relevance` weighs one text; over many, `shared_texts` finds those
that stand under several events, and `shift` the pages whose citations are bound to a neighbour.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from math import exp
from typing import NamedTuple

from anyascii import anyascii

from builder.languages import SIGN, fold, language_of

__all__ = [
    "ABOUT_EVENT",
    "OFF_EVENT",
    "SHIFTED",
    "Citation",
    "Shift",
    "relevance",
    "shared_texts",
    "shift",
]

ABOUT_EVENT = 0.5
"""The relevance that a fetched article must have: .98 of the 2025 release's English texts without a
fault have it and .81 of the others, of unrelated articles .001 and .006."""
OFF_EVENT = 0.3
"""The relevance below which a published text is flagged; most of those in between are right."""
SHIFTED = 0.3
"""Share of a page's events that fit a neighbour better, from which its citations are shifted."""
_FEWEST_SHIFTED = 3
_SCALE = 3.0
_READ = 20_000
"""Characters of an article that are looked at."""


@dataclass(frozen=True, slots=True)
class Citation:
    """An event and the article that is cited for it."""

    event: str
    """Its text, in English."""
    article: str
    """Title, date and text, as far as they are known, one after the other."""
    start: str | None = None
    """Of the event: `YYYY-MM-DD` or `YYYY-MM`."""
    end: str | None = None


class _Evidence(NamedTuple):
    """What a term of the event tells of an article that has it, nearly has it, has it not.

    Logarithm of the odds, as in record linkage (Fellegi and Sunter, 1969): how much more often it
    is so in the event's own article than in one of another event of the region, half of these
    taken from the same weeks. Counted on the 2,335 rows of the 2025 release without a fault.
    """

    has: float
    nearly: float
    lacks: float


_ENGLISH = {
    "name": _Evidence(2.0, 0.2, -1.9),
    "word": _Evidence(2.1, 0.6, -1.1),
    "common": _Evidence(0.7, -0.5, -1.5),
    "number": _Evidence(1.9, 0.0, -1.5),
    "year": _Evidence(1.0, 0.0, -1.5),
    "digit": _Evidence(0.7, 0.0, -0.8),
    "day": _Evidence(3.3, 1.2, -1.7),
    "month": _Evidence(1.5, 0.3, -2.0),
}
_FOREIGN = {
    "name": _Evidence(1.8, 0.3, -0.8),
    "word": _Evidence(1.7, 0.8, -0.1),
    "common": _Evidence(0.7, 0.5, -0.15),
    "number": _Evidence(1.3, 0.0, -0.6),
    "year": _Evidence(0.8, 0.0, -0.7),
    "digit": _Evidence(0.4, 0.0, -0.7),
    "day": _Evidence(3.1, 1.4, -1.7),
    "month": _Evidence(1.5, 0.4, -2.3),
}


def relevance(citation: Citation) -> float:
    """Returns how surely an article is about an event, 0 to 1.

    It weighs which names, numbers and other words of the event the article has, and whether it
    bears the event's date. In an article that is not in English names and numbers carry the most,
    looked for in Latin letters, by their first letters and by their consonants.
    """
    found = _digest(citation.article)
    table = _FOREIGN if found.foreign else _ENGLISH
    evidence = [table[kind][_lookup(term, kind, found)] for term, kind in _terms(citation.event)]
    if found.dates and (when := _when(citation)):
        evidence.append(table[when.kind][when.lookup(found.dates)])
    mean = sum(evidence) / (len(evidence) + 2)  # drawn towards 0 where an event has few terms
    return 1 / (1 + exp(-_SCALE * mean))


_HAS, _NEARLY, _LACKS = range(3)
_NAME = re.compile(r"[^\W_]+(?:[.,'\u2019-][^\W_]+)*")
_PART = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_CONSONANTS = str.maketrans("cqwyxzj", "kkviksi", "h")
"""Letters that transliterations mix up."""


@lru_cache(maxsize=1024)
def _terms(event: str) -> tuple[tuple[str, str], ...]:
    """What an event's text can be known by: terms and their kinds, each once."""
    terms: dict[str, str] = {}
    for match in _NAME.finditer(event):
        for part in re.split(r"['\u2019-]", match[0]):
            folded = anyascii(part).lower()
            term = folded.replace(".", "")
            if folded[:1].isdigit():
                number = _number(_DIGITS.findall(folded)[0])
                terms.setdefault(number, _number_kind(number))
            elif term.isalpha() and term not in _words("stop") and len(term) > 1:
                if part[0].isupper() or len(term) > 3:
                    terms.setdefault(term, _word_kind(term, part))
    return tuple(terms.items())


def _word_kind(term: str, written: str) -> str:
    if term in _common_words() or term[:5] in _common_words():
        return "common"
    return "name" if written[0].isupper() else "word"


@cache
def _words(kind: str) -> frozenset[str]:
    """English words of one kind of `about.toml`."""
    data = tomllib.loads((files("builder") / "about.toml").read_text(encoding="utf-8"))
    return frozenset(data[kind].split())


@cache
def _common_words() -> frozenset[str]:
    """Words that half the news has, and countries: their names and their first five letters."""
    from babel import Locale

    territories = Locale("en").territories
    names = " ".join(name for code, name in territories.items() if len(code) == 2)
    places = {word for word in fold(names).split() if word.isalpha() and len(word) > 3}
    stems = {place[:5] for place in places}
    return _words("common") | places | stems


def _number_kind(number: str) -> str:
    if len(number) == 1:
        return "digit"
    return "year" if _YEAR.fullmatch(number) else "number"


def _number(digits: str) -> str:
    """A number with its thousands together and a point before its decimals."""
    if _THOUSANDS.fullmatch(digits):
        return re.sub("[.,]", "", digits)
    return digits.replace(",", ".")


@lru_cache(maxsize=100_000)
def _consonants(word: str) -> str:
    """Its consonants, alike for the spellings of several languages: `kiev` and `kyiv` are `kv`."""
    bare = re.sub("[aeiou]", "", word.replace("ph", "f").translate(_CONSONANTS))
    return re.sub(r"(.)\1+", r"\1", bare)


_Date = tuple[int | None, int, int | None]
"""Year, month and day."""


@dataclass(frozen=True, slots=True)
class _Digest:
    """What is looked up in an article."""

    foreign: bool
    """Whether it is in another language than English."""
    words: frozenset[str]
    numbers: frozenset[str]
    stems: frozenset[str]
    consonants: frozenset[str]
    unspaced: str
    """All letters in a row, for scripts that put no space between words; else empty."""
    dates: frozenset[_Date]


@lru_cache(maxsize=64)
def _digest(article: str) -> _Digest:
    start = article[:_READ]
    folded = fold(start)
    language = language_of(start) or "en"
    foreign = language != "en"
    parts = _PART.findall(folded)
    words = frozenset(part for part in parts if part[0] > "9")
    spaceless = len(SIGN.findall(start)) > len(start) / 10
    return _Digest(
        foreign=foreign,
        words=words,
        numbers=frozenset(_number(part) for part in parts if part[0] <= "9"),
        stems=frozenset(w[:n] for w in words for n in ((5, 6) if foreign else (6,)) if len(w) > 4),
        consonants=frozenset(map(_consonants, words)) if foreign else frozenset(),
        unspaced=re.sub("[^a-z]", "", folded) if spaceless else "",
        dates=_dates(folded, language),
    )


def _lookup(term: str, kind: str, article: _Digest) -> int:
    """Whether an article has a term of an event."""
    if term[0] <= "9":
        return _HAS if term in article.numbers else _LACKS
    if term in article.words or (len(term) > 3 and term in article.unspaced):
        return _HAS
    if len(term) > 4 and (term[:6] in article.stems or term[:5] in article.stems):
        return _NEARLY
    skeleton = _consonants(term) if kind == "name" and len(term) > 4 else ""
    return _NEARLY if len(skeleton) > 2 and skeleton in article.consonants else _LACKS


@cache
def _months(language: str) -> dict[str, int]:
    """The names of months, folded, in a language and in English."""
    from babel import Locale, UnknownLocaleError
    from babel.dates import get_month_names

    names: dict[str, int] = {}
    for code in ("en", language):
        try:
            locale = Locale.parse(code)
        except (UnknownLocaleError, ValueError):
            continue  # Tok Pisin has the English names
        for width in ("wide", "abbreviated"):
            for context in ("format", "stand-alone"):
                found = get_month_names(width, context, locale)
                names |= {fold(name).strip(". "): month for month, name in found.items()}
    return {name: month for name, month in names.items() if len(name) > 2 and name.isalpha()}


@cache
def _written_date(language: str) -> re.Pattern[str]:
    """Dates like `4 January 2019`, `January 4th`, `4 de enero de 2019`, `Januar 2019`."""
    names = "|".join(sorted(_months(language), key=len, reverse=True))
    return re.compile(
        r"(?:\b(?P<before>\d{1,2})(?:st|nd|rd|th|er|o)?[.,]?\s(?:de\s|of\s)?)?"
        rf"\b(?P<month>{names})[a-z]{{0,3}}\b[.,]*"
        r"(?:\s(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?"
        r"(?:,?\s?(?:del?\s)?(?P<year>(?:19|20)\d\d)\b)?"
    )


_NUMERIC_DATE = re.compile(
    r"\b(\d{1,2})([./-])(\d{1,2})\2((?:19|20)\d\d)\b"
    r"|\b((?:19|20)\d\d)[./-](\d{1,2})[./-](\d{1,2})(?!\d)"
    r"|(?:((?:19|20)\d\d)\s?nian\s?)?(\d{1,2})\s?yue\s?(\d{1,2})\s?ri"  # Han signs folded
)


def _dates(folded: str, language: str) -> frozenset[_Date]:
    """The dates in a text; one like 3/4/2019 may be of March or of April."""
    dates: set[_Date] = set()
    for match in _NUMERIC_DATE.finditer(folded):
        a, _, b, year, iso_year, iso_month, iso_day, han_year, han_month, han_day = match.groups()
        if year:
            dates |= {(int(year), int(b), int(a)), (int(year), int(a), int(b))}
        elif iso_year:
            dates.add((int(iso_year), int(iso_month), int(iso_day)))
        else:
            dates.add((int(han_year) if han_year else None, int(han_month), int(han_day)))
    months = _months(language)
    for match in _written_date(language).finditer(folded):
        day, year = match["before"] or match["after"], match["year"]
        if day or year:
            written = months[match["month"]]
            dates.add((int(year) if year else None, written, int(day) if day else None))
    return frozenset(
        (y, month, day) for y, month, day in dates if 1 <= month <= 12 and (day or 1) <= 31
    )


@dataclass(frozen=True, slots=True)
class _When:
    """The days or the month in which an article on an event would have its dates."""

    kind: str
    """`day` or `month`."""
    days: frozenset[tuple[int, int, int]]
    month: tuple[int, int]

    def lookup(self, dates: frozenset[_Date]) -> int:
        if self.kind == "day":
            if self.days & dates:
                return _HAS
            yearless = {(None, month, day) for _, month, day in self.days}
            return _NEARLY if yearless & dates else _LACKS
        year, month = self.month
        years = {y for y, m, _ in dates if m == month}
        return _HAS if year in years else _NEARLY if None in years else _LACKS


def _when(citation: Citation) -> _When | None:
    """An event's days, from the one before to the third after; its month; None if not readable."""
    start = citation.start or ""
    try:
        first = date.fromisoformat(start if len(start) > 7 else f"{start}-01")
        end = citation.end or ""
        last = date.fromisoformat(end) if len(end) > 7 else first
    except ValueError:
        return None
    month = (first.year, first.month)
    if len(start) <= 7:
        return _When("month", frozenset(), month)
    span = (first + timedelta(n) for n in range(-1, min((last - first).days, 60) + 4))
    return _When("day", frozenset((d.year, d.month, d.day) for d in span), month)


def shared_texts(citations: Sequence[Citation]) -> list[bool]:
    """Returns of each citation whether its article also stands under another event.

    For `text_of_another_event`, over the rows of a region: a scraper that carries one text on to
    the next link, or a site that answers every address with the same page.
    """
    events: dict[str, set[str]] = {}
    keys = [" ".join(c.article.split()) for c in citations]
    for key, citation in zip(keys, citations, strict=True):
        events.setdefault(key, set()).add(citation.event)
    return [len(events[key]) > 1 for key in keys]


class Shift(NamedTuple):
    """How many events fit their neighbour's article better than their own."""

    offset: int
    """1 where the next event's article fits, -1 where that of the one before does."""
    events: int
    of: int


def shift(citations: Sequence[Citation]) -> Shift | None:
    """Returns an alarm where citations seem bound to their neighbours, as `[n]` read as `n-1` does.

    Args:
        citations: Those of one page, in its order, one for each event.
    """
    own = [relevance(citation) for citation in citations]
    alarms = []
    for offset in (1, -1):
        pairs = [
            (i, i + offset)
            for i in range(len(citations))
            if 0 <= i + offset < len(citations)
            and citations[i].article != citations[i + offset].article
        ]
        better = sum(
            relevance(replace(citations[i], article=citations[j].article)) > max(own[i], OFF_EVENT)
            for i, j in pairs
        )
        if better >= _FEWEST_SHIFTED and better >= SHIFTED * len(pairs):
            alarms.append(Shift(offset, better, len(pairs)))
    return max(alarms, key=lambda alarm: alarm.events, default=None)
