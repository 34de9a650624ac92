"""What an answer's words, numbers and phrases show without a language model.

The words of 13 languages stand in `lexical.toml`; a language is one table there.
"""

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["hand_rule", "is_refusal"]

_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "«": '"', "»": '"'}
    | {"ı": "i", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe"}
)
_MARKS = re.compile("[\u0300-\u036f]+")
_CJK = "\u3400-\u9fff"
_TOKEN = re.compile(rf"[{_CJK}]|\d+(?:[.,]\d+)*|[^\W\d_{_CJK}]+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
# What is read of a text: answers are short, and a stranger's megabyte must not cost seconds.
_LIMIT = 4000


@cache
def _language_data() -> dict[str, dict[str, Any]]:
    return tomllib.loads((files("tiebe") / "lexical.toml").read_text(encoding="utf-8"))


def fold(text: str) -> str:
    """Returns the text in lower case, without accents, with plain quotation marks."""
    decomposed = unicodedata.normalize("NFKD", text[:_LIMIT].casefold().translate(_PLAIN))
    return _MARKS.sub("", decomposed)


@cache
def _refusal_pattern() -> re.Pattern[str]:
    """All languages at once: a model asked in Amharic often refuses in English."""
    phrases = [p for language in _language_data().values() for p in language["refusal"]]
    return re.compile("|".join(f"(?:{p})" for p in phrases))


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(w for language in _language_data().values() for w in language["stop"].split())


@cache
def _number_words() -> dict[str, str]:
    """Number words to digits; where two languages differ (`six`, `seven`), English comes last."""
    words: dict[str, str] = {}
    for language in reversed(_language_data().values()):
        words |= {w: str(n) for n, w in enumerate(language["numbers"].split())}
    return words


def is_refusal(text: str) -> bool:
    """Returns whether an answer declines: it says that it does not know, may not or cannot say.

    One rule for 13 languages. It imitates the refusals published with TiEBe, whose judge also took
    "this has not happened yet" for one in most cases.
    """
    return _refusal_pattern().search(fold(text)) is not None


def _terms(text: str) -> set[str]:
    """The words that carry meaning, cut to a stem of 5 letters; numbers; pairs of CJK signs."""
    tokens = _TOKEN.findall(fold(text))
    terms = set()
    for token in tokens:
        if token[0].isdigit():
            whole = token.replace(",", "").replace(".", "")
            terms.add(whole if _THOUSANDS.fullmatch(token) else token.replace(",", "."))
        elif token not in _stop_words():
            terms.add(_number_words().get(token) or token[:5])
    signs = [t if "\u3400" <= t <= "\u9fff" else "" for t in tokens]
    terms |= {a + b for a, b in zip(signs, signs[1:], strict=False) if a and b}
    return terms


def hand_rule(question: str, expected: str, candidate: str) -> tuple[bool, bool]:
    """Returns (correct, refusal) by a plain rule, without a model.

    Correct is an answer that is no refusal, has every number of the expected answer and a good
    part of its words, not counting what the question says already: agreement with DeepSeek-V3
    is .86 in English and in eight other languages.
    """
    if is_refusal(candidate):
        return False, True
    if candidate.split() == expected.split() != []:
        return True, False  # whatever its words are, stop words included
    wanted = _terms(expected)
    wanted = (wanted - _terms(question)) or wanted
    found = wanted & _terms(candidate)
    numbers = {term for term in wanted if term[0].isdigit()}
    share = len(found) / len(wanted) if wanted else 0.0
    return numbers <= found and share >= (0.1 if numbers else 0.3), False
