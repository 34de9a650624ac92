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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from anyascii import anyascii

from builder.about import (
    ABOUT_EVENT,
    OFF_EVENT,
    SHIFTED,
    Citation,
    Shift,
    relevance,
    shared_texts,
    shift,
)
from builder.charsets import decode
from builder.languages import SIGN, SPACELESS, fold, language_of
from tiebe.engine import Overrun, Workers
from tiebe.regions import LANGUAGES

__all__ = [
    "ABOUT_EVENT",
    "OFF_EVENT",
    "PRELOAD",
    "REASONS",
    "SHIFTED",
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
_SIGNS_A_WORD = 1.6


# What a page says ------------------------------------------------------------------------------

SECONDS = 20.0
"""The time that one extractor may take for one page."""
MAX_CHARS = 10_000_000
"""Of a page; of a text a tenth is kept."""
PRELOAD = ("trafilatura", "resiliparse.extract.html2text", "builder.extract")
"""What a worker process should have imported before its first page."""

_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_SHINGLE = 4
_COMPARED = 200_000
_TOKEN = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]+")


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
    """Why it is no article: of `REASONS`, `too_big` or `unreadable`; empty for an article."""
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
            found = workers.call(_READERS[name], html, url or None, *args, seconds=SECONDS)
            return found._replace(text=_tidy(found.text[: MAX_CHARS // 10]))
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
    texts = {name: reading.text for name, reading in readings.items()}
    titles = [_tidy(r.title[:1000]).replace("\n", " ") for r in (trafilatura, newspaper)]
    winner, agreement = _medoid(texts)
    text = texts[winner]
    found = {reason for title in set(titles) for reason in faults(text, title=title, url=url)}
    if _linked(text, trafilatura.links) > MAX_LINKED:
        found.add("index_page")
    if "too_short" in found:  # what is left out may tell why
        page = read("page").text
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
    tokens = _TOKEN.findall(text[:_COMPARED])
    return {tuple(tokens[i : i + _SHINGLE]) for i in range(max(1, len(tokens) - _SHINGLE + 1))}


def _medoid(texts: Mapping[str, str]) -> tuple[str, float]:
    """The text most like the others, by the Jaccard index of 4-grams, and its mean likeness.

    newspaper4k, the most precise of the three, is given .01; of equals the first wins.
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


class _Phrases(NamedTuple):
    """The patterns of a reason; see the head of extract.toml."""

    opening: re.Pattern[str] | None
    anywhere: re.Pattern[str] | None
    notice: re.Pattern[str] | None
    hint: re.Pattern[str] | None
    topic: re.Pattern[str] | None


@cache
def _phrases() -> dict[str, _Phrases]:
    def pattern(found: str | list[str] | None, start: str = "") -> re.Pattern[str] | None:
        if not found:
            return None
        parts = [found] if isinstance(found, str) else found
        return re.compile(start + "(?:" + "|".join(f"(?:{_folded(p)})" for p in parts) + ")")

    data = tomllib.loads((files("builder") / "extract.toml").read_text(encoding="utf-8"))
    return {
        name: _Phrases(
            pattern(kinds.get("opening"), r"\W{0,9}"),
            *(pattern(kinds.get(kind)) for kind in ("anywhere", "notice", "hint", "topic")),
        )
        for name, kinds in data.items()
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
    heading, folded = fold(title[:500]), fold(start)
    found = {name for name, phrases in _phrases().items() if _says(phrases, heading, folded, words)}
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
    signs = len(SIGN.findall(text))
    rest = SIGN.sub(" ", text) if signs else text
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
    spaced = SIGN.sub(r" \g<0> ", _WIDE_PUNCTUATION.sub(" ", text))
    tokens, letters = len(spaced.split()), len(_LETTERED.findall(spaced))
    numbers = len(_WORD.findall(spaced)) - letters
    symbols = len(_SYMBOL.findall(text))
    return 0 < letters >= 0.9 * (tokens - numbers) and symbols <= 1 + 0.1 * tokens


def _is_garbled(text: str) -> bool:
    """Whether bytes were read in the wrong encoding."""
    from ftfy.badness import badness

    bad = badness(text)
    return bad >= 3 and bad >= len(text) * 0.0002
