"""The offline judge on one core: `python -m benchmarks.offline`.

Judges given answers, or made-up ones without them, and counts judgements a second of CPU time:
beside it stands containment, the cheapest judge there is.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is imported

from benchmarks.figures import Figure, finish
from tiebe.offline import judge_offline

GIVEN = Path(__file__).resolve().parents[1] / "../shared/upstream/judged.parquet"
N, ROUNDS = 4_000, 3
Rows = list[tuple[str, str, str]]


def rows() -> Rows:
    """Returns questions, expected answers and candidates."""
    if GIVEN.is_file():
        import pandas as pd

        given = pd.read_parquet(GIVEN).sample(N, random_state=0)
        return list(zip(given["question"], given["answer"], given["model_answer"], strict=True))
    dice = random.Random(0)
    letters = "abcdefghijklmnop"
    words = ["".join(dice.choices(letters, k=dice.randint(2, 9))) for _ in range(5000)]

    def text(n: int) -> str:
        return " ".join(dice.choices(words, k=n)).capitalize() + "."

    return [(text(20), text(15), text(45)) for _ in range(N)]


def rate(judge: Callable[[Rows], object], given: Rows) -> float:
    """Returns judgements a second of CPU time, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        judge(given)
        best = min(best, time.process_time() - start)
    return len(given) / best


def offline(given: Rows) -> object:
    """By trees."""
    questions, expected, candidates = zip(*given, strict=True)
    return judge_offline(questions, [(e,) for e in expected], candidates, ["en"] * len(given))


def containment(given: Rows) -> object:
    """Whether the expected answer stands in the candidate."""
    return [expected.casefold() in candidate.casefold() for _, expected, candidate in given]


def main() -> None:
    """Measures and prints."""
    given = rows()
    offline(given[:50])  # the data file is read
    what = f"{N:,} {'given' if GIVEN.is_file() else 'made-up'} answers judged offline, one core"
    finish(
        [
            Figure(what, rate(offline, given), "/s", limit=700, bound="at least"),
            Figure("the same by containment", rate(containment, given), "/s"),
        ]
    )


if __name__ == "__main__":
    main()
