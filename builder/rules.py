"""What makes a question, an answer, a translation good or bad: pure, each rule with a code.

`select` picks by these rules and `check` flags by them, so that neither can know better.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["HARD", "Pair", "broken", "translation_faults"]

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_TIME = re.compile(rf"\b(?:19|20)\d\d\b|\b(?:{_MONTHS})\b")
_SELF_REFERENCE = re.compile(
    r"\b(?:the|this|that) (?:article|report|text|event|news|passage|document|author)s?\b"
    r"|\baccording to (?:it|the (?:article|report|text))\b|\b(?:as )?reported\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(r"^(?:what|who|which|where|when|how)\s+(?:is|are|does|do|will|has)\b", re.I)
_YES_NO = re.compile(
    r"^(?:is|are|was|were|did|do|does|has|have|had|can|could|will|would|should)\b", re.I
)
_CHANGING = re.compile(r"\b(?:currently|at present|now|so far|to date|as of today|latest)\b", re.I)
_ENTITY = re.compile(r"(?<![.?!]\s)(?<!^)\b[A-Z][\w'’-]+|\b[A-Z]{2,}\b")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"\b[A-Z][\w'’-]+")
_STOP = frozenset("a an and at by for from in of on or the to was were with".split())
_ANSWER_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, and what they rest on."""

    question: str
    answer: str
    date: str
    """The event's, `YYYY-MM-DD` or `YYYY-MM`."""
    text: str
    """The article's; empty where it is not known."""


def _words(text: str) -> set[str]:
    return {w for w in _WORD.findall(text.casefold()) if w not in _STOP}


def _ungrounded(pair: Pair) -> bool:
    """Whether a number or a name of the answer does not occur in the article."""
    if not pair.text:
        return False
    text = re.sub(r"(?<=\d)[,.\s](?=\d{3}\b)", "", pair.text)
    answer = re.sub(r"(?<=\d)[,.\s](?=\d{3}\b)", "", pair.answer)
    lowered = text.casefold()
    numbers = set(_NUMBER.findall(answer)) - set(_NUMBER.findall(pair.date))
    if any(number not in text for number in numbers):
        return True
    names = {n.casefold() for n in _NAME.findall(answer)}
    names -= {m.casefold() for m in _MONTHS.split("|")} | {"the", "a", "an"}
    return bool(names) and not any(name in lowered for name in names)


_RULES: Mapping[str, Callable[[Pair], bool]] = {
    "empty": lambda p: not p.question.strip() or not p.answer.strip(),
    "no_question": lambda p: not p.question.rstrip().endswith(("?", "？")),
    "self_reference": lambda p: bool(_SELF_REFERENCE.search(p.question)),
    "yes_no": lambda p: bool(_YES_NO.match(p.question)),
    "not_grounded": _ungrounded,
    "answer_in_question": lambda p: (
        bool(_words(p.answer)) and _words(p.answer) <= _words(p.question)
    ),
    "answer_over_200": lambda p: len(p.answer) > _ANSWER_LIMIT,
    "question_no_year": lambda p: not _TIME.search(p.question),
    "question_no_entity": lambda p: not _ENTITY.search(p.question),
    "present_tense": lambda p: bool(_PRESENT.match(p.question)),
    "changing": lambda p: bool(_CHANGING.search(p.question)),
}

HARD = frozenset(
    ("empty", "no_question", "self_reference", "yes_no", "not_grounded", "question_no_year")
)
"""Rules that a selected question never breaks; the others only put it behind better ones."""


def broken(pair: Pair) -> tuple[str, ...]:
    """Returns the codes of the rules that a question and its answer break."""
    return tuple(code for code, breaks in _RULES.items() if breaks(pair))


_SCRIPTS = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Hans": "CJK", "Deva": "DEVANAGARI"}
_SCRIPTS["Ethi"] = "ETHIOPIC"


def translation_faults(english: str, native: str, script: str) -> tuple[str, ...]:
    """Returns what is wrong with a translation: `empty`, `untranslated`, `script`, `numbers`.

    Args:
        english: The original.
        native: Its translation.
        script: ISO 15924 code of the language's script.
    """
    if not native.strip():
        return ("empty",)
    faults = []
    if len(english.split()) > 3 and english.casefold() == native.casefold():
        faults.append("untranslated")
    letters = [c for c in native if c.isalpha()]
    own = sum(unicodedata.name(c, "").startswith(_SCRIPTS[script]) for c in letters)
    if len(letters) > 20 and own < len(letters) / 4:
        faults.append("script")
    years = re.findall(r"\b(?:19|20)\d\d\b", english)
    digits = "".join(str(unicodedata.digit(c, c)) for c in native)
    if any(year not in digits for year in years):
        faults.append("numbers")
    return tuple(faults)
