"""What breaks first at 10, 100 and 1,000 times today's size: `python -m benchmarks.growth`.

Works out hours, memory, disk and dollars of a whole build from today's counts, and writes the
page `benchmarks/growth.md`. Fetching is simulated as the engine does it (workers, one request per
host at a time, a pause between them) as far as that takes seconds; beyond, the busiest host and the
number of workers bound it, and the page says how near that comes to the simulation.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, finish

PAGE = Path(__file__).with_name("growth.md")
FACTORS = (1, 10, 100, 1000)
SIMULATED = 10
HOURS, GIGABYTES, DISK, DOLLARS = 12.0, 8.0, 200.0, 1000.0
"""A night, a laptop's memory, its disk, and what a group pays without asking anybody."""

# Counted in today's data: events of all 23 regions, citations of each, and where these lead.
EVENTS, CITATIONS, KEPT = 21_087, 1.27, 0.82
SHARES = {
    "web.archive.org": 0.173, "www.bbc.co.uk": 0.173, "www.bbc.com": 0.059,
    "www.theguardian.com": 0.047, "apnews.com": 0.040, "www.reuters.com": 0.030,
    "www.abc.net.au": 0.024, "www.cnn.com": 0.019, "news.detik.com": 0.019,
    "www.nytimes.com": 0.016,
}  # fmt: skip
HOSTS, HEAPS, ZIPF = 1_908, 0.64, 1.05
"""Hosts of 22,388 citations, how they grow with these, how the rest falls off by rank."""

# Assumed.
DEAD = 0.2
"""The share of live links that has to be looked for in the archive."""
SECONDS = {"archive": 1.5, "other": 0.8}
"""That a document takes."""

# Of the settings and of `builder.web`.
DELAY, CDX, REPLAY, WORKERS = 1.0, 2.75, 0.2, 16

# Measured by other benchmarks here, or by the estimates of `builder.plan`; tokens in and out.
CALLS = {"generate": (1250, 150), "translate": (300, 120), "answer": (150, 60), "judge": (450, 80)}
NATIVE = 0.8
PRICE = (0.27, 1.10)
CALL_SECONDS, IN_FLIGHT = 4.0, 16
EXTRACTION = 0.25
"""Seconds of a core a page."""
JOURNAL_BYTES = {"collect": 2_500, "retrieve": 6_000, "generate": 1_500, "select": 1_200}
INDEX_BYTES, OPEN_SECONDS = 170, 1.5e-6
"""Of a journal's record: in memory, and to open it from its index."""
CACHE_BYTES, ROW_BYTES, TEXT_BYTES = 30_000, 350, 2_200
SORT_BYTES, WRITE_SECONDS = 250, 1.3e-4


@dataclass(frozen=True)
class Need:
    """What a part of a build needs at one size, and how much there is."""

    what: str
    amount: float
    unit: str
    limit: float

    @property
    def broken(self) -> bool:
        """Whether there is less than it needs."""
        return self.amount > self.limit


def lanes(factor: int) -> dict[str, tuple[int, float]]:
    """Returns by host the documents that are fetched, and the seconds between two starts."""
    citations = EVENTS * CITATIONS * factor
    found = {host: round(share * citations) for host, share in SHARES.items()}
    hosts = round(HOSTS * (citations / 22_388) ** HEAPS) - len(SHARES)
    weights = [1 / rank**ZIPF for rank in range(1, hosts + 1)]
    rest = citations * (1 - sum(SHARES.values())) / sum(weights)
    found |= {f"host {rank}": max(1, round(w * rest)) for rank, w in enumerate(weights, 1)}
    archived = found.pop("web.archive.org")
    lost = round(DEAD * (citations - archived))
    return {host: (n, DELAY) for host, n in found.items()} | {
        "web.archive.org, replay": (archived + lost, REPLAY),
        "web.archive.org, index": (lost, CDX),
    }


def bound(factor: int) -> tuple[float, str]:
    """Returns the least hours that fetching takes, and what holds it up."""
    by_host = lanes(factor)
    alone = {host: n * max(gap, seconds(host)) / 3600 for host, (n, gap) in by_host.items()}
    host = max(alone, key=alone.__getitem__)
    busy = sum(n * seconds(host) for host, (n, _) in by_host.items()) / WORKERS / 3600
    return (alone[host], host) if alone[host] > busy else (busy, f"{WORKERS} workers")


def seconds(host: str) -> float:
    """Returns how long a document of a host takes."""
    return SECONDS["archive" if host.startswith("web.archive.org") else "other"]


def simulated(factor: int) -> float:
    """Returns the hours that the engine takes: next is the free host that is longest ready."""
    dice = random.Random(0)
    left = {host: n for host, (n, _) in lanes(factor).items()}
    gaps = {host: gap for host, (_, gap) in lanes(factor).items()}
    ready = [(0.0, dice.random(), host) for host in left]
    heapq.heapify(ready)
    workers = [0.0] * WORKERS
    end = 0.0
    while ready:
        at, _, host = heapq.heappop(ready)
        start = max(at, heapq.heappop(workers))
        took = dice.lognormvariate(-0.125, 0.5) * seconds(host)  # its mean is 1
        end = max(end, start + took)
        heapq.heappush(workers, start + took)
        left[host] -= 1
        if left[host]:
            heapq.heappush(ready, (start + max(gaps[host], took), dice.random(), host))
    return end / 3600


def cost(*stages: tuple[str, float]) -> tuple[float, float]:
    """Returns dollars and hours of so many calls of each kind."""
    dollars = sum(
        n * tokens * price / 1e6
        for stage, n in stages
        for tokens, price in zip(CALLS[stage], PRICE, strict=True)
    )
    return dollars, sum(n for _, n in stages) * CALL_SECONDS / IN_FLIGHT / 3600


def needs(factor: int) -> Iterator[Need]:
    """Yields what a whole build of so many times today's size needs."""
    events = EVENTS * factor
    articles = events * KEPT
    rows = articles * (1 + NATIVE)
    fetched = sum(n for n, _ in lanes(factor).values())
    hours, host = bound(factor)
    yield Need(f"fetching, held up by {host}", hours, "h", HOURS)
    yield Need("extraction on 2 cores", fetched * EXTRACTION / 2 / 3600, "h", HOURS)
    dollars, hours = cost(("generate", articles), ("translate", articles * NATIVE))
    yield Need("writing and translating, 16 calls at a time", hours, "h", HOURS)
    yield Need("writing and translating", dollars, "$", DOLLARS)
    dollars, hours = cost(("answer", rows), ("judge", rows))
    yield Need("one model asked and judged, 16 at a time", hours, "h", HOURS)
    yield Need("one model asked and judged", dollars, "$", DOLLARS)
    lines = events * (1 + CITATIONS)
    yield Need("opening the largest journal", lines * OPEN_SECONDS, "s", 60)
    yield Need("keys of the journals in memory", 4 * lines * INDEX_BYTES / 1e9, "GB", GIGABYTES)
    size = events * sum(JOURNAL_BYTES.values()) + fetched * CACHE_BYTES
    yield Need("journals and fetched documents on disk", size / 1e9, "GB", DISK)
    yield Need("writing the release", rows * WRITE_SECONDS / 60, "min", 60 * HOURS)
    yield Need("writing the release", rows * SORT_BYTES / 1e9, "GB", GIGABYTES)
    largest = max(rows * ROW_BYTES, articles * TEXT_BYTES) / 10  # the largest region has a tenth
    yield Need("the largest file of the release", largest / 1e9, "GB", 5.0)


REMEDIES = """
## What is done about it

Due at 10 times, and built in:

- **Hosts and archives.** Each host has a queue of its own, so that a slow one holds up nobody
  else; what was answered is cached and never asked again, and a build on a base fetches only new
  events. `archive = "off"` leaves the archive's part to another night; `tiebe-build plan` tells the
  hours by host before.
- **Journals** are sharded: every writer has its own parts, a full part has an index that is read
  instead of it, and `tiebe-build compact` merges what many processes wrote.
- **Release.** Rows are spooled to disk by region and written a thousand at a time; what stays in
  memory is a sort key a row.
- **Model calls.** `--batch` needs no connection while it waits and costs half; a budget in tokens
  or dollars buys a balanced part; the cascade saves most of a judge's calls.

At 100 times, more machines: `--engine ray` gives each host to one worker and keeps one limit for
all, so that extraction and model calls spread. The busiest host stays one queue, as politeness
asks, and takes weeks: go on from a base month by month instead of starting anew. Documents from a
dump of the archive (WARC files) would be another source; it is not built.

At 1,000 times a run no longer fits one folder: keep one run per group of regions and publish them
one after the other. Merging such runs into one release is not built.
"""


def page(near: dict[int, float]) -> str:
    """Returns the page."""
    table = {factor: list(needs(factor)) for factor in FACTORS}
    names = [(need.what.split(", held")[0], need.unit, need.limit) for need in table[1]]
    lines = [
        "# What breaks first",
        "",
        "Written by `python -m benchmarks.growth`, whose head says what was counted, measured and",
        f"assumed. Today's size: {EVENTS:,} events with {CITATIONS} citations each, a whole build",
        "from nothing, on two cores. Bold is what passes its limit: a night, a laptop's memory or",
        "disk, what a group pays without asking.",
        "",
        "| | limit | " + " | ".join(f"× {factor:,}" for factor in FACTORS) + " |",
        "|---|---|" + "---|" * len(FACTORS),
    ]
    for at, (name, unit, limit) in enumerate(names):
        cells = [
            f"**{number(table[f][at].amount)}**"
            if table[f][at].broken
            else number(table[f][at].amount)
            for f in FACTORS
        ]
        lines.append(f"| {name}, {unit} | {number(limit)} | " + " | ".join(cells) + " |")
    held = dict.fromkeys(bound(factor)[1] for factor in FACTORS)
    lines += ["", f"Fetching is held up by {', then by '.join(held)}."]
    lines += [
        "Simulated, it takes "
        + " and ".join(
            f"{hours:.1f} h at × {factor}, {hours / bound(factor)[0]:.2f} times that bound"
            for factor, hours in near.items()
        )
        + ".",
        "",
        "## In which order",
        "",
    ]
    for factor in FACTORS:
        new = [
            n
            for at, n in enumerate(table[factor])
            if n.broken and not any(table[f][at].broken for f in FACTORS if f < factor)
        ]
        told = "; ".join(
            f"{n.what} ({number(n.amount)} {n.unit})"
            for n in sorted(new, key=lambda n: n.limit / n.amount)
        )
        lines.append(f"- × {factor:,}: {told or 'nothing'}.")
    return "\n".join(lines) + "\n" + REMEDIES


def number(value: float) -> str:
    """Returns a number as people read it."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def main() -> None:
    """Writes the page and tells what it simulated."""
    near = {factor: simulated(factor) for factor in FACTORS if factor <= SIMULATED}
    PAGE.write_text(page(near), "utf-8")
    finish(
        Figure(f"fetching × {f}, simulated", hours, "h", "the busiest host alone", bound(f)[0])
        for f, hours in near.items()
    )


if __name__ == "__main__":
    main()
