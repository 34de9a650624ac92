"""Vectors of words: what is near, what is unknown, and that the order of sums is free."""

import numpy as np
import pytest

from tiebe.lexical import STEM
from tiebe.vectors import SIZE, likeness, load, nearness


@pytest.mark.parametrize(
    ("one", "near", "far"),
    [
        ("killed", "died", "voted"),
        ("rejected", "refused", "celebrated"),
        ("earthquake", "disaster", "minister"),
        ("banned", "prohibited", "elected"),
        ("arrested", "detained", "launched"),
    ],
)
def test_what_means_the_like_is_nearer(one: str, near: str, far: str) -> None:
    words = load().of(word[:STEM] for word in (one, near, far))
    like = likeness(words, words)
    assert like[0, 1] > 0.4 and like[0, 1] > like[0, 2] + 0.2
    assert like == pytest.approx(like.T) and np.diag(like) == pytest.approx(np.ones(3), abs=0.03)


@pytest.mark.parametrize("word", ["", "xqzzy", "\ud800", "中国"])
def test_an_unknown_word_is_near_to_nothing(word: str) -> None:
    rows = load().of([word, "kille"])
    assert rows.shape == (2, SIZE) and not rows[0].any()
    assert likeness(rows, rows)[0].tolist() == [0, 0] and nearness(rows[0], rows[1]) == -1


def test_sums_are_the_same_in_any_order() -> None:
    rows = load().rows[:-1].astype(np.float64) * 7.25 * 4
    shuffled = rows[np.random.default_rng(0).permutation(len(rows))]
    assert (rows.sum(0) == shuffled.sum(0)).all()
    assert nearness(rows.sum(0), rows[0]) == nearness(shuffled.sum(0), rows[0])
    like = likeness(load().rows, load().rows[:9])
    turned = likeness(load().rows[:, ::-1].copy(), load().rows[:9, ::-1].copy())
    assert (like == turned).all() and like.max() < 1.1
