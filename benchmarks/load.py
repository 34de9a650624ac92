"""Loading and publishing 28,000 questions and 17,000 articles: `python -m benchmarks.load`.

Loads, warm and in turn, with `load_tiebe` and with plain `load_dataset`, from a folder and from a
local Hub, and publishes the release to that Hub.
"""

import contextlib
import dataclasses
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Figure, finish

TESTS = Path(__file__).resolve().parents[1] / "tests"
REPO = "lab/TiEBe"
TURNS = 9
WORDS = 800


@contextlib.contextmanager
def hub(root: Path) -> Iterator[str]:
    """Runs a local Hub in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, str(TESTS / "local_hub.py"), str(root)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def in_turn(*calls: Callable[[], object]) -> list[float]:
    """Returns the median seconds of calls that are made in turn, after one of each to warm up."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(TURNS + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as temporary, hub(Path(temporary) / "hub") as url:
        # Read by huggingface_hub when it is imported: hence the imports below.
        os.environ |= {
            "HF_ENDPOINT": url,
            "HF_HOME": str(Path(temporary) / "home"),
            "HF_TOKEN": "hf_write",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        sys.path.insert(0, str(TESTS))
        measure(Path(temporary) / "release")


def measure(folder: Path) -> None:
    """Builds the release, publishes and loads it."""
    import datasets
    from releases import make

    from builder.publish import publish
    from builder.release import Edition, write_release
    from tiebe.load import load_tiebe
    from tiebe.regions import REGIONS

    datasets.disable_progress_bars()
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(20_000)]

    def text(n: int) -> str:
        return " ".join(draw.choices(words, k=n))

    questions, articles = make(740, tuple(REGIONS))
    rows = (
        dataclasses.replace(q, event_desc=text(30), question=text(20), answer=text(15))
        for q in questions
    )
    texts = (dataclasses.replace(a, text=text(WORDS)) for a in articles)
    start = time.perf_counter()
    written = write_release(folder, rows, texts, Edition("2025.04"))
    size = f"{written.total():,} rows, {sum(written.articles.values()):,} articles"
    figures = [Figure(f"release of {size} written", time.perf_counter() - start, "s")]
    start = time.perf_counter()
    publish(folder, REPO)
    figures.append(Figure(f"publish of {size}", time.perf_counter() - start, "s", limit=60))
    for name, source in (("folder", str(folder)), ("Hub", REPO)):
        ours, plain = in_turn(
            lambda source=source: load_tiebe(language="both", source=source),
            lambda source=source: datasets.load_dataset(source),
        )
        what = f"load_tiebe from a {name}, warm"
        figures.append(Figure(what, ours, "s", "load_dataset", plain, 1.2))
    finish(figures)


if __name__ == "__main__":
    main()
