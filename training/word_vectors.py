"""Writes what words mean, for the offline judge: tiebe/words-1.npz, some minutes.

    python training/word_vectors.py MODEL

MODEL is the folder of sentence-transformers/all-MiniLM-L6-v2 (Apache 2.0) as the Hub gives it, with
model.safetensors and tokenizer.json. Each word that is frequent in the judged answers is encoded by
itself; words of one stem are averaged, and all are reduced to few dimensions. No verdict is used.
The encoder is six layers of plain algebra, written out here since its library is a hundred times
the size of this project.
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
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

from tiebe.lexical import fold, lexicon
from tiebe.vectors import SIZE, checksum

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "upstream"
OUT = ROOT / "tiebe" / "words-1.npz"
LAYERS, HEADS, LENGTH = 6, 12, 5
STEMS, WORDS = 4000, 12000
Floats = npt.NDArray[np.float32]


class Encoder:
    """The sentence encoder, for single words."""

    def __init__(self, folder: Path) -> None:
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()

    def encode(self, words: Sequence[str]) -> Floats:
        """Returns (words, dimensions) the vector of each word, of length 1."""
        found = np.empty((len(words), self.weights["embeddings.LayerNorm.bias"].size), np.float32)
        tokens = [self.tokenizer.encode(word).ids for word in words]
        lengths = np.array(list(map(len, tokens)))
        for length in np.unique(lengths):
            for places in np.array_split(np.flatnonzero(lengths == length), 1 + len(words) // 256):
                if len(places):
                    found[places] = self.run(np.array([tokens[place] for place in places]))
        return found

    def run(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Returns (words, dimensions) the mean over the tokens of words of one length."""
        table = "embeddings.{}_embeddings.weight".format
        x = self.weights[table("word")][ids] + self.weights[table("position")][: ids.shape[1]]
        x = self.norm(x + self.weights[table("token_type")][0], "embeddings.LayerNorm")
        for number in range(LAYERS):
            name = f"encoder.layer.{number}."
            mixed = self.attend(x, name + "attention.")
            x = self.norm(x + mixed, name + "attention.output.LayerNorm")
            inner = self.linear(x, name + "intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / np.float32(np.sqrt(2))))
            x = self.norm(x + self.linear(inner, name + "output.dense"), name + "output.LayerNorm")
        mean = x.mean(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def attend(self, x: Floats, name: str) -> Floats:
        """Returns what multi-head attention adds."""
        q, k, v = (
            self.linear(x, f"{name}self.{part}").reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(q @ k.swapaxes(2, 3) / np.float32(np.sqrt(q.shape[-1])))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        return self.linear(mixed.swapaxes(1, 2).reshape(x.shape), name + "output.dense")

    def linear(self, x: Floats, name: str) -> Floats:
        """Returns an affine map of rows."""
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x: Floats, name: str) -> Floats:
        """Returns rows with mean and variance as learned."""
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]


def frequent_words(folder: Path) -> dict[str, int]:
    """Returns the words of most texts, the most frequent first, with the number of texts."""
    judged = pd.read_parquet(folder / "judged.parquet")
    judged = judged[judged.language == "english"]
    texts = [*judged.model_answer, *(judged.question + " " + judged.answer).drop_duplicates()]
    found = Counter(w for t in texts for w in set(re.findall(r"[^\W\d_]{2,}", fold(t))))
    small = lexicon("en").stop
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return dict([(word, n) for word, n in ranked if word not in small][:WORDS])


@click.command()
@click.argument("model", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=DATA)
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def main(model: Path, data: Path, out: Path) -> None:
    """Writes the vectors of frequent stems."""
    words = frequent_words(data)
    encoder = Encoder(model)
    sums: dict[str, Floats] = {}
    count: Counter[str] = Counter()
    for (word, n), vector in zip(words.items(), encoder.encode(list(words)), strict=True):
        stem = word[:LENGTH]
        sums[stem] = sums.get(stem, 0) + n * vector
        count[stem] += n
    stems = sorted(stem for stem, _ in count.most_common(STEMS))
    table = np.stack([sums[stem] for stem in stems])
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    table -= table.mean(0)
    *_, axes = np.linalg.svd(table, full_matrices=False)
    reduced = table @ axes[:SIZE].T
    reduced *= 127 / np.linalg.norm(reduced, axis=1, keepdims=True)
    keys = np.array(list(map(checksum, stems)), np.uint32)
    with out.open("wb") as file:
        np.savez(file, keys=keys, rows=np.rint(reduced).clip(-127, 127).astype(np.int8))
    click.echo(f"{out}: {len(stems)} stems, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
