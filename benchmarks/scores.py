"""Scoring 58,000 verdicts with 1,000 resamples, and their report: `python -m benchmarks.scores`.

The verdicts are the given ones, some of them repeated as further models; without them, made-up ones
of the same number and length.
"""

import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.figures import Figure, finish
from tiebe.reports import report
from tiebe.scores import Bootstrap, cutoffs, differences, frame, score

GIVEN = Path(__file__).resolve().parents[1] / "../shared/upstream/judged.parquet"
ROWS = 58_000
SCORE_SECONDS = 5.0
REPORT_SECONDS = 20.0
PEAK_GIGABYTES = 1.0
PAGE_MEGABYTES = 12.0


def verdicts() -> pd.DataFrame:
    """Returns the rows to score."""
    rows = pd.read_parquet(GIVEN) if GIVEN.is_file() else made_up()
    parts = [rows]
    while sum(map(len, parts)) < ROWS:
        parts.append(rows.assign(model=rows["model"] + f" ({len(parts) + 1})"))
    return pd.concat(parts, ignore_index=True).head(ROWS)


def made_up() -> pd.DataFrame:
    """Returns verdicts of seven models on 5,300 questions, with answers of random words."""
    dice = random.Random(0)
    syllables = [
        "".join(dice.choices("abcdefghijklmnop", k=dice.randint(2, 9))) for _ in range(5000)
    ]

    def words(n: int) -> str:
        return " ".join(dice.choices(syllables, k=n))

    return pd.DataFrame(
        {
            "model": f"model {model}",
            "region": ("Brazil", "France", "Nigeria", "China")[number % 4],
            "row": number // 2,
            "language": ("english", "native")[number % 2],
            "year": str(2015 + number % 11),
            "month": f"{1 + number % 12:02}",
            "question": f"What is {number}?",
            "answer": words(15),
            "model_answer": words(45),
            "reasoning": words(50),
            "correct": dice.random() < 0.4,
            "refusal": dice.random() < 0.1,
        }
        for number in range(5300)
        for model in range(7)
    )


def main() -> None:
    """Measures and prints."""
    rows = verdicts()
    figures = []

    def timed(name: str, call: Callable[[], object], limit: float | None = None) -> None:
        start = time.perf_counter()
        call()
        figures.append(Figure(name, time.perf_counter() - start, "s", limit=limit))

    what = f"{len(rows):,} verdicts{'' if GIVEN.is_file() else ' (made up)'}"
    timed(f"{what} made a frame", lambda: frame(rows))
    data = frame(rows)
    once, many = Bootstrap(draws=0), Bootstrap(draws=1000)
    for by in (["model", "split"], ["region", "period"], ["region", "year", "model", "split"]):
        name = f"{what} scored by {', '.join(by)}"
        timed(f"{name}, no resamples", lambda by=by: score(data, by, bootstrap=once))
        timed(f"{name}, 1,000", lambda by=by: score(rows, by, bootstrap=many), SCORE_SECONDS)
    timed("differences of models, 1,000", lambda: differences(data, ["split"], bootstrap=many))
    timed("cutoffs, 1,000", lambda: cutoffs(data, bootstrap=many))
    with tempfile.TemporaryDirectory() as folder:
        timed(f"report on {what}", lambda: report(rows, folder), REPORT_SECONDS)
        size = (Path(folder) / "index.html").stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    figures += [
        Figure("the report's page", size, "MB", limit=PAGE_MEGABYTES),
        Figure("peak memory of all this", peak, "GB", limit=PEAK_GIGABYTES),
    ]
    finish(figures)


if __name__ == "__main__":
    main()
