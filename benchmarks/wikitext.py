"""Reading pages beside parsing them: `python -m benchmarks.wikitext [FOLDER]`.

Prints how long `builder.wikitext.parse` takes on all pages of a folder against what
`mwparserfromhell.parse` alone takes on them (at most 1.7 times), totals, best of 5 in turn, and how
long a page of 330 kB with 3,000 references takes (at most 2 s).
"""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mwparserfromhell

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
        print(
            f"wikitext: {len(pages)} pages, {size / 1e6:.1f} MB: the parser alone {alone:.2f} s, "
            f"events read in {ours:.2f} s: ratio {ours / alone:.2f} (at most 1.7)"
        )
        if ours > 1.7 * alone:
            sys.exit("reading takes more than 1.7 times what parsing takes")
    else:
        print(f"wikitext: no pages in {folder}: name a folder of .wiki files")
    large = Page("World", 2020, "2020", None, None, LARGE)
    best = min(seconds(lambda: parse(large)) for _ in range(ROUNDS))
    found = sum(len(event.references) for event in parse(large).events)
    print(
        f"wikitext: a page of {len(LARGE.encode()) / 1e3:.0f} kB with {found:,} references: "
        f"{best:.2f} s (at most 2)"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
