"""What an answer's words, numbers, dates, names and phrases show without a language model.

A text is read once (`read`); a question, an expected answer and a candidate are then compared
(`features`). What the rules know of 13 languages stands in `lexical.toml`; a language is one table
there. Features are counts and ratios of small integers, so that all machines get the same.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from os.path import commonprefix
from typing import NamedTuple
from zlib import crc32

import numpy as np

from tiebe.vectors import WordVectors, likeness, nearness

__all__ = [
    "KNOWN_LANGUAGES",
    "Reading",
    "features",
    "fold",
    "guess_language",
    "read",
]

# Read of a text: answers are short, and a stranger's megabyte must not cost seconds.
_LIMIT = 3000
_GREATEST = 1e24  # numbers: no answer has a greater one
STEM = 5
"""Letters of a word that its forms have in common."""
_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "«": '"', "»": '"'}
    | {"ı": "i", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe"}
)
_MARKS = re.compile("[\u0300-\u036f]+")
_CJK, _DEVANAGARI, _ETHIOPIC = "\u3400-\u9fff", "\u0900-\u097f", "\u1200-\u137f"
# What ends a sentence: with a space after it, or without; and what parts it.
_ENDS, _WIDE_ENDS, _BREAKS = ".!?", "。！？።।", ",;:()，；：、፣"
# A space groups thousands only when it is one that does not break, or when three digits follow.
_GROUPED = r"(?<![\d.,])\d{1,3}(?:[.,'\u00a0\u202f\u2009 ]\d{3})+(?:[.,]\d{1,2})?(?!\d)"
# Most tokens are plain words: they are tried first.
_TOKEN = re.compile(
    rf"[^\W\d_{_CJK}]++(?![{_DEVANAGARI}])|{_GROUPED}|\d+(?:[.,]\d+)?|[{_CJK}]"
    rf"|(?:[^\W\d_{_CJK}]|[{_DEVANAGARI}](?<![।॥]))+|[{_ENDS}{_WIDE_ENDS}\n]|[{_BREAKS}]"
)
_WHOLE = re.compile(_GROUPED)
_DECIMALS = re.compile(r"(?<=\d{3})[.,](\d{1,2})$")
_DATE = re.compile(r"\b(\d{4})-(\d\d?)-(\d\d?)\b|\b(\d\d?)[./](\d\d?)[./](\d{4})\b")
_MAYBE_DATE = re.compile(r"\d[-./]\d")  # found faster
_HAN_NUMBER = re.compile(
    "[零〇一二两三四五六七八九十百千万亿]{2,12}"
    "|[一二两三四五六七八九十](?=[人名天个月日次岁支辆架艘座家件枚国])"
)
_HAN_DIGITS = {sign: n for n, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_APOSTROPHE = re.compile("(?<=[\u0400-\u04ff])['’ʼ](?=[\u0400-\u04ff])")
_SCRIPTS = {
    "latin": re.compile("[a-z]"),
    "cyrillic": re.compile("[\u0400-\u04ff]"),
    "chinese": re.compile(f"[{_CJK}]"),
    "ethiopic": re.compile(f"[{_ETHIOPIC}]"),
    "devanagari": re.compile(f"[{_DEVANAGARI}]"),
}
_SCRIPT_OF = {"ru": "cyrillic", "uk": "cyrillic", "zh": "chinese", "am": "ethiopic"} | {
    "hi": "devanagari"
}
# For the sound of a word: Cyrillic in Latin letters, then consonants alone, like ones as one.
_LATIN = str.maketrans(
    dict(zip("абвгдежзиклмнопрстуфхцчшыэюяіїєґ", "abvgdessiklmnoprstufkkssieuaiieg", strict=True))
    | {"щ": "s", "ъ": "", "ь": ""}
)
_MERGED = str.maketrans({"c": "k", "q": "k", "z": "s", "x": "ks", "v": "f"})
_SILENT = re.compile("[aeiouyhwj']+")
_DOUBLED = re.compile(r"(.)\1+")
_BETWEEN_DAY_AND_MONTH = frozenset(". st nd rd th of de do da del er the".split())
_JOINS_NUMBERS = frozenset("and y et e und и".split())

_REFUSING = ("sorry", "cannot", "lacking", "unstated", "denied", "cutoff", "unreal", "today")
"""Ways to decline that show in a phrase; `advice` and `meta` accompany them."""
_DECLINING = (*_REFUSING, "advice", "meta", "tells")


def fold(text: str) -> str:
    """Returns the text in lower case, without accents, with plain quotation marks."""
    if text.isascii():
        return text.lower().replace("`", "'")
    decomposed = unicodedata.normalize("NFKD", text.casefold().translate(_PLAIN))
    return _MARKS.sub("", decomposed)


@cache
def _tables() -> dict[str, dict[str, str | list[str]]]:
    text = (files("tiebe") / "lexical.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, str | list[str]]] = tomllib.loads(text)
    return tables


KNOWN_LANGUAGES = ("en", "zh", "es", "pt", "fr", "de", "ru", "tr", "am", "tpi", "uk", "id", "hi")
"""ISO 639 codes of the tables in `lexical.toml`."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of a language, with those of English, folded."""

    stop: frozenset[str]
    values: Mapping[str, int]
    """Number words up to 99."""
    scales: Mapping[str, int]
    months: Mapping[str, int]
    opposites: tuple[tuple[str, str], ...]


def _forms(words: str | list[str]) -> Iterator[tuple[int, str]]:
    """Yields position and form of each word of a list like `two/deux three/trois`."""
    assert isinstance(words, str)
    for place, word in enumerate(fold(words).replace("'", "").split()):
        for form in word.split("/"):
            if form != "-":
                yield place, form


@lru_cache(64)
def lexicon(language: str) -> Lexicon:
    """Returns the words of a language; those of English alone for one that has no table."""
    stop: set[str] = set()
    values: dict[str, int] = {}
    scales: dict[str, int] = {}
    months: dict[str, int] = {}
    opposites: list[tuple[str, str]] = []
    for code in dict.fromkeys(("en", language)):
        table = _tables().get(code, {})
        if not table:
            continue
        stop |= {word for _, word in _forms(table["stop"])}
        units = {word: n for n, word in _forms(table["numbers"])}
        tens = {word: 20 + 10 * n for n, word in _forms(table["tens"])}
        values |= units | tens
        if code == "de":  # einundzwanzig, zweihundert, dreitausend are one word each
            ones = {word: n for word, n in units.items() if 1 <= n <= 9} | {"ein": 1}
            values |= {f"{one}und{w}": n + k for w, n in tens.items() for one, k in ones.items()}
            values |= {f"{one}hundert": k * 100 for one, k in ones.items()}
            values |= {f"{one}tausend": k * 1000 for one, k in ones.items()}
        sizes = (10**2, 10**3, 10**6, 10**9, 10**12)
        scales |= {word: sizes[n] for n, word in _forms(table["scales"])}
        months |= {word: n + 1 for n, word in _forms(table["months"])}
        pairs = [word.split("/") for word in fold(str(table["opposites"])).split()]
        opposites += [(one, other) for one, other in pairs]
    values = {word: n for word, n in values.items() if word not in stop}
    return Lexicon(frozenset(stop), values, scales, months, tuple(opposites))


@cache
def _pattern(*kinds: str, code: str) -> re.Pattern[str]:
    """Phrases of a kind; of several kinds: where one of any of them begins."""
    phrases = fold("|".join(phrase for kind in kinds for phrase in _tables()[code][kind]))
    group = f"(?:{phrases})" if len(kinds) == 1 else f"(?={phrases})"
    if code in ("zh", "hi"):
        return re.compile(group)
    # At the end of a word only the plus of `5+` and the space of ` recomiendo` are tried.
    return re.compile(rf"\b(?=[\w+{' ' if code == 'es' else ''}]){group}")


@cache
def _label() -> re.Pattern[str]:
    words = "|".join(fold(str(table["label"])) for table in _tables().values())
    return re.compile(rf"(?<!\w)(?:{words})\**\s*:\**\s*")


def _scripts(flat: str) -> frozenset[str]:
    known = ("latin",) if flat.isascii() else _SCRIPTS
    return frozenset(name for name in known if _SCRIPTS[name].search(flat))


def _phrases(flat: str, scripts: Set[str], language: str, kinds: Sequence[str]) -> list[list[int]]:
    """Returns where phrases of each kind begin: in the language, in English, in other scripts."""
    near = (language, "en") if language in KNOWN_LANGUAGES else KNOWN_LANGUAGES
    codes = [
        c
        for c in KNOWN_LANGUAGES
        if _SCRIPT_OF.get(c, "latin") in scripts and (c in near or c in _SCRIPT_OF)
    ]
    found: list[list[int]] = [[] for _ in kinds]
    for code in codes:
        # Most texts have no phrase at all: to look for all kinds at once is faster.
        places = [m.start() for m in _pattern(*kinds, code=code).finditer(flat)]
        for kind, begins in zip(kinds, found, strict=True):
            end = 0
            for place in places:
                match = _pattern(kind, code=code).match(flat, place) if place >= end else None
                if match:
                    begins.append(place)
                    end = match.end()
    return [sorted(begins) for begins in found]


def guess_language(text: str) -> str:
    """Returns the ISO 639 code of the language whose script and small words the text has."""
    flat = fold(text[:_LIMIT])
    scripts = _scripts(flat)
    if "cyrillic" in scripts:
        return "uk" if re.search("[іїєґ]", flat) else "ru"
    for code in ("zh", "am", "hi"):
        if _SCRIPT_OF[code] in scripts:
            return code
    words = Counter(re.findall(r"[^\W\d_]+", flat))
    latin = [code for code in KNOWN_LANGUAGES if code not in _SCRIPT_OF]
    small = {code: {w for _, w in _forms(_tables()[code]["stop"])} for code in latin}
    votes = {code: sum(n for w, n in words.items() if w in small[code]) for code in latin}
    return max(latin, key=lambda code: votes[code])


# --- reading -------------------------------------------------------------------------------------

_NUMBER, _END, _BREAK, _SIGN, _WORD = range(5)


class _Word(NamedTuple):
    kind: int
    form: str
    """Folded."""
    stem: str
    """What forms of the word have in common: the first `STEM` letters."""
    sound: str
    """Its consonants, the same in Latin and Cyrillic letters: names are known by them."""
    capital: bool
    value: float = 0.0


@lru_cache(1 << 16)
def _word(token: str) -> _Word:
    first = token[0]
    if first.isdecimal():
        return _Word(_NUMBER, token, token, "", False, _digits(token))
    if first in _ENDS or first in _WIDE_ENDS or first == "\n":
        return _Word(_END, token, "", "", False)
    if first in _BREAKS:
        return _Word(_BREAK, token, "", "", False)
    if "\u3400" <= first <= "\u9fff":
        return _Word(_SIGN, first, first, "", False)
    form = fold(token)
    if "\u1200" <= first <= "\u137f":
        # A syllable's row is its consonant; one letter before the noun is a preposition.
        bare = form[1:] if len(form) >= 4 and first in "በየለከስእ" else form
        sound = "".join(chr(0x1200 + (ord(c) - 0x1200) // 8 * 8) for c in bare)
        return _Word(_WORD, form, sound[:3], sound, False)
    plain = form.translate(_LATIN).replace("ph", "f").replace("ch", "s").translate(_MERGED)
    sound = _DOUBLED.sub(r"\1", _SILENT.sub("", plain))
    return _Word(_WORD, form, form[:STEM], sound, first.isupper())


def _digits(token: str) -> float:
    if not _WHOLE.fullmatch(token):
        return min(float(token.replace(",", ".")), _GREATEST)
    decimals = _DECIMALS.search(token)
    whole = token[: decimals.start()] if decimals else token
    return min(float(re.sub(r"\D", "", whole) + (f".{decimals[1]}" if decimals else "")), _GREATEST)


def _han(run: str) -> int:
    """The value of Chinese numerals."""
    if not any(sign in _HAN_UNITS for sign in run):
        return int("".join(str(_HAN_DIGITS[sign]) for sign in run))
    total = section = digit = 0
    for sign in run:
        unit = _HAN_UNITS.get(sign)
        if unit is None:
            digit = _HAN_DIGITS[sign]
        elif unit < 10**4:
            section, digit = section + (digit or 1) * unit, 0
        else:
            total, section, digit = (total + section + digit) * unit, 0, 0
    return total + section + digit


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands in a text. Terms are stems of words that mean something, numbers, CJK pairs."""

    flat: str
    """The folded text."""
    length: int
    """Words and signs, numbers not counted."""
    sequence: tuple[str, ...]
    """The terms in order."""
    terms: frozenset[str]
    sentences: tuple[frozenset[str], ...]
    """Terms by sentence; a very short one is part of the next."""
    forms: frozenset[str]
    """Folded words and their sounds: where names are looked up."""
    names: frozenset[str]
    """Sounds of capitalised words, folded ones where the sound says too little."""
    words: tuple[_Word, ...]
    """The distinct words of `terms`, in order; no numbers, no signs."""
    capitals: float
    """Share of capitalised words."""
    numbers: frozenset[float]
    """Without years and days of a month."""
    figures: tuple[float, ...]
    """The same in order."""
    years: frozenset[int]
    months: frozenset[int]
    days: frozenset[int]


def read(text: str, language: str) -> Reading:
    """Returns what stands in a text, of which the first 3,000 characters are read.

    Args:
        text: Any text; hostile ones cost no more than others.
        language: ISO 639 code; words of English are known besides.
    """
    text = _normal(text)
    return _gone_through(text, language).reading(fold(text))


def _terms(text: str, language: str) -> frozenset[str]:
    """The terms of a text, without the rest of its reading."""
    return frozenset(_gone_through(_normal(text), language).sequence)


def _normal(text: str) -> str:
    text = text[:_LIMIT]
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _gone_through(text: str, language: str) -> "_Reader":
    reader = _Reader(lexicon(language), english=language == "en")
    if not text.isascii():
        text = _APOSTROPHE.sub("", text)
        text = _HAN_NUMBER.sub(lambda m: str(_han(m[0])), text)
    if _MAYBE_DATE.search(text):
        text = _DATE.sub(reader.date, text)
    reader.take([*map(_word, _TOKEN.findall(text))])
    return reader


# Questions and expected answers come again with each model's answer.
_reread = lru_cache(4096)(read)


class _Reader:
    """Goes once through the words of a text and sorts what it finds."""

    def __init__(self, known: Lexicon, *, english: bool) -> None:
        self.known = known
        self.english = english
        self.sequence: list[str] = []
        self.starts = [0]
        """Of sentences, in the sequence."""
        self.names: dict[str, str] = {}
        self.content: dict[str, _Word] = {}
        self.numbers: dict[float, None] = {}
        self.years: set[int] = set()
        self.months: set[int] = set()
        self.days: set[int] = set()
        self.length = self.capitals = 0

    def date(self, match: re.Match[str]) -> str:
        """Takes a date in digits out of the text; day and month change places where they must."""
        year, month, day = (int(g or 0) for g in (match[1] or match[6], match[2], match[3]))
        if not match[1]:
            day, month = int(match[4]), int(match[5])
        if month > 12:
            day, month = month, day
        self.years.add(year)
        self.months.add(month)
        self.days.add(day)
        return " "

    def take(self, words: Sequence[_Word]) -> None:
        known, add = self.known, self.sequence.append
        begins, sign, at, count = True, "", 0, len(words)
        while at < count:
            word = words[at]
            kind, form, stem, sound, capital, _ = word
            here, at = at, at + 1
            if kind != _SIGN:
                sign = ""
            if kind == _END:
                begins = True
                if len(self.sequence) - self.starts[-1] >= 4:
                    self.starts.append(len(self.sequence))
                continue
            if kind == _BREAK:
                continue
            if kind == _NUMBER:
                at = self.digits(words, here)
            elif kind == _SIGN:
                self.length += 1
                if sign:
                    add(sign + form)
                elif at == count or words[at].kind != _SIGN:
                    add(form)
                sign = form
            elif form in known.months and self.is_month(words, here):
                self.months.add(known.months[form])
                add(f"month {known.months[form]}")
            elif form in known.values or form in known.scales:
                at = self.spelled(words, here)
            else:
                self.length += 1
                self.capitals += capital
                if form not in known.stop or (capital and not begins):
                    add(stem)
                    self.content.setdefault(form, word)
                    if capital:
                        following = words[at] if at < count else word
                        if not begins or following.capital or count <= 4:
                            self.names[form] = sound if len(sound) >= 3 else form
            begins = False

    def is_month(self, words: Sequence[_Word], at: int) -> bool:
        """Whether `may` or `march` is meant as a month: capitalised, or beside a number."""
        beside = words[max(0, at - 1)], words[min(at + 1, len(words) - 1)]
        return words[at].capital or not self.english or any(w.kind == _NUMBER for w in beside)

    def digits(self, words: Sequence[_Word], at: int) -> int:
        """Takes a number in digits, with the scale after it, and returns what comes next."""
        known, word = self.known, words[at]
        value, after = word.value, at + 1
        while after < len(words):
            scale = known.scales.get(words[after].form) or _HAN_UNITS.get(words[after].form)
            if scale is None or words[after].kind not in (_WORD, _SIGN):
                break
            value, after = min(value * scale, _GREATEST), after + 1
        self.sequence.append(f"{value:g}" if value != int(value) else str(int(value)))
        following = words[after] if after < len(words) else word
        whole = after == at + 1 and value == int(value)
        if whole and following.form == "月" and value <= 12:
            self.months.add(int(value))
        elif whole and len(word.form) == 4 and 1900 <= value <= 2100:
            self.years.add(int(value))
        elif whole and 1 <= value <= 31 and self.is_day(words, at):
            self.days.add(int(value))
        else:
            self.numbers[value] = None
        return after

    def is_day(self, words: Sequence[_Word], at: int) -> bool:
        """Whether the number is the day of a month, which stands beside it."""
        after = at + 1
        if after < len(words) and words[after].form in ("日", "号"):
            return True
        while after < min(len(words), at + 3) and words[after].form in _BETWEEN_DAY_AND_MONTH:
            after += 1
        if after < len(words) and words[after].form in self.known.months:
            return True
        return at > 0 and words[at - 1].form in self.known.months and self.is_month(words, at - 1)

    def spelled(self, words: Sequence[_Word], at: int) -> int:
        """Takes a number in words, and returns what comes next."""
        known, total, current, after = self.known, 0, 0, at
        while after < len(words) and words[after].kind == _WORD:
            form = words[after].form
            value, scale, tail = known.values.get(form), known.scales.get(form), current % 100
            if scale == 100:
                current = min((current or 1) * 100, int(_GREATEST))
            elif scale is not None:
                total, current = min(total + (current or 1) * scale, int(_GREATEST)), 0
            elif value is not None:
                if (current, value) == (4, 20):  # quatre-vingt
                    current = 80
                elif (
                    current == 0
                    or (tail == 0 and value < 100)
                    or (tail in range(20, 100, 10) and value < 20)
                    or (tail == 10 and value < 10)
                ):
                    current += value
                else:
                    break
            elif not (
                form in _JOINS_NUMBERS
                and after > at
                and after + 1 < len(words)
                and words[after + 1].form in known.values
            ):
                break
            after += 1
        self.numbers[float(total + current)] = None
        self.sequence.append(str(total + current))
        return after

    def reading(self, flat: str) -> Reading:
        content = tuple(self.content.values())
        spans = pairwise([*self.starts, len(self.sequence)])
        return Reading(
            flat=flat,
            length=self.length,
            sequence=tuple(self.sequence),
            terms=frozenset(self.sequence),
            sentences=tuple(frozenset(self.sequence[a:b]) for a, b in spans if a < b),
            forms=frozenset(self.content) | {w.sound for w in content if len(w.sound) >= 2},
            names=frozenset(self.names.values()),
            words=content,
            capitals=self.capitals / self.length if self.length else 0.0,
            numbers=frozenset(self.numbers),
            figures=tuple(self.numbers),
            years=frozenset(self.years),
            months=frozenset(self.months),
            days=frozenset(self.days),
        )


# --- comparing -----------------------------------------------------------------------------------

_MANY, _WHEN, _WHO, _WHERE, _WHY, _HOW, _WHICH = (
    "how many|how much|what (?:percentage|number|amount|share)|cuant|quant|combien|wie viel|скольк"
    "|kac |多少|几|hamas|ስንት|ምን ያህል|скільк|berapa|कितन",
    r"\bwhen\b|what (?:date|year|month)|cuando|quando|\bquand\b|\bwann\b|когда|ne zaman|什么时候"
    "|何时|መቼ|wanem taim|коли|kapan|कब",
    r"\bwho\b|\bquien|\bquem\b|\bqui\b|\bwer\b|\bкто\b|\bkim\b|谁|ማን|husat|хто|siapa|किस|कौन",
    r"\bwhere\b|\bdonde\b|\bonde\b|\bou\b|\bwo\b|\bгде\b|nerede|哪里|የት|\bwe\b|\bде\b|mana\b|कहा",
    r"\bwhy\b|por que|pourquoi|warum|почему|neden|为什么|为何|ለምን|bilong wanem|чому|mengapa|क्यों",
    r"\bhow\b|\bcomo\b|comment|\bwie\b|\bкак\b|nasil|如何|\bяк\b|bagaimana|कैसे",
    "which|cual|qual|quel|welch|како|hangi|哪|який|яка|mana|कौन सा",
)
_ASKED = {
    "asks_many": re.compile(_MANY),
    "asks_when": re.compile(_WHEN),
    "asks_who": re.compile(_WHO),
    "asks_where": re.compile(_WHERE),
    "asks_why": re.compile(_WHY),
    "asks_how": re.compile(_HOW),
    "asks_which": re.compile(_WHICH),
}
# The same without what a question in ASCII cannot have.
_ASKED_ASCII = {
    name: re.compile("|".join(filter(str.isascii, pattern.pattern.split("|"))))
    for name, pattern in _ASKED.items()
}
_Found = dict[str, float]


@lru_cache(4096)
def _asked(question: str) -> _Found:
    patterns = _ASKED_ASCII if question.isascii() else _ASKED
    return {name: bool(pattern.search(question)) for name, pattern in patterns.items()}


# Where the main clause of an answer ends and its details begin.
_DETAIL = re.compile(
    "[,;(]| (?:which|who|including|after|while|because|following|with|que|porque|qui|als|dass|weil"
    "|который|которая|которые|и|und|et|y|e|and) "
)

Rarity = Callable[[str], float]
"""How rare a term is, 1 to 8, in quarters: sums are then exact in whatever order."""
Phrasing = Callable[[str], Sequence[float]]
"""How much a folded text sounds like declining, by `PHRASING`, as learned from its sentences."""
PHRASING = (
    "phrasing",
    "phrasing_opening",
    "phrasing_closing",
    "phrasing_most",
    "phrasing_least",
)
"""The log odds of all sentences together; how much the first and the last, and those that sound
most and least like declining, add to them."""


def spoken(candidate: str) -> tuple[str, str]:
    """Returns an answer without its `Answer:` label, and what follows the last label inside it."""
    text = candidate[:_LIMIT]
    if ":" not in text and "：" not in text:
        return text, ""
    flat = fold(unicodedata.normalize("NFKC", text))
    labels = list(_label().finditer(flat))
    if not labels:
        return text, ""
    final = flat[labels[-1].end() :] if labels[-1].start() > 5 else ""
    if labels[0].start() <= 5:
        colon = re.search("[:：]", text)
        text = text[colon.end() :].lstrip(" *\n") if colon else text
    return text, final


def features(
    question: str,
    expected: str,
    candidate: str,
    language: str,
    rarity: Rarity,
    phrasing: Phrasing,
    vectors: WordVectors,
) -> dict[str, float]:
    """Returns what a comparison of the three texts shows, always the same names in one order.

    Args:
        question: The question.
        expected: One accepted answer.
        candidate: The answer to judge, with or without its label.
        language: ISO 639 code of the question.
        rarity: See `Rarity`.
        phrasing: See `Phrasing`.
        vectors: What words mean.

    Returns:
        Counts, ratios and distances, rounded to three decimals; -1 stands for "not applicable".
    """
    body, final = spoken(candidate)
    q, e = _reread(question[:_LIMIT], language), _reread(expected[:_LIMIT], language)
    c = read(body, language)
    said = manner(c, language, phrasing)
    rarity = {term: rarity(term) for term in q.terms | e.terms | c.terms}.__getitem__
    wanted = (e.terms - q.terms) or e.terms
    weights = {term: rarity(term) for term in wanted}
    return _rounded(
        {
            **_sizes(q, e, c, wanted, weights),
            **_overlap(q, e, c, weights, rarity),
            **_order(q, e, c, weights, rarity),
            **_sentences(q, e, c, weights, rarity),
            **_clauses(e, c, weights, language),
            **_final(c, final, wanted, weights, e.numbers - q.numbers, language),
            **_parts_told(q, e, c, expected, language),
            **_meaning(q, e, c, weights, rarity, vectors),
            **_names(q, e, c),
            **_numbers(q, e, c),
            **_figures(q, e, c, language),
            **_dates(q, e, c),
            **_contrast(e, c, language, (said["negations"], said["hedges"])),
            **said,
            **_asked(q.flat),
        }
    )


def _rounded(found: _Found) -> _Found:
    values = np.fromiter(found.values(), np.float64, len(found))
    return dict(zip(found, (np.rint(values * 1000) / 1000).tolist(), strict=True))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else -1.0


def _sizes(
    q: Reading, e: Reading, c: Reading, wanted: frozenset[str], weights: Mapping[str, float]
) -> _Found:
    return {
        "question_length": q.length,
        "expected_length": e.length,
        "expected_terms": len(e.terms),
        "wanted_terms": len(wanted),
        "wanted_share": _share(len(wanted), len(e.terms)),
        "wanted_weight": sum(weights.values()),
        "wanted_rarest": max(weights.values(), default=0),
        "wanted_rare": sum(w >= 7 for w in weights.values()),
        "wanted_middling": sum(4.5 <= w < 7 for w in weights.values()),
        "expected_in_question": _share(len(e.terms & q.terms), len(e.terms)),
    }


def _overlap(
    q: Reading, e: Reading, c: Reading, weights: Mapping[str, float], rarity: Rarity
) -> _Found:
    hit = {term: w for term, w in weights.items() if term in c.terms}
    missed = [w for term, w in weights.items() if term not in c.terms]
    new = c.terms - q.terms
    extra = [rarity(term) for term in new - e.terms]
    got, whole = sum(hit.values()), sum(weights.values())
    rare = [term in c.terms for term, w in weights.items() if w >= 7]
    common = [term in c.terms for term, w in weights.items() if w < 4.5]
    asked = q.forms
    words = [w for w in e.words if w.form not in asked and w.stem not in q.terms]
    alike = [
        w.form in c.forms or w.stem in c.terms or (len(w.sound) >= 3 and w.sound in c.forms)
        for w in words
    ]
    letters = sum(len(w.form) for w in words)
    given, due = [rarity(t) for t in c.terms], [rarity(t) for t in e.terms]
    known = sum(rarity(t) for t in c.terms if t in e.terms or t in q.terms)
    told = sum(rarity(t) for t in e.terms & c.terms)
    return _roots(c, words, alike, rarity) | {
        "expected_weighted_recall": _share(told, sum(due)),
        "known_share": _share(known, sum(given)),
        "asked_recall": _share(len(q.terms & e.terms & c.terms), len(q.terms & e.terms)),
        "recall": _share(len(hit), len(weights)),
        "weighted_recall": _share(got, whole),
        "hits": len(hit),
        "misses": len(missed),
        "hit_weight": got,
        "miss_weight": whole - got,
        "rarest_hit": max(hit.values(), default=0),
        "rarest_miss": max(missed, default=0),
        "rare_recall": _share(sum(rare), len(rare)),
        "common_recall": _share(sum(common), len(common)),
        "precision": _share(len(hit), len(new)),
        "weighted_precision": _share(got, got + sum(extra)),
        "f1": _share(2 * len(hit), len(weights) + len(new)),
        "extra": min(len(extra), 100),
        "rarest_extra": max(extra, default=0),
        "expected_recall": _share(len(e.terms & c.terms), len(e.terms)),
        "question_recall": _share(len(q.terms & c.terms), len(q.terms)),
        "similar_recall": _share(sum(alike), len(words)),
        "similar_letters": _share(
            sum(len(w.form) for w, like in zip(words, alike, strict=True) if like), letters
        ),
    }


def _roots(c: Reading, words: Sequence[_Word], alike: Sequence[bool], rarity: Rarity) -> _Found:
    """How much of each wanted word begins a word of the answer, as in `expulsion`, `expelled`."""
    begun: dict[str, list[str]] = {}
    for word in c.words:
        begun.setdefault(word.form[:3], []).append(word.form)
    near = [
        1.0
        if like
        else max((_root(w.form, other) for other in begun.get(w.form[:3], ())), default=0)
        for w, like in zip(words, alike, strict=True)
    ]
    heavy = [rarity(w.stem) for w in words]
    whole = sum(heavy)
    small = [w.form in c.forms for w in words if not w.capital]

    def told(capital: bool) -> float:
        own = [
            (w, like)
            for w, like, word in zip(heavy, alike, words, strict=True)
            if word.capital == capital
        ]
        return _share(sum(w for w, like in own if like), sum(w for w, _ in own))

    return {
        "root_recall": _share(sum(n * w for n, w in zip(near, heavy, strict=True)), whole),
        "root_least": min(near, default=-1),
        "roots_missed": sum(n < 0.5 for n in near),
        "roots_missed_weight": sum(w for n, w in zip(near, heavy, strict=True) if n < 0.5),
        "roots_share": _share(sum(w for n, w in zip(near, heavy, strict=True) if n >= 0.55), whole),
        "form_recall": _share(sum(w.form in c.forms for w in words), len(words)),
        "small_recall": _share(sum(small), len(small)),
        "small_weighted_recall": told(False),
        "capital_weighted_recall": told(True),
    }


def _root(one: str, other: str) -> float:
    """The share of two words that they begin with alike."""
    return 2 * len(commonprefix((one, other))) / (len(one) + len(other))


def _order(
    q: Reading, e: Reading, c: Reading, weights: Mapping[str, float], rarity: Rarity
) -> _Found:
    order = list(dict.fromkeys(term for term in e.sequence if term in weights))
    whole = sum(weights.values())
    hits = [term in c.terms for term in order]
    half = (len(hits) + 1) // 2
    places = [place for place, term in enumerate(c.sequence) if term in weights]
    pairs, given = _pairs(e.sequence), _pairs(c.sequence)
    longest = _longest_run(e.sequence, c.sequence)
    first = {term: place for place, term in reversed([*enumerate(c.sequence)])}
    found = [first[term] for term in order if term in first]
    kept = sum(one < other for one, other in zip(found, found[1:], strict=False))
    linked = {pair for pair in pairs if pair[0] in weights or pair[1] in weights}
    close = _close_pairs(e.sequence, weights)
    return {
        "order_kept": _share(kept, len(found) - 1) if found else -1,
        "wanted_pairs": _share(len(linked & given), len(linked)),
        "close_pairs": _share(len(close & _close_pairs(c.sequence, weights)), len(close)),
        "window_recall": _share(_densest(c.sequence, weights, max(6, len(e.sequence) + 3)), whole),
        "hit_density": _share(len(found), places[-1] - places[0] + 1) if places else -1,
        "first_three": _share(sum(hits[:3]), len(hits[:3])),
        "first_half": _share(sum(hits[:half]), half),
        "first_place": places[0] if places else 99,
        "first_place_share": _share(places[0], len(c.sequence)) if places else -1,
        "spread": places[-1] - places[0] if places else -1,
        "pairs": _share(len(pairs & given), len(pairs)),
        "pairs_known": _share(len(given & (pairs | _pairs(q.sequence))), len(given)),
        "replaced": _replaced(q, e, c, rarity),
        "longest_run_share": _share(longest, len(e.sequence)),
    }


def _pairs(sequence: Sequence[str]) -> set[tuple[str, str]]:
    return set(zip(sequence, sequence[1:], strict=False))


def _close_pairs(sequence: Sequence[str], weights: Mapping[str, float]) -> set[tuple[str, str]]:
    """Two wanted terms, the second at most three after the first."""
    places = [place for place, term in enumerate(sequence) if term in weights]
    return {
        (sequence[one], sequence[other])
        for n, one in enumerate(places)
        for other in places[n + 1 : n + 4]
        if other - one <= 3
    }


def _densest(sequence: Sequence[str], weights: Mapping[str, float], width: int) -> float:
    """The most weight of distinct wanted terms that stand within `width` terms."""
    places = [place for place, term in enumerate(sequence) if term in weights]
    inside: Counter[str] = Counter()
    most = weight = 0.0
    start = 0
    for place in places:
        term = sequence[place]
        weight += 0 if inside[term] else weights[term]
        inside[term] += 1
        while places[start] <= place - width:
            gone = sequence[places[start]]
            inside[gone] -= 1
            weight -= 0 if inside[gone] else weights[gone]
            start += 1
        most = max(most, weight)
    return most


def _replaced(q: Reading, e: Reading, c: Reading, rarity: Rarity) -> float:
    """How telling the terms are that stand in another's place, between the same neighbours."""
    due, given = Counter(e.sequence), Counter(c.sequence)
    place = {term: at for at, term in enumerate(c.sequence)}
    shared = [
        (at, place[term]) for at, term in enumerate(e.sequence) if due[term] == given[term] == 1
    ]
    if len(c.sequence) <= len(e.sequence) + 3:
        shared = [(-1, -1), *shared, (len(e.sequence), len(c.sequence))]
    most = 0.0
    for (left, before), (right, after) in zip(shared, shared[1:], strict=False):
        if 2 <= right - left <= 5 and 2 <= after - before <= 5:
            lost = [rarity(t) for t in e.sequence[left + 1 : right] if t not in c.terms]
            new = [
                rarity(t)
                for t in c.sequence[before + 1 : after]
                if t not in e.terms and t not in q.terms
            ]
            most = max(most, min(max(lost, default=0), max(new, default=0)))
    return most


def _longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """The most terms that stand in the same order, without a gap, in both."""
    text, best = f" {' '.join(other)} ", 0
    for start in range(len(one)):
        while start + best < len(one) and f" {' '.join(one[start : start + best + 1])} " in text:
            best += 1
    return best


def _sentences(
    q: Reading, e: Reading, c: Reading, weights: Mapping[str, float], rarity: Rarity
) -> _Found:
    """Overlap of the one sentence, and of the two neighbours, that hold most of what is wanted."""
    whole = sum(weights.values())
    hits = [weights.keys() & s for s in c.sentences]
    first = sum(weights[t] for t in hits[0]) if hits else 0.0
    opening = c.sentences[0] - q.terms if c.sentences else frozenset()
    besides = sum(rarity(t) for t in opening - e.terms)
    found: _Found = {
        "opening_recall": _share(first, whole),
        "opening_weighted_precision": _share(first, first + besides),
        "opening_weighted_f1": _share(2 * first, whole + first + besides),
        "last_sentence_recall": _share(sum(weights[t] for t in hits[-1]), whole) if hits else -1,
        "opening_repeats_question": _share(len(c.sentences[0] & q.terms), len(q.terms))
        if c.sentences
        else -1,
    }
    told = [(0.0, 0.0)]
    for sentence, hit in zip(c.sentences, hits, strict=True):
        if hit:
            got_here = sum(weights[t] for t in hit)
            all_here = got_here + sum(rarity(t) for t in sentence - e.terms - q.terms)
            told.append((2 * got_here / (whole + all_here), got_here / all_here))
    found["best_f1"], found["best_precision"] = max(told)
    for name, span in (("sentence", 1), ("neighbours", 2)):
        best, place, got = 0.0, 0, set[str]()
        for at in range(len(hits)):
            both = set().union(*hits[at : at + span])
            weight = sum(weights[t] for t in both)
            if weight > best:
                best, place, got = weight, at, both
        window = frozenset().union(*c.sentences[place : place + span]) if got else frozenset()
        new = window - q.terms
        extra = {t: rarity(t) for t in new - e.terms}
        heavy = sum(extra.values()) + sum(weights[t] for t in got)
        found |= {
            f"{name}_recall": _share(best, whole),
            f"{name}_precision": _share(len(got), len(new)),
            f"{name}_weighted_precision": _share(best, heavy),
            f"{name}_f1": _share(2 * len(got), len(weights) + len(new)),
            f"{name}_weighted_f1": _share(2 * best, whole + heavy),
            f"{name}_extra": len(extra),
            f"{name}_extra_numbers": sum(t[0].isdecimal() for t in extra),
        }
    return found


def _clauses(e: Reading, c: Reading, weights: Mapping[str, float], language: str) -> _Found:
    """Recall of the expected answer's main clause, and of the details after it."""
    ends = next((m.start() for m in _DETAIL.finditer(e.flat) if m.start() >= 8), None)
    if ends is None:
        return {"main_terms": 0, "main_recall": -1, "detail_recall": -1}

    def heavy(terms: Set[str]) -> float:
        return _share(sum(weights[t] for t in terms & c.terms), sum(weights[t] for t in terms))

    main = weights.keys() & _terms(e.flat[:ends], language)
    detail = weights.keys() - main
    return {
        "main_terms": len(main),
        "main_recall": heavy(main),
        "detail_recall": heavy(detail),
    }


_PART = re.compile("[;，；、፣&]|,(?!\\d)| (?:and|or|as well as|y|e|et|und|и|ve|na|dan|та|እና|और) ")


@lru_cache(4096)
def _parts(expected: str, language: str) -> tuple[frozenset[str], ...]:
    return tuple(_terms(part, language) for part in _PART.split(expected[:_LIMIT])[:40])


def _parts_told(q: Reading, e: Reading, c: Reading, expected: str, language: str) -> _Found:
    """How much the answer has of each part of a list, or of each clause."""
    parts = [part - q.terms for part in _parts(expected, language)]
    told = [len(part & c.terms) / len(part) for part in parts if part]
    return {
        "parts": len(told),
        "parts_untold": sum(share == 0 for share in told),
        "parts_half_told": sum(share < 0.5 for share in told),
        "part_least": min(told, default=-1),
        "part_first": told[0] if told else -1,
        "part_last": told[-1] if told else -1,
        "part_mean": _share(sum(told), len(told)),
    }


def _meaning(
    q: Reading,
    e: Reading,
    c: Reading,
    weights: Mapping[str, float],
    rarity: Rarity,
    vectors: WordVectors,
) -> _Found:
    """How near in meaning the answer comes to what is wanted."""
    wanted, given = [*weights], [*dict.fromkeys(c.sequence)]
    if not wanted or not given:
        return dict.fromkeys(_MEANING, -1.0)
    due, asked = [*dict.fromkeys(e.sequence)], [*q.terms]
    place = {term: n for n, term in enumerate(given)}
    due_place = {term: n for n, term in enumerate(due)}
    wanted_due = [due_place[term] for term in wanted]
    new = [n for n, term in enumerate(given) if term not in q.terms]
    every = [*given, *due, *asked]
    rows = vectors.of(every)
    ends = len(given), len(given) + len(due)
    like = likeness(rows[ends[0] : ends[1]], rows[: ends[0]])
    nearest = like.max(1).tolist()
    best = [nearest[n] for n in wanted_due]
    heavy = list(weights.values())
    for n, term in enumerate(wanted):
        if term in place:
            best[n] = 1.0
    missed = [n for n, term in enumerate(wanted) if term not in place]
    missed_weight = sum(heavy[n] for n in missed)
    nearest = like.max(0).tolist()
    explained = [1.0 if given[n] in e.terms else nearest[n] for n in new]
    loads = [*map(rarity, every)]
    new_heavy = [loads[n] for n in new]
    # Sums of vectors, each of other terms. Quarters and whole numbers: all sums are exact.
    parts = [[place[term] for term in sentence - q.terms] for sentence in c.sentences[:20]]
    chosen = np.zeros((5 + len(parts), len(every)))
    chosen[0, [ends[0] + n for n in wanted_due]] = 1
    chosen[1, : ends[0]] = 1
    chosen[2, new] = 1
    chosen[3, ends[0] : ends[1]] = 1
    chosen[4, ends[1] :] = 1
    for n, part in enumerate(parts, 5):
        chosen[n, part] = 1
    want, said, fresh, meant, put, *told = chosen @ (rows * (4 * np.array(loads))[:, None])
    near = [nearness(want, one) for one in told]
    found = (
        _share(sum(b * w for b, w in zip(best, heavy, strict=True)), sum(heavy)),
        min(best),
        sum(best) / len(best),
        sum(b < 0.4 for b in best),
        _share(sum(w for b, w in zip(best, heavy, strict=True) if b > 0.6), sum(heavy)),
        _share(sum(best[n] * heavy[n] for n in missed), missed_weight) if missed else 1.5,
        min((best[n] for n in missed), default=1.5),
        _share(sum(b * w for b, w in zip(explained, new_heavy, strict=True)), sum(new_heavy)),
        min(explained, default=-1),
        nearness(want, said),
        nearness(want, fresh),
        nearness(meant, said),
        nearness(put, said),
        nearness(put, meant),
        max(near, default=-1),
        near[0] if near else -1,
    )
    return dict(zip(_MEANING, map(float, found), strict=True))


_MEANING = (
    *("near_recall", "near_least", "near_mean", "far", "near_share", "near_missed"),
    *("near_missed_least", "near_precision", "near_precision_least", "near_wanted", "near_new"),
    *("near_expected", "near_question", "near_question_expected", "near_sentence", "near_opening"),
)


def _final(
    c: Reading,
    final: str,
    wanted: frozenset[str],
    weights: Mapping[str, float],
    numbers: frozenset[float],
    language: str,
) -> _Found:
    """The same of what a long answer gives as its last word; of all of it where it does not."""
    last = read(final, language) if final else c
    return {
        "final_length": min(last.length, 100),
        "final_recall": _share(sum(weights[t] for t in wanted & last.terms), sum(weights.values())),
        "final_numbers": numbers <= last.numbers if numbers else -1,
    }


def _names(q: Reading, e: Reading, c: Reading) -> _Found:
    names = e.names - q.forms
    missed = len(names - c.forms)
    new = len(c.names - e.forms - q.forms)
    return {
        "names": len(names),
        "names_recall": _share(len(names) - missed, len(names)),
        "names_missed": missed,
        "names_new": min(new, 20),
        "names_exchanged": min(missed, new),
        "expected_capitals": e.capitals,
    }


def _distance(one: float, other: float) -> float:
    return abs(one - other) / max(abs(one), abs(other), 1e-9)


def _numbers(q: Reading, e: Reading, c: Reading) -> _Found:
    numbers, given = e.numbers - q.numbers, c.numbers - q.numbers
    hit = len(numbers & c.numbers)
    nearest = [min(_distance(n, m) for m in c.numbers) for n in numbers] if c.numbers else []
    greatest = max(numbers, default=0.0)
    closest = min(c.numbers, key=lambda n: (_distance(n, greatest), n), default=0.0)
    both = bool(numbers and c.numbers)
    return {
        "numbers": len(numbers),
        "numbers_missed": len(numbers) - hit,
        "numbers_recall": _share(hit, len(numbers)),
        "numbers_all": numbers <= c.numbers if numbers else -1,
        "numbers_new": min(len(given - e.numbers), 10),
        "numbers_given": min(len(given), 10),
        "number_nearest": min(nearest, default=-1),
        "number_farthest": max(nearest, default=-1),
        "number_greatest_off": _distance(greatest, closest) if both else -1,
        "number_greatest_above": closest >= greatest if both else -1,
        "number_size": sum(greatest >= size for size in (1, 3, 10, 30, 100, 1e3, 1e5, 1e7)),
    }


@lru_cache(8192)
def _bounded(flat: str, language: str) -> tuple[bool, bool]:
    """Whether numbers in a folded text are lower bounds, and whether they are rounded."""
    least, about = _phrases(flat, _scripts(flat), language, ("least", "about"))
    return bool(least), bool(about)


def _figures(q: Reading, e: Reading, c: Reading, language: str) -> _Found:
    """The first number that is wanted beside the first one given; whether it fits its bounds."""
    due = [n for n in e.figures if n not in q.numbers]
    given = [n for n in c.figures if n not in q.numbers]
    least, about = _bounded(e.flat, language)
    least_said, about_said = _bounded(c.flat, language)
    found: _Found = {
        "least_due": least,
        "about_due": about,
        "least_said": least_said,
        "about_said": about_said,
        "figure_given": due[0] in c.numbers if due else -1,
    }
    if not due or not given:
        return found | dict.fromkeys(_FIGURES, -1)
    first = due[0]
    off = [_distance(first, n) for n in given]

    def fit(n: float, off: float) -> int:
        if off == 0:
            return 3
        if (least and first <= n <= 2 * first) or (least_said and n <= first <= 1.5 * n):
            return 2
        if (about or about_said) and off < 0.1:
            return 2
        return int(off < 0.03)

    def adds_up(parts: Sequence[float], whole: Sequence[float]) -> bool:
        return len(parts) > 1 and (sum(parts[:2]) in whole or sum(parts) in whole)

    values = (
        given[0] == first,
        off[0],
        given[0] >= first,
        off[-1],
        given[0] in due[1:],
        max(map(fit, given, off)),
        adds_up(due, given) or adds_up(given, due),
    )
    return found | dict(zip(_FIGURES, map(float, values), strict=True))


_FIGURES = (
    *("figure_same", "figure_off", "figure_above", "figure_last_off", "figure_other"),
    *("figure_fits", "figure_adds_up"),
)


def _dates(q: Reading, e: Reading, c: Reading) -> _Found:
    found: _Found = {}
    for name in ("years", "months", "days"):
        asked, due, given = (frozenset(getattr(r, name)) for r in (q, e, c))
        new = due - asked
        found |= {
            f"{name}_wanted": len(new),
            f"{name}_recall": _share(len(new & given), len(new)),
            f"{name}_new": min(len(given - due - asked), 5),
            f"{name}_clash": bool(due and given and not due & given),
        }
    return found


_CONTRAST = ("negation", "hedge")


@lru_cache(8192)
def _due(expected: str, language: str) -> tuple[int, ...]:
    """How often an expected answer denies and hedges."""
    return tuple(map(len, _phrases(expected, _scripts(expected), language, _CONTRAST)))


def _contrast(e: Reading, c: Reading, language: str, said: Sequence[float]) -> _Found:
    """What the answer denies, leaves open or turns round more than the expected one does."""
    due = _due(e.flat, language)
    opposed = sum(
        (one in e.flat) != (other in e.flat)
        and (one in c.flat) != (other in c.flat)
        and (one in e.flat) != (one in c.flat)
        for one, other in lexicon(language).opposites
    )
    return {
        "negations_more": said[0] - min(due[0], 8),
        "hedges_more": said[1] - min(due[1], 8),
        "opposites": min(opposed, 4),
        "within_expected": len(c.flat) > 3 and c.flat.strip(" .") in e.flat,
    }


def manner(c: Reading, language: str, phrasing: Phrasing) -> _Found:
    """Returns how an answer is said, whatever the question: phrases that decline, its length."""
    scripts = _scripts(c.flat)
    kinds = (*_DECLINING, *_CONTRAST)
    said = dict(zip(kinds, _phrases(c.flat, scripts, language, kinds), strict=True))
    negations, hedges = (said.pop(kind) for kind in _CONTRAST)
    size = len(c.flat)
    found: _Found = {}
    for kind, places in said.items():
        found |= {
            f"{kind}_said": min(len(places), 4),
            f"{kind}_first": min(places[0], 700) if places else 700,
        }
    for kind in ("lacking", "unstated", "unreal", "advice"):
        found[f"{kind}_last"] = min(size - said[kind][-1], 700) if said[kind] else 700
    declines = sorted(place for kind in _REFUSING for place in said[kind])
    labels = list(_label().finditer(c.flat)) if ":" in c.flat else []
    closing = c.flat[labels[-1].end() :].lstrip(" *\n") if labels else ""
    last = _phrases(closing, scripts, language, _REFUSING) if closing else ()
    return found | {
        "closing_length": min(len(closing), 700) if labels else -1,
        "closing_declines": min(sum(map(len, last)), 10) if labels else -1,
        "declines": min(len(declines), 10),
        "declines_kinds": sum(bool(places) for kind, places in said.items() if kind != "tells"),
        "declines_density": _share(len(declines), c.length),
        "declines_first": min(declines[0], 700) if declines else 700,
        "declines_last": min(size - declines[-1], 900) if declines else 900,
        "negations": min(len(negations), 8),
        "hedges": min(len(hedges), 8),
        "candidate_length": min(c.length, 250),
        "candidate_chars": min(size, 1600),
        "candidate_terms": min(len(c.terms), 150),
        "candidate_capitals": c.capitals,
        "candidate_density": _share(len(c.sequence), c.length),
        "sentences": min(len(c.sentences), 15),
        "script": next((n for n, s in enumerate(_SCRIPTS) if n and s in scripts), 0),
        "english": language == "en",
        **dict(zip(PHRASING, phrasing(c.flat), strict=True)),
    }


_GRAM = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+(?:'[^\W\d_]+)?|\d+")


_SENTENCE = re.compile(rf"(?<=[{_ENDS}])\s+|\n+|(?<=[{_WIDE_ENDS}])")
_SHORT_SENTENCE = 25


def sentence_sequences(flat: str) -> list[set[int]]:
    """Returns the `word_sequences` of each sentence of a folded text; of one at least.

    A very short sentence, or what an abbreviation made of one, is part of the next.
    """
    sentences = [""]
    for part in filter(str.strip, _SENTENCE.split(flat)):
        if len(sentences[-1]) < _SHORT_SENTENCE:
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return [word_sequences(sentence) for sentence in sentences]


def word_sequences(flat: str) -> set[int]:
    """Returns all sequences of one to three words of a sentence, any number as 0.

    They are known by their `checksum`, that of a longer one continued from the shorter one's.
    """
    words = ["0" if w[0].isdecimal() else w for w in _GRAM.findall(flat)]
    if not words:
        return set()
    text = "\n".join(words).encode("utf-8", "surrogatepass")
    single = [*map(crc32, text.split(b"\n"))]
    following = text.replace(b"\n", b"\n ").split(b"\n")[1:]
    pairs = [*map(crc32, following, single)]
    return {*single, *pairs, *map(crc32, following[1:], pairs)}
