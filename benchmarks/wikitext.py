"""Reading pages beside parsing them: `python -m benchmarks.wikitext [FOLDER]`.

Measures how long `builder.wikitext.parse` takes on all pages of a folder against what
`mwparserfromhell.parse` alone takes on them (at most 1.7 times), totals, best of 5 in turn, and how
long a page of 330 kB with 3,000 references takes (at most 2 s).
"""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mwparserfromhell

from benchmarks.figures import Figure, finish
from builder.records import Page
from builder.wikitext import parse

PAGES = Path(__file__).resolve().parents[1] / "../shared/pages"
ROUNDS = 5
LARGE = "==Events==\n===January===\n" + "".join(
    f"* {1 + n % 28} January – A bridge is closed.<ref>{{{{cite news|url=https://example.org/{n}"
    f"|title=Bridge {n}|date=1 May 2020}}}}</ref>\n"
    for n in range(3000)
)


def seconds(work: Callable[[], object]) -> float:
    """Times one call, without the collector's pauses."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    work()
    taken = time.perf_counter() - start
    gc.enable()
    return taken


def main(folder: Path = PAGES) -> None:
    pages = [
        Page("World", int(path.name[:4]), path.stem, None, None, path.read_text("utf-8"))
        for path in sorted(folder.glob("[12][0-9][0-9][0-9]_*.wiki"))
    ]
    figures = []
    if pages:
        rounds = [
            (
                seconds(lambda: [mwparserfromhell.parse(page.wikitext) for page in pages]),
                seconds(lambda: [parse(page) for page in pages]),
            )
            for _ in range(ROUNDS)
        ]
        alone, ours = map(min, zip(*rounds, strict=True))
        size = sum(len(page.wikitext.encode()) for page in pages)
        what = f"events of {len(pages)} pages, {size / 1e6:.1f} MB, read"
        figures.append(Figure(what, ours, "s", "mwparserfromhell alone", alone, 1.7))
    else:
        print(f"wikitext: no pages in {folder}: name a folder of .wiki files")
    large = Page("World", 2020, "2020", None, None, LARGE)
    best = min(seconds(lambda: parse(large)) for _ in range(ROUNDS))
    found = sum(len(event.references) for event in parse(large).events)
    what = f"a page of {len(LARGE.encode()) / 1e3:.0f} kB with {found:,} references read"
    finish([*figures, Figure(what, best, "s", limit=2)])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
