"""Writes what words mean, for the offline judge: tiebe/words-1.npz, a minute.

    python training/word_vectors.py

Words that stand near the same words are near in meaning: the vectors come from how often the stems
of English words stand together in the cited articles, the events, the questions and the expected
answers (positive pointwise mutual information, reduced by singular values; Levy and Goldberg 2014).
No answer of a model and no verdict is used.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import svds

from tiebe.lexical import STEM, fold, lexicon
from tiebe.vectors import SIZE, checksum

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "upstream"
OUT = ROOT / "tiebe" / "words-1.npz"
STEMS = 4000  # kept
LEAST = 8  # times a stem stands in the texts
WINDOW = 5  # stems to either side
AXES = 128  # before the last reduction
ARTICLE = 6000  # characters read of an article
Floats = npt.NDArray[np.float64]


def read_texts(folder: Path) -> list[str]:
    """Returns English articles, events, questions and expected answers, each once."""
    rows = pd.read_parquet(folder / "qa.parquet").query("language == 'english'")
    events = pd.read_parquet(folder / "events.parquet")
    texts = (
        rows.text.dropna().astype(str).str[:ARTICLE],
        events.event_text.dropna().astype(str),
        rows.question + " " + rows.answer,
    )
    return list(dict.fromkeys(text for part in texts for text in part))


def neighbours(texts: Sequence[Sequence[int]], count: int) -> sparse.csr_matrix:
    """Returns (count, count) how often stems stand together, nearer ones more."""
    total = sparse.csr_matrix((count, count), dtype=np.float64)
    flat = np.concatenate([np.array([*text, *[-1] * WINDOW]) for text in texts])
    for distance in range(1, WINDOW + 1):
        one, other = flat[:-distance], flat[distance:]
        known = (one >= 0) & (other >= 0)
        weight = np.full(known.sum(), (WINDOW + 1 - distance) / WINDOW)
        total += sparse.csr_matrix((weight, (one[known], other[known])), shape=(count, count))
    return total + total.T


def information(together: sparse.csr_matrix) -> sparse.csr_matrix:
    """Returns positive pointwise mutual information; frequent contexts are flattened a little."""
    found = together.tocoo()
    own = together.sum(axis=1).A1
    context = own**0.75
    context /= context.sum()
    value = np.log(found.data / (own[found.row] * context[found.col]))
    kept = value > 0
    return sparse.csr_matrix((value[kept], (found.row[kept], found.col[kept])), found.shape)


def reduce(table: Floats, size: int) -> Floats:
    """Returns rows of length 1 along the `size` axes on which they differ most."""
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    table = table - table.mean(0)
    *_, axes = np.linalg.svd(table, full_matrices=False)
    reduced = table @ axes[:size].T
    return reduced / np.linalg.norm(reduced, axis=1, keepdims=True)


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=DATA)
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def main(data: Path, out: Path) -> None:
    """Writes the vectors of frequent stems."""
    words = [re.findall(r"[^\W\d_]{2,}", fold(text)) for text in read_texts(data)]
    found = Counter(word[:STEM] for text in words for word in text)
    ranked = sorted((s for s, n in found.items() if n >= LEAST), key=lambda s: (-found[s], s))
    place = {stem: n for n, stem in enumerate(ranked)}
    texts = [[place.get(word[:STEM], -1) for word in text] for text in words]
    start = np.random.default_rng(0).normal(size=len(ranked))
    axes, strength, _ = svds(information(neighbours(texts, len(ranked))), AXES, v0=start)
    small = {word[:STEM] for word in lexicon("en").stop}
    stems = sorted([stem for stem in ranked if stem not in small][:STEMS])
    table = reduce((axes * np.sqrt(strength))[[place[stem] for stem in stems]], SIZE)
    keys = np.array(list(map(checksum, stems)), np.uint32)
    with out.open("wb") as file:
        np.savez(file, keys=keys, rows=np.rint(127 * table).clip(-127, 127).astype(np.int8))
    click.echo(f"{out}: {len(stems)} stems, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
