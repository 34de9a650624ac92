"""What words mean, roughly: vectors of frequent English stems.

They tell that `arrested` and `detained` are near and `arrested` and `launched` are not, where
letters cannot. `training/word_vectors.py` learned them from which words stand near each other in
articles. Numbers are small and whole, so that all machines get the same sums.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SIZE", "WordVectors", "checksum", "likeness", "load", "nearness"]

SIZE = 32
_FILE = "words-1.npz"


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Vectors by stem; a stem that is not known has none, and is near to itself alone."""

    places: Mapping[int, int]
    """By checksum of the stem: its row."""
    rows: npt.NDArray[np.float32]
    """(stems + 1, `SIZE`) whole numbers, about 127 long; the last row is zero."""

    def of(self, stems: Iterable[str]) -> npt.NDArray[np.float32]:
        """Returns (stems, `SIZE`) their vectors, zero for unknown ones."""
        get, last = self.places.get, len(self.rows) - 1
        return self.rows.take([*map(get, map(checksum, stems), repeat(last))], 0)


@lru_cache(1 << 16)
def checksum(text: str) -> int:
    """Returns the CRC-32 under which a term or phrase is kept: the files hold no words."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def likeness(
    one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Returns (one, other) the cosines of vectors, roughly.

    Products and sums of whole numbers below 2 ** 24 are exact in whatever order.
    """
    return (one @ other.T) / np.float32(127 * 127)


def nearness(one: npt.NDArray[np.floating[Any]], other: npt.NDArray[np.floating[Any]]) -> float:
    """Returns the cosine of two sums of vectors, of whole numbers; -1 where one is nothing."""
    product = float(one @ one) * float(other @ other)
    return float(one @ other) / math.sqrt(product) if product else -1.0


@cache
def load() -> WordVectors:
    """Returns the vectors that come with the library."""
    with (files("tiebe") / _FILE).open("rb") as file, np.load(file, allow_pickle=False) as data:
        rows = np.vstack([data["rows"], np.zeros((1, SIZE), np.int8)]).astype(np.float32)
        return WordVectors({int(key): n for n, key in enumerate(data["keys"])}, rows)
