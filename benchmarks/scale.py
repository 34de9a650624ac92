"""Sixty times today's size on one machine: `python -m benchmarks.scale`.

A journal of a million records written and opened, a release of a million questions written, each in
a process of its own whose memory is measured; and what the engine costs a record beside a bare
thread pool that does the same work, with the same journal format written by hand.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, finish

N = 1_000_000
OVERHEAD = 20_000
WORKERS, ROUNDS = 8, 5
REASONING = "The answer names the same person and the same year as the one that was expected. " * 3
ROW: dict[str, Any] = {"record": "Verdict", "correct": True, "refusal": False}
ROW |= {"reasoning": REASONING, "decided_by": "stub", "prompt": "judge@1"}


def key(number: int) -> str:
    """A journal's key."""
    return hashlib.sha256(b"%d" % number).hexdigest()


def write_journal(folder: Path) -> None:
    from tiebe.journal import Journal

    with Journal(folder / "journal") as journal:
        for number in range(N):
            usage = {"prompt_tokens": 400, "completion_tokens": 60}
            journal.append(key(number), [ROW | {"id": f"{number:016x}"}], usage=usage)


def open_journal(folder: Path) -> None:
    from tiebe.journal import Journal

    with Journal(folder / "journal") as journal:
        assert len(journal) == N
        assert journal.get(key(N // 2)) is not None


def write_release(folder: Path) -> None:
    """Half English, half native rows; one article in five questions."""
    from builder.release import Edition
    from builder.release import write_release as write

    written = write(folder / "release", questions(), articles(), Edition("2025.04"))
    assert written.total() == N


def named(number: int) -> tuple[str, str, str]:
    """The ids of an event and of its article, and its region."""
    from tiebe.records import record_id
    from tiebe.regions import REGIONS

    slugs = tuple(REGIONS)
    event = record_id("event", number)
    return event, record_id(event, "article"), slugs[number % len(slugs)]


def questions() -> Iterator[Any]:
    from tiebe.records import Question, record_id

    for number in range(N // 2):
        event, article, region = named(number)
        month = f"{1 + number % 12:02}"
        text = f"Which bridge did the council of town {number} open in month {month}?"
        row = Question(
            id=record_id(event, text),
            event_id=event,
            article_id=article,
            region=region,
            language="en",
            year=str(2015 + number % 11),
            month=month,
            date=f"{2015 + number % 11}-{month}-{1 + number % 28:02}",
            end_date=None,
            event_desc=f"The council of town {number} opens a bridge after years of delay.",
            question=text,
            answer=f"Bridge {number % 977} over the river",
            source_url=f"https://news.example/{region}/{number}",
            archive_url=None,
            source_title=f"Town {number} has its bridge",
            page_title=f"{2015 + number % 11} in {region}",
            page_revision=number,
            writer="stub-1",
            prompt="generate@1",
        )
        yield row
        yield replace(row, language="pt")


def articles() -> Iterator[dict[str, Any]]:
    from builder.release import ARTICLES

    empty = dict.fromkeys(ARTICLES.names, "")
    for number in range(0, N // 2, 5):
        event, article, region = named(number)
        ids = {"article_id": article, "event_id": event, "region": region}
        yield empty | ids | {"text": f"{number} " + REASONING * 8}


def apart(task: Callable[[Path], None], folder: Path) -> tuple[float, float]:
    """Runs a task of this module in a process of its own: seconds and peak megabytes."""
    command = [sys.executable, "-m", "benchmarks.scale", task.__name__, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


@dataclass(frozen=True)
class Item:
    """A record."""

    id: str


def work(item: Item) -> Item:
    """What a stage does here: next to nothing, so that all that is measured is the engine."""
    return Item(item.id[::-1])


def by_engine(items: list[Item], folder: Path) -> None:
    from tiebe.engine import Stage, run_stage
    from tiebe.journal import Journal

    stage = Stage("work", 1, lambda item: [work(item)], (Item,))
    with Journal(folder) as journal:
        run_stage(stage, items, journal, workers=WORKERS, progress=False)
        assert len(journal) == len(items)


def by_pool(items: list[Item], folder: Path) -> None:
    """A thread pool and a JSON-lines file."""
    folder.mkdir()
    with ThreadPoolExecutor(WORKERS) as pool, (folder / "rows.jsonl").open("w") as file:
        for item, made in zip(items, pool.map(work, items), strict=True):
            file.write(json.dumps({"key": key(int(item.id)), "rows": [made.id]}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def overhead(folder: Path) -> tuple[float, float]:
    """Milliseconds a record of the engine and of the bare pool: best of rounds in turn."""
    items = [Item(str(number)) for number in range(OVERHEAD)]
    best = [float("inf")] * 2
    for turn in range(ROUNDS):
        for at, run in enumerate((by_engine, by_pool)):
            start = time.perf_counter()
            run(items, folder / f"{turn}-{at}")
            best[at] = min(best[at], (time.perf_counter() - start) / OVERHEAD * 1000)
    return best[0], best[1]


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wrote, _ = apart(write_journal, folder)
        size = sum(p.stat().st_size for p in (folder / "journal").glob("*.jsonl")) / 1e6
        opened, held = apart(open_journal, folder)
        released, peak = apart(write_release, folder)
        engine, pool = overhead(folder)
    million = f"journal of {N:,} records, {size:,.0f} MB"
    finish(
        [
            Figure(f"{million}, written, a record", wrote / N * 1000, "ms"),
            Figure(f"{million}, opened", opened, "s", limit=5),
            Figure(f"{million}, memory", held, "MB", limit=500),
            Figure(f"release of {N:,} questions written", released, "s"),
            Figure(f"release of {N:,} questions, memory", peak, "MB", limit=1000),
            Figure(
                "engine and journal, a record, more than the pool", engine - pool, "ms", limit=0.2
            ),
            Figure("engine and journal, a record", engine, "ms"),
            Figure("thread pool and a file, a record", pool, "ms"),
        ]
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        start = time.perf_counter()
        globals()[sys.argv[1]](Path(sys.argv[2]))
        print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
    else:
        main()
