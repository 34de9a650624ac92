"""A whole build against local parts: pages in a folder, a news site, a scripted writer."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import article_server
import writer_server

RUN_TOML = """
[release]
version = "{version}"
base = "{base}"
[pages]
source = "folder:{pages}"
regions = {regions}
years = [{first}, {last}]
[web]
delay = 0.0
workers = 8
backoff = 0.05
archive = "{archive}"
allow_private = true
rewrite = "{rewrite}"
[generate]
model = "scripted"
[models.scripted]
base_url = "{writer}"
"""

Event = tuple[str, Sequence[str]]
"""A text and the URLs cited for it."""


@dataclass
class Scenario:
    """A run folder and the servers that it needs."""

    folder: Path
    toml: str
    planted: set[str]
    plan: dict[str, Any]
    events: Sequence[Event]
    articles_log: Path
    writer_log: Path
    kills: list[float] = field(default_factory=list)

    def new_run(self, name: str, **settings: str) -> Path:
        """A fresh run folder, with a cache and a home of its own beside it.

        Args:
            name: Of the folder.
            settings: Strings of run.toml, by key, that are to be others.
        """
        run = self.folder / name
        run.mkdir()
        toml = self.toml
        for key, value in settings.items():
            toml, count = re.subn(rf'^{key} = ".*"$', f'{key} = "{value}"', toml, flags=re.M)
            assert count == 1, key
        (run / "run.toml").write_text(toml, "utf-8")
        return run

    def start(self, run: Path, verb: str = "run", *more: str) -> subprocess.Popen[str]:
        """Starts `tiebe-build VERB RUN`, with more options."""
        env = {
            **os.environ,
            "TIEBE_CACHE": str(run.with_suffix(".cache")),
            "TIEBE_HOME": str(run.with_suffix(".home")),
            "HF_HOME": str(run.with_suffix(".hf")),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "builder.cli", verb, str(run), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    def build(self, run: Path, verb: str = "run") -> str:
        """Runs to the end and returns what was printed."""
        process = self.start(run, verb)
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err[-3000:]
        return out

    def kill_in(self, run: Path, stage: str, at: int) -> int:
        """Kills a build with SIGKILL once `at` records of a stage are journaled; how many were."""
        process = self.start(run)
        journal = run / stage
        deadline = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < deadline:
            if count_lines(journal) >= at:
                self.kills.append(time.time())
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        process.communicate()
        return count_lines(journal)


def count_lines(journal: Path) -> int:
    """The lines of a journal."""
    return sum(part.read_bytes().count(b"\n") for part in journal.glob("*.jsonl"))


def repeated(log: Path, kills: Sequence[float], runs: int) -> list[str]:
    """URLs (or bodies) asked again although no kill had caught them in flight and none had failed.

    Args:
        log: A server's log.
        kills: When builds were killed.
        runs: How many whole builds the log is of.
    """
    asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in log.read_text("utf-8").splitlines():
        row = json.loads(line)
        asked[row["url"]].append(row)
    bad = []
    for url, rows in asked.items():
        excused = sum(
            row["status"] in (0, 500)
            or any(row["t_in"] - 0.05 <= kill <= row["t_out"] + 0.25 for kill in kills)
            for row in rows
        )
        if len(rows) > runs + excused:
            bad.append(url)
    return bad


def truth_events(truth: Path) -> list[Event]:
    """The events of a page's truth file."""
    told = json.loads(truth.read_text("utf-8"))
    return [(e["text"], [r["url"] for r in e["refs"]]) for e in told["events"]]


@contextmanager
def scenario(
    folder: Path,
    pages: Path,
    region_years: Sequence[tuple[str, int]],
    events: Sequence[Event],
    *,
    seed: int,
    wrong_pages: Sequence[str] = (),
    latency: float = 0.01,
    archive: str = "off",
    version: str = "2025.04",
) -> Iterator[Scenario]:
    """Starts the servers and yields the scenario."""
    plan, planted = article_server.plan_for(events, seed=seed, wrong_pages=wrong_pages)
    writer_log = folder / "writer.log.jsonl"
    years = [year for _, year in region_years]
    with (
        article_server.running(plan, folder, latency=latency) as (rewrite, articles_log),
        writer_server.running(log=writer_log, latency=latency) as base_url,
    ):
        toml = RUN_TOML.format(
            version=version,
            base="",
            pages=pages,
            regions=json.dumps(sorted({region for region, _ in region_years})),
            first=min(years),
            last=max(years),
            archive=archive,
            rewrite=rewrite,
            writer=base_url,
        )
        yield Scenario(folder, toml, planted, plan, events, articles_log, writer_log)


def fractions(seed: int, names: Sequence[str]) -> dict[str, float]:
    """Where in each stage a kill falls, as a share of its records."""
    draw = random.Random(seed)
    return {name: draw.uniform(0.2, 0.8) for name in names}


def release_files(run: Path) -> dict[str, bytes]:
    """The release, path to bytes."""
    root = run / "release"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def stages(run: Path) -> dict[str, Any]:
    """The counts of a run's manifest."""
    counts: dict[str, Any] = json.loads((run / "manifest.json").read_text("utf-8"))["stages"]
    for name, c in counts.items():
        assert c["in"] == c["parents"] + sum(Counter(c["dropped"]).values()), name
    return counts
