"""A build on two machines (Ray nodes on this one) that are killed: the local build's release."""

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import scenario
from made_pages import line, write_pages

cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs Ray: make test-ray")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

EVENTS, HOSTS = 2000, 200
PAGES = [(region, year) for region in ("Brazil", "World") for year in range(2020, 2025)]
NODE = {"num_cpus": 4, "object_store_memory": 80 << 20}


@dataclass
class Build:
    """The parts of the builds, and the local one's release."""

    scenario: scenario.Scenario
    local: dict[str, bytes]
    calls: int
    tokens: int
    """That the local build paid for."""

    def new_run(self, name: str, max_tokens: int = 0) -> Path:
        run = self.scenario.new_run(name)
        with (run / "run.toml").open("a", encoding="utf-8") as toml:
            toml.write(f"[budget]\nmax_tokens = {max_tokens}\n")
        return run


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    folder = tmp_path_factory.mktemp("ray")
    draw = random.Random(10)
    lines = [
        dataclasses.replace(line(n, draw, PAGES), url=f"https://host{n % HOSTS}.example/{n}")
        for n in range(EVENTS)
    ]
    write_pages(folder / "pages", lines)
    told = [(one.text, [one.url]) for one in lines]
    with scenario.scenario(folder, folder / "pages", PAGES, told, seed=10, latency=0.02) as made:
        # What a dead worker had asked is over after this and the time to connect.
        made.toml = made.toml.replace("[generate]", "deadline = 5.0\n[generate]")
        local = made.new_run("local")
        made.build(local)
        logs = Logs(made, 0, 0)
        tokens = sum(r["prompt_tokens"] + r["completion_tokens"] for r in logs.calls)
        assert len({urlsplit(r["url"]).hostname for r in logs.fetches}) == HOSTS
        yield Build(made, scenario.release_files(local), len(logs.calls), tokens)


class Logs:
    """What the servers were asked from some line on."""

    def __init__(self, made: scenario.Scenario, articles: int, writer: int) -> None:
        self.fetches = _rows(made.articles_log, articles)
        self.calls = _rows(made.writer_log, writer)

    @property
    def overlaps(self) -> list[tuple[str, str]]:
        """Pairs of requests that a host had to serve at the same time."""
        hosts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self.fetches:
            hosts[urlsplit(row["url"]).hostname or ""].append(row)
        found = []
        for rows in hosts.values():
            rows.sort(key=lambda row: row["t_in"])
            for one, other in zip(rows, rows[1:], strict=False):
                if other["t_in"] < one["t_out"]:
                    found.append((one["url"], other["url"]))
        return found

    @property
    def repeated(self) -> tuple[int, int]:
        """Fetches and calls that were made again although they had been answered."""
        fetched = Counter(r["url"] for r in self.fetches if r["status"] != 500)
        called = Counter(r["url"] for r in self.calls)
        return sum(fetched.values()) - len(fetched), sum(called.values()) - len(called)


def _rows(log: Path, start: int) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    return [json.loads(row) for row in log.read_text("utf-8").splitlines()[start:]]


@dataclass
class Nodes:
    """A head and a second node."""

    cluster: Any
    removed: list[Any] = field(default_factory=list)

    def add(self) -> Any:
        return self.cluster.add_node(**NODE)

    def workers(self, stage: str) -> list[int]:
        """The processes that work on a stage."""
        raylets = {
            info.process.pid
            for node in [self.cluster.head_node, *self.cluster.worker_nodes]
            for info in node.all_processes["raylet"]
        }
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = (process / "cmdline").read_bytes()
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if told.startswith(f"ray::tiebe-{stage}".encode()) and parent in raylets:
                    found.append(int(process.name))
        return found


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**NODE, "include_dashboard": False}
    )
    made = Nodes(cluster)
    made.add()
    try:
        yield made
    finally:
        cluster.shutdown()


@contextlib.contextmanager
def started(build: Build, run: Path, nodes: Nodes) -> Iterator[subprocess.Popen[str]]:
    """A build on the nodes; ended with the block, whatever comes."""
    more = ("--engine", "ray", "--address", nodes.cluster.address)
    process = build.scenario.start(run, "run", *more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(run: Path, stage: str, records: int, process: subprocess.Popen[str]) -> None:
    """Waits until so many records of a stage are journaled."""
    deadline = time.monotonic() + 600
    while scenario.count_lines(run / stage) < records:
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < deadline, f"{stage} does not come to {records}"
        time.sleep(0.1)


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err[-3000:]
    return out + err


def test_killed_workers_repeat_no_more_than_two_calls(build: Build, nodes: Nodes) -> None:
    start = lengths(build)
    run = build.new_run("killed")
    with started(build, run, nodes) as process:
        for stage, records in (("retrieve", EVENTS // 4), ("generate", EVENTS // 3)):
            wait_for(run, stage, records, process)
            os.kill(nodes.workers(stage)[0], signal.SIGKILL)
        told = end(process)
    assert told.count("a worker died") == 2 and "runs in this process" not in told
    logs = Logs(build.scenario, *start)
    assert scenario.release_files(run) == build.local
    assert logs.overlaps == []
    fetched, called = logs.repeated
    print(f"{len(logs.fetches)} fetches, {len(logs.calls)} calls; repeated: {fetched}, {called}")
    assert fetched <= 2 and called <= 2
    assert len(logs.calls) - called == build.calls


def test_a_removed_node_and_a_budget(build: Build, nodes: Nodes) -> None:
    start = lengths(build)
    limit = build.tokens * 6 // 10
    run = build.new_run("removed", limit)
    with started(build, run, nodes) as process:
        for stage, records in (("retrieve", EVENTS // 4), ("generate", EVENTS // 4)):
            wait_for(run, stage, records, process)
            nodes.cluster.remove_node(next(iter(nodes.cluster.worker_nodes)), allow_graceful=False)
            nodes.add()
        told = end(process)
    assert "a worker died" in told and "raise it under [budget]" in told
    assert "runs in this process" not in told
    logs = Logs(build.scenario, *start)
    spent = sum(row["prompt_tokens"] + row["completion_tokens"] for row in logs.calls)
    print(f"{spent} of {limit} tokens; {len(logs.calls)} calls, repeated: {logs.repeated}")
    assert logs.overlaps == []
    assert 0.8 * limit < spent <= limit

    toml = run / "run.toml"
    toml.write_text(toml.read_text("utf-8").replace(f"= {limit}", "= 0"), "utf-8")
    with started(build, run, nodes) as process:
        end(process)
    assert scenario.release_files(run) == build.local
    assert Logs(build.scenario, *start).overlaps == []


def lengths(build: Build) -> Sequence[int]:
    return len(_rows(build.scenario.articles_log, 0)), len(_rows(build.scenario.writer_log, 0))
