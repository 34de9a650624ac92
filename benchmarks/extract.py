"""Reading article pages beside trafilatura alone: `python -m benchmarks.extract [FOLDER]`.

FOLDER holds .html.gz pages. Both work in two processes; ours reads each page by three extractors,
picks one text and tells whether it is an article. Prints pages a second of each, best of 3 in turn.
"""

import gzip
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, finish
from builder.extract import PRELOAD, SECONDS, article
from tiebe.engine import Workers

PAGES = Path(__file__).resolve().parents[1] / "../shared/articles"
PROCESSES, ROUNDS = 2, 3


def trafilatura(html: str) -> str:
    """The text alone, with trafilatura's defaults."""
    from trafilatura import extract

    return extract(html) or ""


def rate(pages: list[str], read: Callable[[str], object]) -> float:
    """Reads all pages; returns how many a second."""
    with ThreadPoolExecutor(2 * PROCESSES) as threads:
        start = time.perf_counter()
        for _ in threads.map(read, pages):
            pass
        return len(pages) / (time.perf_counter() - start)


def main(folder: Path = PAGES) -> None:
    files = sorted(folder.rglob("*.html.gz"))
    pages = [gzip.decompress(file.read_bytes()).decode("utf-8", "replace") for file in files]
    if not pages:
        print(f"extract: no pages in {folder}: name a folder of .html.gz files")
        return
    with Workers(PROCESSES, preload=PRELOAD) as workers:

        def alone(html: str) -> str:
            return workers.call(trafilatura, html, seconds=SECONDS)

        def ours(html: str) -> object:
            return article(html, workers=workers)

        for read in (alone, ours):  # the processes have imported what they need
            rate(pages[:8], read)
        rounds = [(rate(pages, alone), rate(pages, ours)) for _ in range(ROUNDS)]
    one, three = map(max, zip(*rounds, strict=True))
    what = f"three extractors, choice and class of {len(pages)} pages"
    finish([Figure(what, three, "pages/s", "trafilatura alone", one)])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
