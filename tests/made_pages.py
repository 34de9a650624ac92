"""Retrospective pages made from a seed: events that no two pages share, in wikitext."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MONTHS = (
    "January February March April May June July August September October November December".split()
)
SYLLABLES = "ba ce di fo gu ha ji ko lu ma ne pi ro su ta ve wi xo yu za".split()
KINDS = (
    "The {a} Bridge opens at {b}, and {n} people cross it with engineer {c} on the first day.",
    "Mayor {a} resigns in {b} after {n} letters of protest were handed over by {c}.",
    "A storm named {a} floods {n} houses in {b}, and the {c} Dam holds.",
    "The {a} Orchestra plays in {b} before {n} listeners, led by {c}.",
    "Miners find {n} tonnes of copper at {b}; the {a} Company and the {c} Bank share the costs.",
)


@dataclass(frozen=True)
class Line:
    """An event on a page."""

    page: tuple[str, int]
    month: int
    day: int
    text: str
    url: str

    def __str__(self) -> str:
        name = MONTHS[self.month - 1]
        cite = f"{{{{cite web |url={self.url} |title={' '.join(self.text.split()[:6])}}}}}"
        return f"* [[{name} {self.day}]] – {self.text}<ref>{cite}</ref>"


def name(draw: random.Random) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(3, 4))).capitalize()


def line(number: int, draw: random.Random, pages: Sequence[tuple[str, int]]) -> Line:
    """An event with names and numbers of its own, on one of the pages, that cites one document."""
    a, b, c = name(draw), name(draw), name(draw)
    text = KINDS[number % len(KINDS)].format(a=a, b=b, c=c, n=draw.randint(21, 9000))
    url = f"https://{name(draw).lower()}.example/{number}"
    page = pages[number % len(pages)]
    return Line(page, 1 + number % 12, 1 + number % 28, text, url)


def write_pages(folder: Path, lines: Iterable[Line]) -> None:
    """Writes the pages that have these lines, as a folder source wants them."""
    folder.mkdir(exist_ok=True)
    by_page: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for one in lines:
        by_page[one.page].append(one)
    for (region, year), members in by_page.items():
        members.sort(key=lambda one: (one.month, one.day))
        parts = ["== Events =="]
        for month, title in enumerate(MONTHS, 1):
            parts += [f"=== {title} ===", *(str(m) for m in members if m.month == month)]
        (folder / f"{year}_in_{region}.wiki").write_text("\n".join(parts) + "\n", "utf-8")
