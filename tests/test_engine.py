import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiebe.engine import Overrun, Stage, Wait, Workers, meter, run_stage
from tiebe.errors import ModelError, SettingsError
from tiebe.journal import Journal
from tiebe.records import Drop, Group


@dataclass(frozen=True, slots=True)
class Number:
    n: int

    @property
    def id(self) -> str:
        return f"n{self.n}"


@dataclass(frozen=True, slots=True)
class Word:
    text: str


def double(record: Number) -> Iterable[Any]:
    if record.n % 3 == 0:
        return [Drop("double", record.id, "thirds")]
    return [Word(f"{record.n}a"), Word(f"{record.n}b")]


def stage(run: Any = double, **options: Any) -> Stage:
    return Stage("double", 1, run, (Word,), **options)


NUMBERS = [Number(n) for n in range(10)]


def run(a_stage: Stage, journal: Journal | None = None, **options: Any) -> Any:
    journal = Journal(None) if journal is None else journal
    return run_stage(a_stage, NUMBERS, journal, progress=False, **options)


def test_in_is_parents_plus_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outcome = run(stage())
    counts = outcome.counts()
    assert counts == {"in": 10, "parents": 6, "out": 12, "dropped": {"thirds": 4}, "usage": {}}
    assert [w.text for w in outcome.records()][:4] == ["1a", "1b", "2a", "2b"]
    assert [d.record_id for d in outcome.drops()] == ["n0", "n3", "n6", "n9"]
    assert "double: 10 in, 12 out, 4 dropped (thirds 4)" in caplog.text


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    calls: Counter[int] = Counter()

    def counting(record: Number) -> Iterable[Any]:
        calls[record.n] += 1
        return double(record)

    with Journal(tmp_path) as journal:
        first = [w.text for w in run(stage(counting), journal).records()]
    with Journal(tmp_path) as journal:
        assert [w.text for w in run(stage(counting), journal).records()] == first
        assert set(calls.values()) == {1}
        run(stage(counting, params={"prompt": "other"}), journal)
        assert set(calls.values()) == {2}


def test_equal_inputs_are_one() -> None:
    outcome = run_stage(stage(), [Number(1), Number(1)], Journal(None), progress=False)
    assert outcome.counts()["in"] == 1


def test_a_passing_failure_is_tried_again_and_counted() -> None:
    tries: Counter[int] = Counter()

    def shaky(record: Number) -> Iterable[Any]:
        tries[record.n] += 1
        meter({"calls": 1})
        if tries[record.n] < 3:
            raise Wait(0.01, cause=ModelError("busy", model="m"))
        return double(record)

    outcome = run(stage(shaky))
    assert set(tries.values()) == {3}
    assert outcome.counts()["usage"] == {"calls": 10}


def test_one_dead_record_does_not_end_the_run() -> None:
    def dead(record: Number) -> Iterable[Any]:
        if record.n == 4:
            raise ModelError("no answer", model="m")
        return double(record)

    outcome = run(stage(dead))
    assert outcome.counts()["dropped"] == {"thirds": 4, "failed": 1}
    assert "no answer" in [d.detail for d in outcome.drops() if d.reason == "failed"][0]
    again = run_stage(stage(), NUMBERS, outcome.journal, progress=False)
    assert again.counts()["dropped"] == {"thirds": 4}


def test_a_bug_in_a_stage_fails_its_record_only(caplog: pytest.LogCaptureFixture) -> None:
    def buggy(record: Number) -> Iterable[Any]:
        if record.n == 4:
            raise ZeroDivisionError("oops")
        return [] if record.n == 5 else double(record)

    assert run(stage(buggy)).counts()["dropped"] == {"thirds": 4, "failed": 2}
    assert "record n4 failed" in caplog.text and "record n5 failed" in caplog.text


@pytest.mark.parametrize(
    "error", [ModelError("no quota", model="m", fatal=True), SettingsError("unknown region")]
)
def test_a_fatal_error_stops_at_once_and_keeps_what_was_done(error: Exception) -> None:
    calls = []

    def quota(record: Number) -> Iterable[Any]:
        calls.append(record.n)
        if record.n == 4:
            raise error
        return double(record)

    journal = Journal(None)
    with pytest.raises(type(error)):
        run(stage(quota), journal, workers=1)
    assert calls == [0, 1, 2, 3, 4] and len(journal) == 4


def test_when_all_fails_the_run_fails() -> None:
    def broken(record: Number) -> Iterable[Any]:
        raise ModelError("unreachable", model="m")

    with pytest.raises(ModelError, match="unreachable"):
        run(stage(broken), workers=2)
    with pytest.raises(ModelError, match="unreachable"):
        run_stage(stage(broken), [Number(1)], Journal(None), progress=False)


def test_a_full_disk_stops_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with Journal(tmp_path) as journal:
        monkeypatch.setattr(journal, "append", full)
        with pytest.raises(OSError, match="No space"):
            run(stage(), journal)


def test_an_owner_has_one_record_in_work_and_waits_without_a_worker() -> None:
    busy: Counter[str] = Counter()
    seen: list[tuple[str, float]] = []
    lock = threading.Lock()
    ready = {"even": 0.0, "odd": 0.0}

    def owner(record: Number) -> str:
        return "odd" if record.n % 2 else "even"

    def polite(record: Number) -> Iterable[Any]:
        host = owner(record)
        now = time.monotonic()
        if now < ready[host]:
            raise Wait(ready[host] - now, owner=host)
        with lock:
            busy[host] += 1
            assert busy[host] == 1
        time.sleep(0.005)
        with lock:
            busy[host] -= 1
        ready[host] = time.monotonic() + 0.03
        seen.append((host, now))
        return double(record)

    start = time.monotonic()
    outcome = run(stage(polite, owner=owner), workers=2)
    assert outcome.counts()["parents"] == 6 and len(seen) == 10
    assert time.monotonic() - start < 1.0  # one after the other it would be 0.35 s at the least
    assert [host for host, _ in seen][:4] in (
        ["even", "odd", "even", "odd"],
        ["odd", "even", "odd", "even"],
        ["even", "odd", "odd", "even"],
        ["odd", "even", "even", "odd"],
    )


def test_a_waiting_retry_frees_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiebe.engine.BACKOFF", 0.01)
    order: list[int] = []

    def slow_first(record: Number) -> Iterable[Any]:
        if record.n == 0 and not order:
            order.append(-1)
            raise Wait(0.05, cause=ModelError("429", model="m"))
        order.append(record.n)
        time.sleep(0.02)
        return double(record)

    run(stage(slow_first), workers=1)
    assert order[:3] == [-1, 1, 2] and 0 in order[3:6]


@pytest.mark.parametrize(("every", "pauses"), [(1, True), (12, False)])
def test_a_storm_pauses_all_and_single_failures_do_not(every: int, pauses: bool) -> None:
    """Of 200 records every n-th fails once; a provider that takes nothing is left alone."""
    began = time.monotonic()
    first: dict[int, float] = {}
    fails = threading.Lock()

    def busy(record: Number) -> Iterable[Any]:
        with fails:
            fresh = record.n not in first
            first.setdefault(record.n, time.monotonic() - began)
        time.sleep(0.001)
        if fresh and record.n % every == 0:
            raise Wait(0.6, cause=ModelError("busy", model="m"))
        return [Word(record.id)]

    run_stage(stage(busy), [Number(n) for n in range(200)], Journal(None), progress=False)
    early = sum(at < 0.5 for at in first.values())
    assert early < 40 if pauses else early == 200


def test_a_group_is_an_input() -> None:
    def gather(group: Group) -> Iterable[Any]:
        return [Word("+".join(str(m.n) for m in group.members))]

    groups = [Group("low", (Number(1), Number(2))), Group("high", (Number(8),))]
    outcome = run_stage(stage(gather), groups, Journal(None), progress=False)
    assert [w.text for w in outcome.records()] == ["1+2", "8"]


INTERRUPTED = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from tiebe.engine import Stage, run_stage
from tiebe.journal import Journal
from tiebe.records import Drop, Group

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it

def slow(group):
    time.sleep(0.1)
    return [Drop("slow", group.id, "seen")]

with Journal(Path(sys.argv[1])) as journal:
    print("ready", flush=True)
    run_stage(Stage("slow", 1, slow, ()), [Group(str(n), ()) for n in range(5000)], journal)
"""


def test_ctrl_c_finishes_what_is_in_work(tmp_path: Path) -> None:
    script = INTERRUPTED.format(tests=str(tmp_path))
    command = [sys.executable, "-c", script, str(tmp_path / "j")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        time.sleep(1)
        os.kill(process.pid, signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode != 0 and "KeyboardInterrupt" in errors
    with Journal(tmp_path / "j") as journal:
        assert 0 < len(journal) < 5000


def test_workers_limit_time_and_memory() -> None:
    with Workers(1, megabytes=1024) as workers:
        assert workers.call(pow, 2, 10, seconds=5) == 1024
        with pytest.raises(Overrun, match="too_slow"):
            workers.call(time.sleep, 30, seconds=0.2)
        with pytest.raises(Overrun, match="crashed"):
            workers.call(os._exit, 3, seconds=5)
        with pytest.raises(ValueError, match="invalid literal"):
            workers.call(int, "x", seconds=5)
        with pytest.raises(Overrun, match="too_big"):
            workers.call(bytearray, 8 << 30, seconds=5)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_no_exception_ends_the_run_as_well(error: BaseException) -> None:
    def run(record: Number) -> list[Number]:
        raise error

    stage = Stage("work", 1, run, (Number,))
    with pytest.raises(type(error)):
        run_stage(stage, [Number(n) for n in range(5)], Journal(None), workers=2, progress=False)
