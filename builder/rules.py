"""What makes a question, an answer, a translation good or bad: pure, each rule with a code.

`select` picks by these rules and `check` flags by them, so that neither can know better. A code is
what a flag, a Drop and a share in run.toml call it; `FLAGS` says what each means.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from rapidfuzz import fuzz, process

from builder.languages import likelihood
from tiebe.regions import LANGUAGES

__all__ = [
    "ARTICLE",
    "FLAGS",
    "HARD",
    "MONTHS",
    "RULES",
    "SHARES",
    "TRANSLATION",
    "WRONG_ARTICLE",
    "Pair",
    "Translation",
    "after_cutoff",
    "alike",
    "broken",
    "plain",
    "rank",
    "same_question",
    "says",
    "stands_for",
    "translation_faults",
    "wrong_date",
]

ANSWER_LIMIT = 200
"""Characters of an answer."""

MONTHS = (
    "January February March April May June July August September October November December".split()
)
_MONTH = "|".join(MONTHS)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_WORD = re.compile(r"[^\W_]+")
_DIACRITICS = re.compile("[\u0300-\u036f]+")
_NAME = re.compile(r"(?<![\w'’.-])[^\W\d_a-z][\w-]*")
# May and March are words besides: they are months after a preposition, a day, or before a number.
_MONTH_NAMED = re.compile(
    rf"(?P<before>\b(?:in|on|of|by|until|since|during|from|to|through|after|before|between|and"
    rf"|early|mid|late)[ -]|\d(?:st|nd|rd|th)? )?\b(?P<month>{_MONTH})\b"
    r"(?P<day>\s+\d{1,2}(?:st|nd|rd|th)?(?!\d))?,?(?:\s+(?:of\s+)?(?P<year>(?:19|20)\d\d))?"
)
_SELF_REFERENCE = re.compile(
    r"\b(?:the|this|that) (?:(?:news )?(?:article|story|text|passage|excerpt))s?\b"
    r"|\b(?:this|that) (?:event|incident|report|document|news|country|person)\b"
    r"|\baccording to (?:it|the (?:article|report|text|source|event|author|description))s?\b"
    r"|\b(?:reported|reportedly|mentioned|described)\b",
    re.IGNORECASE,
)
_ASKS = r"(?:what|which|who|whom|whose|where|when|why|how)"
_PRESENT = re.compile(
    rf"^(?:[^,?]*, )?(?:\w+ )?{_ASKS}(?: \w+){{0,3}}?\s+(?:is|are|does|do|will|has|have)\b", re.I
)
_WHEN = re.compile(r"\bwhen\b|\b(?:what|which) (?:\w+ )?(?:date|day|month|year)s?\b", re.I)
_YES_NO = re.compile(
    r"(?:[^,?]{3,60}, )?(?:is|are|was|were|did|do|does|has|have|had|can|could|will|would|should)\b",
    re.I,
)
_CHANGING = re.compile(
    r"\b(?:currently|at present|nowadays|so far|to date|as of|up to now|until now|at the moment"
    r"|still (?:is|are)|(?:is|are) still)\b",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NO_ANSWER = re.compile(
    r"\b(?:not|n't) (?:been )?(?:specified|mentioned|stated|known|given|provided|disclosed"
    r"|available)\b|^(?:unknown|none|n/?a|unclear)\W*$",
    re.I,
)
_MARKUP = re.compile(r"[{}`\ufffd]|\*\*|</?[a-zA-Z]+[^<>]{0,99}>|\\[nrtu\"]|\bhttps?://")
_FUNCTION_WORDS = frozenset(
    "a an and are as at be been by for from had has have he her his in is it its of on or she that "
    "the their they this to was were with".split()
)
_SMALL_WORDS = frozenset(
    "a about after all also an and any are around as at be been before being but by can could did "
    "do does during each few first for from had has have he her him his how in into is it its last "
    "least many more most much new no not of on one or other out over people person second several "
    "she so some such than that the their them then there these they third this those three to two "
    "under up was were what when where which while who whom whose why will with would year years "
    "yes between following according name day date month main country government national number "
    "approximately died killed injured event events took place happened".split()
)
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SPELLED = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<units>{'|'.join(_UNITS[1:10])}))?"
    rf"|(?P<small>{'|'.join(_UNITS)}))\b",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """Returns a text in lower case without diacritics."""
    if text.isascii():
        return text.casefold()
    parts = unicodedata.normalize("NFKD", text.casefold().replace("ı", "i"))
    return _DIACRITICS.sub("", parts)


def plain(text: str) -> str:
    """Returns the words of a text, in lower case and without diacritics."""
    return " ".join(_WORD.findall(fold(text)))


# ---- questions and answers


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, and what they rest on; what is not known is empty."""

    question: str
    answer: str
    region: str = ""
    """A slug."""
    start: str = ""
    """The event's, `YYYY-MM-DD` or `YYYY-MM`."""
    end: str = ""
    event: str = ""
    """The event's text."""
    title: str = ""
    """The article's."""
    text: str = ""
    """The article's."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a question with its answer must not be."""

    says: str
    """What is wrong with those that break it."""
    breaks: Callable[[Pair], bool]


def _asks_when(pair: Pair) -> bool:
    """Whether the date is what is asked for, so that the question cannot name it."""
    return bool(_WHEN.search(pair.question))


def _months(text: str) -> Iterator[tuple[int, str | None]]:
    """Yields the months that a text names, each with its year where it has one."""
    for found in _MONTH_NAMED.finditer(text):
        sure = found["before"] or found["day"] or found["year"]
        if sure or found["month"] not in ("March", "May", "August"):
            yield MONTHS.index(found["month"]) + 1, found["year"]


def _another_month(pair: Pair) -> bool:
    """Whether the question names months, and neither the event's date nor its text has one."""
    named = list(_months(pair.question))
    if not named or not pair.start:
        return False
    if {month for month, _ in named} & {month for month, _ in _months(pair.event)}:
        return False
    first, last = pair.start[:7], (pair.end or pair.start)[:7]
    years = _YEAR.findall(pair.question) or [pair.start[:4]]
    return not any(
        (len(first) == 4 and own == first) or first <= f"{own}-{month:02}" <= last
        for month, year in named
        for own in ([year] if year else years)
    )


def _entities(text: str) -> set[str]:
    """The capitalized words of a sentence, but for its first one and months."""
    first = _WORD.search(text)
    names = _NAME.finditer(text, first.end() if first else 0)
    return {m[0] for m in names} - set(MONTHS)


def _topics(text: str) -> set[str]:
    """The beginnings of the words that tell what a text is about; months and years do not."""
    small = {month.casefold() for month in MONTHS} | _SMALL_WORDS
    return {
        word[:5]
        for word in _WORD.findall(fold(text))
        if (len(word) > 2 or word.isdigit()) and word not in small and not _YEAR.fullmatch(word)
    }


def _shared(pair: Pair) -> tuple[int, int]:
    """How many topics question and answer each share with the event and its article's title."""
    about = _topics(f"{pair.event} {pair.title}") - _topics(pair.region.replace("_", " "))
    return len(_topics(pair.question) & about), len(_topics(pair.answer) & about)


def _off_event(pair: Pair) -> bool:
    if not pair.event:
        return False
    of_question, of_answer = _shared(pair)
    return not of_question and of_answer < 2


def _figures(text: str) -> set[str]:
    """The numbers of a text without separators, those spelled out in English among them."""
    found = set()
    for figure in re.findall(_NUMBER, _ungrouped(text)):
        whole, _, part = figure.replace(",", ".").partition(".")
        part = part.rstrip("0")
        found.add((whole.lstrip("0") or "0") + (f".{part}" if part else ""))
    for spelled in _SPELLED.finditer(text):
        tens, units, small = (part and part.casefold() for part in spelled.groups())
        value = 10 * (_TENS.index(tens) + 2) if tens else 0
        value += _UNITS.index(units or small) if units or small else 0
        found.add(str(value))
    return found


def _named(answer: str) -> set[str]:
    """The names in an answer; the first word of a phrase is one, that of a sentence need not be."""
    names = {name for sentence in _SENTENCE.split(answer) for name in _entities(sentence)}
    first = _NAME.match(answer.strip())
    if first and (len(answer.split()) <= 3 or not re.search(r"[.!?]\W*$", answer)):
        word = first[0].casefold()
        if word not in _SMALL_WORDS and not _SPELLED.match(word) and first[0] not in MONTHS:
            names.add(first[0])
    return names


def _ungrounded(pair: Pair) -> bool:
    """Whether a number or a name of the answer does not occur in what it was written from.

    In an article in another language than English small numbers may be spelled out, and names are
    spelled otherwise: one is enough, and none is asked for where the script is another.
    """
    if not pair.text.strip():
        return False
    head = pair.text[:2000]
    english = likelihood(head, "en") >= 0.5
    source = f"{pair.text} {pair.title} {pair.event} {pair.question} {pair.start} {pair.end}"
    least = 2 if english else 13
    figures = {figure for figure in _figures(pair.answer) if float(figure) >= least}
    if figures and figures - _figures(source):
        return True
    parts = [fold(part) for name in _named(pair.answer) for part in name.split("-")]
    parts = [part for part in parts if len(part) > 2]
    if not parts:
        return False
    source = fold(source)
    missing = [part for part in parts if part[: max(4, len(part) - 3)] not in source]
    if english:
        return bool(missing)
    latin = sum(c.isascii() for c in head if c.isalpha()) > len(head) / 3
    return latin and len(parts) > 1 and len(missing) == len(parts)


def _adds_nothing(pair: Pair) -> bool:
    said = set(plain(pair.answer).split())
    new = said - _FUNCTION_WORDS - set(plain(pair.question).split())
    return bool(said) and (not new or (len(said) > 1 and _within(pair.question, pair.answer)))


RULES: Mapping[str, Rule] = {
    "empty": Rule(
        "question or answer is empty",
        lambda p: not _WORD.search(p.question) or not _WORD.search(p.answer),
    ),
    "no_question": Rule(
        "it does not end with a question mark",
        lambda p: not re.search(r"[?？]\W*$", p.question),
    ),
    "markup": Rule(
        "there is markup or an address in it",
        lambda p: bool(_MARKUP.search(f"{p.question}\n{p.answer}")),
    ),
    "not_anchored": Rule(
        "it names neither a month nor a year, and does not ask for the date",
        lambda p: not (_YEAR.search(p.question) or any(_months(p.question)) or _asks_when(p)),
    ),
    "question_month": Rule("it names another month than the event's", _another_month),
    "question_no_entity": Rule(
        "it names nobody, no place, nothing that has a name",
        lambda p: not _entities(p.question),
    ),
    "question_off_event": Rule("it shares no word with the event that it is on", _off_event),
    "self_reference": Rule(
        "it speaks of an article, of “this event” or of what was reported",
        lambda p: bool(_SELF_REFERENCE.search(p.question)),
    ),
    "yes_no": Rule(
        "it can be answered by yes or no",
        lambda p: bool(_YES_NO.match(p.question) or re.match(r"(?:yes|no)\b", p.answer, re.I)),
    ),
    "present_tense": Rule(
        "it is in the present or future tense", lambda p: bool(_PRESENT.match(p.question))
    ),
    "changing": Rule("its answer was still changing", lambda p: bool(_CHANGING.search(p.question))),
    "no_answer": Rule(
        "the answer says that there is none", lambda p: bool(_NO_ANSWER.search(p.answer))
    ),
    "answer_over_200": Rule(
        f"the answer is longer than {ANSWER_LIMIT} characters",
        lambda p: len(p.answer) > ANSWER_LIMIT,
    ),
    "answer_in_question": Rule("the answer adds nothing to the question", _adds_nothing),
    "not_grounded": Rule(
        "a name or a number of the answer does not occur in the article", _ungrounded
    ),
    "question_no_year": Rule("it names no year", lambda p: not _YEAR.search(p.question)),
}
"""What is looked for in each question."""

HARD = frozenset(RULES) - {"question_no_year"}
"""Rules that a selected question never breaks; the others only put it behind better ones."""


def broken(pair: Pair) -> tuple[str, ...]:
    """Returns the codes of the rules that a question and its answer break."""
    return tuple(code for code, rule in RULES.items() if rule.breaks(pair))


def rank(pair: Pair, faults: Sequence[str]) -> tuple[int, ...]:
    """Returns how good a question is that breaks no hard rule: the lowest is the best.

    A year before none, then the closer to the event's own words (three are close), then the answer
    that is a name or a number before a sentence.

    Args:
        pair: The question.
        faults: The rules that it breaks.
    """
    return (
        len(faults),
        -min(3, sum(_shared(pair))),
        len(pair.answer) > ANSWER_LIMIT // 2,
    )


# ---- the event's date


_BEGINS = re.compile(
    rf"\W*(?:(?:on|in|early|mid|late|end of)[ -])?(?:\d{{1,2}}\s*(?:[-–—]\s*\d{{1,2}}\s*)?)?"
    rf"(?P<month>{_MONTH})\b(?!\s+(?:\d{{4}}\s+)?[A-Z][a-z]+ (?:agreement|treaty))",
    re.IGNORECASE,
)


def wrong_date(text: str, start: str, end: str | None, page_title: str) -> bool:
    """Whether an event's date contradicts its text, its page or itself.

    Args:
        text: The event's, as it stands on the page.
        start: `YYYY-MM-DD` or `YYYY-MM`.
        end: The same, or None.
        page_title: Holds the year of the page.
    """
    if end and end < start[: len(end)]:
        return True
    if (year := _YEAR.search(page_title)) and not start[:4] <= year[0] <= (end or start)[:4]:
        return True
    begins = _BEGINS.match(text)
    if not begins or len(start) < 7:
        return False
    month = [name.casefold() for name in MONTHS].index(begins["month"].casefold()) + 1
    return not start[5:7] <= f"{month:02}" <= (end or start)[5:7]


def after_cutoff(cutoff: str) -> str:
    """Returns the code of rows after a release's last month: `after_april_2025`.

    Args:
        cutoff: `YYYY-MM`.
    """
    year, month = cutoff.split("-")
    return f"after_{MONTHS[int(month) - 1].lower()}_{year}"


# ---- the same question twice

_ALIKE = (84.0, 60.0), (78.0, 88.0)
"""From which likeness of question and answer on, 0 to 100, two may be the same."""
_SURELY = (94.0, 95.0)
"""From which on a single name more or less does not tell them apart."""
_ORDINALS = frozenset("first second third fourth fifth sixth seventh eighth ninth tenth".split())
_BATCH = 512


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with its answer, as far as it is compared."""

    words: str
    ordered: str
    """The words by the alphabet."""
    answer: str
    marks: frozenset[str]
    """The names, numbers and ordinals of the question, but for its first word."""


def _asked(question: str, answer: str) -> _Asked:
    _, *words = _WORD.findall(question) or [""]
    marks = (w for w in words if w[0].isupper() or w[0].isdigit() or w in _ORDINALS)
    plainly = plain(question)
    ordered = " ".join(sorted(plainly.split()))
    return _Asked(plainly, ordered, plain(answer), frozenset(map(fold, marks)))


def same_question(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """Whether two questions, each with its answer, ask the same.

    Alike are those whose words are nearly the same in any order and whose answers agree, unless
    each has a name or number of its own: the winner of 2018 is not the winner of 2019.
    """
    one, other = _asked(*a), _asked(*b)
    likeness = max(fuzz.ratio(one.words, other.words), fuzz.ratio(one.ordered, other.ordered))
    return _same(one, other, likeness)


def _same(a: _Asked, b: _Asked, likeness: float) -> bool:
    if a.words == b.words:
        return True
    mine, yours = a.marks - b.marks, b.marks - a.marks
    if any(m.isdigit() for m in mine) and any(m.isdigit() for m in yours):
        return False
    answers = fuzz.token_set_ratio(a.answer, b.answer)
    if not any(likeness >= q and answers >= r for q, r in _ALIKE):
        return False
    if likeness >= _SURELY[0] and answers >= _SURELY[1]:
        return True
    return not (_alone(mine, yours) and _alone(yours, mine))


def _alone(marks: Set[str], others: Set[str]) -> list[str]:
    """Those marks that are not just spelled or inflected otherwise among the others."""
    return [
        mark
        for mark in marks
        if not any(
            fuzz.ratio(mark, other) >= 75 or (mark[:4] == other[:4] and not mark.isdigit())
            for other in others
        )
    ]


def alike(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yields the positions i < j of those that ask the same, see `same_question`.

    Args:
        pairs: Questions with their answers; a few thousand.
    """
    asked = [_asked(question, answer) for question, answer in pairs]
    forms = [one.words for one in asked], [one.ordered for one in asked]
    least = min(q for q, _ in _ALIKE)
    for start in range(0, len(asked), _BATCH):
        likeness = np.maximum(
            *(
                process.cdist(
                    form[start : start + _BATCH],
                    form[start:],
                    scorer=fuzz.ratio,
                    score_cutoff=least,
                )
                for form in forms
            )
        )
        for row, column in zip(*np.nonzero(likeness), strict=True):
            i, j = start + int(row), start + int(column)
            if i < j and _same(asked[i], asked[j], float(likeness[row, column])):
                yield i, j


# ---- translations


@dataclass(frozen=True, slots=True)
class Translation:
    """A question and its answer in English and in another language."""

    english: tuple[str, str]
    native: tuple[str, str]
    language: str
    """ISO 639 code."""


_SCRIPTS = {
    "Latn": re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"),
    "Cyrl": re.compile(r"[\u0400-\u04ff]"),
    "Hans": re.compile(r"[\u3400-\u9fff\uf900-\ufaff]"),
    "Deva": re.compile(r"[\u0900-\u097f]"),
    "Ethi": re.compile(r"[\u1200-\u139f]"),
}
_LENGTH = {"am": 0.67, "zh": 0.31}
"""Characters of a translation for each of the original, where it is far from 1."""
_LETTER = "A-Za-z\\u00c0-\\u024f\\u0400-\\u04ff"
# An apostrophe stands between letters (of scripts that have it), a quotation mark does not.
_QUOTE = re.compile(rf"[\"“”„«»‟「」『』《》‹›]|(?<![{_LETTER}])['‘’‚]|['‘’](?![{_LETTER}])")
_QUOTED = re.compile(r"[\"“”]")
_ENDS = re.compile(r"[.!?。！？।॥።፡፧…]\W*$")


def _own_script(t: Translation) -> float:
    """The share of the question's letters that are of the language's script."""
    letters = [c for c in t.native[0] if c.isalpha()]
    script = _SCRIPTS[LANGUAGES[t.language].script]
    return sum(bool(script.match(c)) for c in letters) / max(1, len(letters))


def _in_english(t: Translation) -> bool:
    if len(t.english[0].split()) < 4:
        return False
    if plain(t.english[0]) == plain(t.native[0]):
        return True
    text = " ".join(t.native)
    return likelihood(text, "en") >= 0.6 and likelihood(text, t.language) < 0.2


def _another_language(t: Translation) -> bool:
    text = " ".join(t.native)
    return len(text) >= 20 and not _in_english(t) and likelihood(text, t.language) < 0.2


_NUMBER = r"\d+(?:[.,]\d+)?"
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")


def _ungrouped(text: str) -> str:
    """A text with digits of 0 to 9 and no separators between thousands."""
    digits = _OTHER_DIGIT.sub(lambda found: str(unicodedata.digit(found[0])), text)
    return re.sub(r"(?<=\d)[,.\s'’](?=\d{3}(?!\d))", "", digits)


def _significant(number: str) -> str:
    """The digits of a number without outer zeros: those of 30,000 are those of 3万."""
    return re.sub(r"[.,]", "", number).strip("0")


def _numbers_lost(t: Translation) -> list[str]:
    """The numbers of the original that the translation has not; small ones may be spelled out."""
    # No number: the 19 of COVID-19, the 80s, a 16th.
    english = re.findall(rf"(?<![\w-]){_NUMBER}(?!\w)", _ungrouped(" ".join(t.english)))
    native = re.findall(_NUMBER, _ungrouped(" ".join(t.native)))
    return _missing(english, native)


def _numbers_added(t: Translation) -> list[str]:
    """The numbers of the translation that the original has not, spelled out or in figures."""
    english = " ".join(t.english)
    known = [*re.findall(_NUMBER, _ungrouped(english)), *_figures(english)]
    return _missing(re.findall(_NUMBER, _ungrouped(" ".join(t.native))), known)


def _missing(numbers: Iterable[str], known: Iterable[str]) -> list[str]:
    """The numbers over 20, with more than one significant digit, that are not among the known."""
    there = {_significant(number) for number in known}
    return [
        number
        for number in dict.fromkeys(numbers)
        if float(number.replace(",", ".")) > 20
        and len(_significant(number)) > 1
        and _significant(number) not in there
    ]


def _answer_in_question(t: Translation) -> bool:
    """Whether the translated answer stands in the question, as the original does not."""
    return len(plain(t.native[1])) > 3 and _within(*t.native) and not _within(*t.english)


def _within(question: str, answer: str) -> bool:
    """Whether an answer's words stand in a question; one word alone may be a part of another."""
    asked, said = plain(question), plain(answer)
    whole = " " in asked and " " not in said
    return f" {said} " in f" {asked} " if whole else said in asked


def _much_longer(t: Translation) -> bool:
    return any(
        _length(native, t.language) > 3 * max(20, len(english))
        for english, native in zip(t.english, t.native, strict=True)
    )


def _length(text: str, language: str) -> float:
    """How long a text would be in English; names that stay as they are count as they are."""
    own = len(_SCRIPTS[LANGUAGES[language].script].findall(text))
    return len(text) - own + own / _LENGTH.get(language, 1.0)


def _quotation_lost(t: Translation) -> bool:
    return any(
        len(_QUOTED.findall(english)) >= 2 and len(_QUOTE.findall(native)) < 2
        for english, native in zip(t.english, t.native, strict=True)
    )


def _cut(t: Translation) -> bool:
    """Whether a part breaks off: it is short and lacks the full stop that the original has."""
    return any(
        len(english.split()) > 4
        and _length(native, t.language) < 0.8 * len(english)
        and _ENDS.search(english.strip())
        and not _ENDS.search(native.strip())
        for english, native in zip(t.english, t.native, strict=True)
    )


_Fault = Callable[[Translation], object]

_TRANSLATION: Mapping[str, tuple[str, _Fault]] = {
    "empty_translation": (
        "the question or the answer is missing",
        lambda t: not all(_WORD.search(part) for part in t.native),
    ),
    "left_in_english": ("it is still in English", _in_english),
    "wrong_script": ("it is not in the script of the language", lambda t: _own_script(t) < 0.25),
    "wrong_language": ("it is in another language", _another_language),
    "numbers_lost": ("numbers of the original are missing", _numbers_lost),
    "markup_added": (
        "there is markup in it that the original has not",
        lambda t: _MARKUP.search("\n".join(t.native)) and not _MARKUP.search("\n".join(t.english)),
    ),
    "numbers_added": ("it has numbers that the original has not", _numbers_added),
    "answer_in_translation": (
        "the answer stands in the translated question",
        _answer_in_question,
    ),
    "much_longer": ("it is much longer than the original", _much_longer),
    "quotation_lost": ("a quotation has lost its quotation marks or its words", _quotation_lost),
    "truncated_translation": ("it breaks off before its end", _cut),
}

TRANSLATION = frozenset(_TRANSLATION)
"""The codes of faulty translations."""


def translation_faults(translation: Translation) -> dict[str, str]:
    """Returns what is wrong with a translation: code to what a translator is told of it."""
    faults = {}
    for code, (says, fault) in _TRANSLATION.items():
        if found := fault(translation):
            details = f" ({', '.join(found)})" if isinstance(found, list) else ""
            faults[code] = says + details
            if code == "empty_translation":
                break
    return faults


# ---- all flags

WRONG_ARTICLE: Mapping[str, str] = {
    "no_text": "there is no text",
    "text_of_another_event": "the same text stands under another event",
    "text_off_event": "the text is not about the event",
    "bot_wall": "the text is a check for robots",
    "cookie_page": "the text is a cookie notice",
    "login_page": "the text asks to log in",
    "paywall_stub": "the text ends at a paywall",
    "error_page": "the text is an error page",
    "parked_domain": "the text is that of a domain for sale",
    "wayback_notice": "the text is a notice of the Wayback Machine",
    "boilerplate": "the text is a site's boilerplate",
    "index_page": "the text is a list of articles",
    "not_text": "the text is not made of words",
    "too_short": "the text is too short for an article",
}
"""Flags of a text that is no article on the event: in run.toml, `wrong_article` is any of them."""

ARTICLE: Mapping[str, str] = {
    **WRONG_ARTICLE,
    "too_long": "the text is too long for an article",
    "mojibake": "characters of the text were decoded wrongly",
}
"""All flags of an article's text."""

FLAGS: Mapping[str, str] = {
    **ARTICLE,
    "leading_date": "the event's text began with a date, which was taken off",
    "leading_dash": "the event's text began with a dash, which was taken off",
    "wrong_date": "the event's date contradicts its text or its page",
    "after_cutoff": "the event is later than the release's last month",
    **{code: rule.says for code, rule in RULES.items()},
    "duplicate_question": "the same question stands there twice",
    "near_duplicate": "another question of the region asks the same in other words",
    **{code: what for code, (what, _) in _TRANSLATION.items()},
}
"""All flags, and what each says of a row; the code of `after_cutoff` names the month."""

SHARES = (*FLAGS, "wrong_article")
"""What `[check] max_share` may name."""


def stands_for(name: str, flag: str) -> bool:
    """Whether a name of `SHARES` stands for a flag."""
    if name == "wrong_article":
        return flag in WRONG_ARTICLE
    return name in (flag, _general(flag))


def says(flag: str) -> str:
    """Returns what a flag says of a row; nothing of a flag that an older release had."""
    return FLAGS.get(_general(flag), "")


def _general(flag: str) -> str:
    return "after_cutoff" if re.fullmatch(r"after_[a-z]+_\d{4}", flag) else flag
