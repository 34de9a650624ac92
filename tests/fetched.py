"""A run whose articles are there already: invented events, so that only paid work is left."""

import json
import random
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from builder.records import Article, Event, Reference
from builder.run import Run
from tiebe.engine import Outcome, Stage
from tiebe.regions import REGIONS

SIZES = {
    "Brazil": 60,
    "China": 40,
    "Ethiopia": 25,
    "France": 80,
    "India": 30,
    "Nigeria": 45,
    "Papua_New_Guinea": 20,
    "Russia": 50,
    "World": 70,
}
SYLLABLES = "ba ce di fo gu ha ji ko lu ma ne pi ro su ta ve wi xo yu za".split()


def word(draw: random.Random) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(2, 4))).capitalize()


def event(region: str, number: int, draw: random.Random) -> Event:
    start = f"{2019 + number % 5}-{1 + number % 12:02}-{1 + number % 28:02}"
    place, people, bridge = word(draw), draw.randint(21, 9000), word(draw)
    text = f"The {bridge} Bridge opens at {place}, and {people} people cross it on the first day."
    reference = Reference(f"https://{word(draw).lower()}.example/{number}")
    return Event(
        region, int(start[:4]), "p", REGIONS[region].page_title(int(start[:4])), None, start, None,
        "day", text, (reference,),
    )  # fmt: skip


def article(of: Event, draw: random.Random) -> Article:
    mayor, cost, steel = word(draw), draw.randint(21, 900), word(draw)
    text = (
        f"{of.text}\nMayor {mayor} cut a ribbon.\nIt cost {cost} million and is of {steel} steel."
    )
    filler = " ".join(word(draw).lower() for _ in range(draw.randint(20, 160)))
    return Article(of, of.references[0].url, None, of.text[:30], None, f"{text}\n{filler}.")


def articles(sizes: Mapping[str, int] = SIZES) -> list[Article]:
    """An article on each of so many events of a region, always the same."""
    draw = random.Random(5)
    return [article(event(r, n, draw), draw) for r, size in sizes.items() for n in range(size)]


class Fetched(Run):
    """A run whose articles are there."""

    sizes: Mapping[str, int] = SIZES

    @cached_property
    def collect(self) -> Outcome:
        return self._made("collect", Event, [one.event for one in articles(self.sizes)])

    @cached_property
    def retrieve(self) -> Outcome:
        return self._made("retrieve", Article, articles(self.sizes))

    def _made(self, name: str, kind: type, records: Iterable[Any]) -> Outcome:
        stage = Stage(name, 1, lambda record: [record], (kind,))
        return self._run(stage, records, 1)


def new_run(folder: Path, server: str, budget: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "run.toml").write_text(
        f"""
[release]
version = "2025.04"
texts = "none"
[pages]
source = "folder:pages"
regions = {json.dumps(list(SIZES))}
years = [2019, 2023]
[generate]
model = "scripted"
[models.scripted]
base_url = "{server}"
max_tokens = 500
price = {{input = 0.5, output = 2.0}}
{budget}
""",
        "utf-8",
    )
    return folder
