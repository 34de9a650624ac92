"""Runs stages: skips what is journaled, works in threads, counts drops, stops cleanly.

A stage is a function of ONE record (or of one `Group`, when it gathers) to an iterable of records
or Drops. It knows neither threads nor files. When it cannot go on now it raises `Wait`: the engine
frees the worker for other records and comes back to this one first.
"""

import contextlib
import contextvars
import hashlib
import heapq
import itertools
import logging
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tiebe.errors import FetchError, ModelError, TiebeError
from tiebe.journal import Journal
from tiebe.records import Drop, canonical, from_row, to_row

__all__ = [
    "Engine",
    "Outcome",
    "Overrun",
    "Stage",
    "Wait",
    "Workers",
    "ends_run",
    "meter",
    "metered",
    "pending",
    "run_stage",
    "work",
]

log = logging.getLogger(__name__)
T = TypeVar("T")

TRIES = 8
"""How often a record is tried when each try fails for a passing reason."""
BACKOFF = 0.25
"""Seconds; doubled at every failed try."""
STORM = 16
"""When half of so many tries have failed for a passing reason, every worker waits."""


class Wait(Exception):
    """Raised by a stage that cannot go on now.

    Args:
        seconds: How long from now.
        owner: The host that is to be left alone so long; its other records wait too.
        cause: What went wrong, when this counts as a failed try; raised after the last one.
        tries: How many tries are worth it, where fewer than usual are.
    """

    def __init__(
        self,
        seconds: float,
        *,
        owner: str | None = None,
        cause: Exception | None = None,
        tries: int | None = None,
    ) -> None:
        super().__init__(f"wait {seconds:.2f} s" + (f" for {owner}" if owner else ""))
        self.seconds = seconds
        self.owner = owner
        self.cause = cause
        self.tries = tries


def _no_owner(record: Any) -> str | None:
    return None


@dataclass(frozen=True)
class Stage:
    """What turns records of one kind into records of the next.

    Attributes:
        name: Also its module, its verb and its journal.
        version: Raised when the same input would give another output.
        run: One record (or Group) to its outputs: records, or exactly one Drop.
        makes: The record classes of its outputs.
        params: What else decides the output: the prompt's sha, the model and its parameters.
        paid: Whether money is spent: each result reaches the disk before the next.
        owner: The host that a record bothers; one record per owner is in work at a time.
        cost: Dollars of a usage, where prices are known.
    """

    name: str
    version: int
    run: Callable[[Any], Iterable[Any]]
    makes: tuple[type, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    paid: bool = False
    owner: Callable[[Any], str | None] = _no_owner
    cost: Callable[[Mapping[str, int]], float] | None = None

    def key(self, record: Any) -> str:
        """Returns the journal key: sha256 over the stage, its parameters and the whole input."""
        parts = [self.name, self.version, dict(self.params), to_row(record)]
        return hashlib.sha256(canonical(parts)).hexdigest()


_meter: contextvars.ContextVar[Counter[str] | None] = contextvars.ContextVar("meter", default=None)


def meter(usage: Mapping[str, int]) -> None:
    """Adds what a call has cost to the record that is being worked on."""
    counter = _meter.get()
    if counter is not None:
        counter.update(usage)


@contextlib.contextmanager
def metered() -> Iterator[Counter[str]]:
    """Collects what `meter` is told inside the block."""
    counter: Counter[str] = Counter()
    token = _meter.set(counter)
    try:
        yield counter
    finally:
        _meter.reset(token)


@dataclass
class Outcome:
    """What a stage made of its inputs, read back from its journal in the order of the inputs."""

    stage: Stage
    journal: Journal
    inputs: dict[str, str]
    """Journal key to record id."""
    failed: dict[str, Drop]
    """By key: what failed for a passing reason; not journaled, so the next run tries again."""

    def records(self) -> Iterator[Any]:
        """Yields the outputs."""
        for key in self.inputs:
            entry = self.journal.get(key)
            yield from map(self._record, entry.rows if entry else ())

    def one(self, record: Any) -> Any:
        """Returns what an input of a stage that maps one to one became: its output or its Drop."""
        key = self.stage.key(record)
        entry = self.journal.get(key)
        if entry is None:
            return self.failed[key]
        return from_row(Drop, entry.drop) if entry.drop else self._record(entry.rows[0])

    def _record(self, row: Mapping[str, Any]) -> Any:
        kinds = {kind.__name__: kind for kind in self.stage.makes}
        return from_row(kinds[row["record"]], row, where=f"{self.stage.name} journal")

    def index(self, kind: type[T]) -> Mapping[str, T]:
        """Returns the outputs of one kind by id; each is read when it is asked for."""
        return _Index(self, kind)

    def drops(self) -> Iterator[Drop]:
        """Yields what was left out, the failures of this run included."""
        for key in self.inputs:
            if key in self.failed:
                yield self.failed[key]
            elif (entry := self.journal.get(key)) and entry.drop is not None:
                yield from_row(Drop, entry.drop)

    def counts(self) -> dict[str, Any]:
        """Returns `in`, `parents`, `out`, `dropped` by reason, and `usage`."""
        out, parents = 0, 0
        dropped: Counter[str] = Counter()
        usage: Counter[str] = Counter()
        for key in self.inputs:
            entry = self.journal.get(key)
            if entry is None:
                dropped[self.failed[key].reason if key in self.failed else "pending"] += 1
            elif entry.drop is not None:
                dropped[entry.drop["reason"]] += 1
            else:
                parents += 1
                out += len(entry.rows)
            if entry and entry.usage:
                usage.update(entry.usage)
        return {
            "in": len(self.inputs),
            "parents": parents,
            "out": out,
            "dropped": dict(dropped.most_common()),
            "usage": dict(sorted(usage.items())),
        }


class _Index(Mapping[str, T]):
    """Outputs by id, with nothing but the places of their lines in memory."""

    def __init__(self, outcome: Outcome, kind: type[T]) -> None:
        self._journal, self._kind = outcome.journal, kind
        self._places: dict[str, tuple[str, int]] = {}
        for key in outcome.inputs:
            entry = outcome.journal.get(key)
            for number, row in enumerate(entry.rows if entry else ()):
                if row["record"] == kind.__name__:
                    record: Any = from_row(kind, row)
                    self._places[record.id] = key, number

    def __getitem__(self, record_id: str) -> T:
        key, number = self._places[record_id]
        entry = self._journal.get(key)
        assert entry is not None
        return from_row(self._kind, entry.rows[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def run_stage(
    stage: Stage,
    records: Iterable[Any],
    journal: Journal,
    *,
    workers: int = 8,
    progress: bool = True,
) -> Outcome:
    """Runs a stage over records; what its journal has is not done again.

    Args:
        stage: What to run.
        records: The inputs; of two with the same key one is worked on. Results come in this order.
        journal: The stage's own.
        workers: The number of threads.
        progress: Whether a progress bar goes to stderr, where that is a terminal.

    Returns:
        The outcome. One line of counts is logged at INFO.

    Raises:
        TiebeError: A fatal one (no quota, wrong settings), or the last of many failures in a row.
            What was done until then is journaled.
        KeyboardInterrupt: After the records in work have been finished.
    """
    inputs, todo = pending(stage, records, journal)
    failed, error = work(
        stage, todo, journal, workers=workers, total=len(inputs) if progress else None
    )
    if error is not None:
        raise error
    outcome = Outcome(stage, journal, inputs, failed)
    log.info("%s", summary(stage.name, outcome.counts()))
    return outcome


class Engine(Protocol):
    """What runs a stage: `run_stage` in this process, `tiebe.ray_engine.RayEngine` on several."""

    def __call__(
        self,
        stage: Stage,
        records: Iterable[Any],
        journal: Journal,
        *,
        workers: int = 8,
        progress: bool = True,
    ) -> Outcome:
        """Does what `run_stage` does."""


def pending(
    stage: Stage, records: Iterable[Any], journal: Journal
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns the id of each input by its key, and by key the inputs that are not done yet."""
    inputs: dict[str, str] = {}
    todo: dict[str, Any] = {}
    for record in records:
        key = stage.key(record)
        if key not in inputs:
            inputs[key] = record.id
            if key not in journal:
                todo[key] = record
    return inputs, todo


def summary(name: str, counts: Mapping[str, Any]) -> str:
    """Returns the one line that tells what became of a stage's inputs."""
    dropped = counts["dropped"]
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in dropped.items())
    line = f"{name}: {counts['in']:,} in, {counts['out']:,} out, {sum(dropped.values()):,} dropped"
    return f"{line} ({reasons})" if reasons else line


@dataclass
class _Task:
    key: str
    record: Any
    owner: str | None
    tries: int = 0


@dataclass
class _Lane:
    """The records of one owner: one in work at a time, none before `ready`."""

    tasks: deque[_Task] = field(default_factory=deque)
    ready: float = 0.0
    queued: bool = False


class _Queue:
    """Hands records to workers: due retries first, then owners in turn, then the rest in order."""

    def __init__(self, tasks: Iterable[_Task], *, patience: int) -> None:
        self.changed = threading.Condition()
        self.failed: dict[str, Drop] = {}
        self.error: BaseException | None = None
        self.usage: Counter[str] = Counter()
        self.stopped = False
        self._number = itertools.count()
        self._fresh: deque[_Task] = deque()
        self._retries: list[tuple[float, int, _Task]] = []
        self._lanes: dict[str, _Lane] = {}
        self._turns: list[tuple[float, int, str]] = []
        self._running = 0
        self._paused = 0.0
        self._recent: deque[bool] = deque(maxlen=STORM)  # whether a try failed
        self._patience = patience
        self._in_a_row = 0
        self._done = 0
        self.size = 0
        for task in tasks:
            self.size += 1
            if task.owner is None:
                self._fresh.append(task)
            else:
                self._lanes.setdefault(task.owner, _Lane()).tasks.append(task)
        for owner in self._lanes:
            self._enqueue(owner)

    def _enqueue(self, owner: str) -> None:
        lane = self._lanes[owner]
        if lane.tasks and not lane.queued:
            lane.queued = True
            heapq.heappush(self._turns, (lane.ready, next(self._number), owner))

    @property
    def finished(self) -> int:
        """How many records are over, the failed ones included."""
        return self._done + len(self.failed)

    def take(self) -> _Task | None:
        """Returns the next record to work on, waiting for one; None when the work is over."""
        with self.changed:
            while True:
                if self.stopped:
                    return None
                now = time.monotonic()
                pause: float | None = self._paused - now
                if pause is None or pause <= 0:
                    task, pause = self._next(now)
                    if task is not None:
                        self._running += 1
                        return task
                    if pause is None and not self._running:
                        self.changed.notify_all()
                        return None
                self.changed.wait(pause)

    def _next(self, now: float) -> tuple[_Task | None, float | None]:
        """A record that can be worked on now, or how long until one can (None: not known)."""
        if self._retries and self._retries[0][0] <= now:
            return heapq.heappop(self._retries)[2], None
        if self._turns and self._turns[0][0] <= now:
            lane = self._lanes[heapq.heappop(self._turns)[2]]
            return lane.tasks.popleft(), None  # stays `queued` until it is put back: one at a time
        if self._fresh:
            return self._fresh.popleft(), None
        dues = [heap[0][0] for heap in (self._retries, self._turns) if heap]
        return None, (min(dues) - now if dues else None)

    def done(self, task: _Task, usage: Mapping[str, int]) -> None:
        """Says that a record is finished, and what it took."""
        with self.changed:
            self.usage.update(usage)
            self._in_a_row = 0
            self._recent.append(False)
            self._release(task)

    def fail(self, task: _Task, error: BaseException, stage: str) -> None:
        """Says that a record failed for good, in this run; too many in a row end the run."""
        with self.changed:
            detail = f"{type(error).__name__}: {error}"[:500]
            self.failed[task.key] = Drop(stage, task.record.id, "failed", detail)
            self._in_a_row += 1
            over = not self._done and not self._fresh and not self._turns and not self._retries
            if self._in_a_row >= self._patience or (over and self._running == 1):
                self._stop(error)
            self._release(task, failed=True)

    def again(self, task: _Task, wait: Wait) -> None:
        """Puts a record back until its wait is over."""
        with self.changed:
            now = time.monotonic()
            owner = wait.owner if wait.owner is not None else task.owner
            if wait.cause is not None:
                if owner is None:
                    self._recent.append(True)
                    if sum(self._recent) > STORM // 2:
                        self._paused = max(self._paused, now + min(wait.seconds, 60.0))
                        self._recent.clear()
                task.tries += 1
                wait.seconds = max(wait.seconds, BACKOFF * 2**task.tries * random.uniform(0.5, 1))
            held, task.owner = task.owner, owner
            if owner is None:
                due = now + wait.seconds
                heapq.heappush(self._retries, (due, next(self._number), task))
            else:
                lane = self._lanes.setdefault(owner, _Lane())
                lane.tasks.appendleft(task)
                lane.ready = max(lane.ready, now + wait.seconds)
                self._enqueue(owner)
            self._running -= 1
            if held is not None:
                self._free(held)
            self.changed.notify_all()

    def _free(self, owner: str) -> None:
        """Lets the next record of an owner come."""
        self._lanes[owner].queued = False
        self._enqueue(owner)

    def _release(self, task: _Task, *, failed: bool = False) -> None:
        self._running -= 1
        self._done += not failed
        if task.owner is not None:
            self._free(task.owner)
        self.changed.notify_all()

    def _stop(self, error: BaseException | None) -> None:
        self.stopped = True
        self.error = self.error or error
        self.changed.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """Hands out nothing more; what is in work may finish."""
        with self.changed:
            self._stop(error)


def work(
    stage: Stage,
    todo: Mapping[str, Any],
    journal: Journal,
    *,
    workers: int,
    total: int | None = None,
) -> tuple[dict[str, Drop], BaseException | None]:
    """Lets threads work on records until all are done, or an error ends it.

    Args:
        stage: What to run.
        todo: The records by key.
        journal: Takes what they become.
        workers: The number of threads.
        total: How many records there are with those done before, for a progress bar; None: no bar.

    Returns:
        By key what failed for a passing reason, and the error.
    """
    from tqdm import tqdm

    if not todo:
        return {}, None
    tasks = (_Task(key, record, stage.owner(record)) for key, record in todo.items())
    queue = _Queue(tasks, patience=max(10, 2 * workers))
    threads = [
        threading.Thread(target=_worker, args=(stage, queue, journal), daemon=True, name=stage.name)
        for _ in range(max(1, workers))
    ]
    hidden = total is None or None  # None: only on a terminal
    total = total or queue.size
    already = total - queue.size
    bar = tqdm(total=total, initial=already, desc=stage.name, disable=hidden, mininterval=0.5)
    with bar:
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.1 / len(threads))
                bar.set_postfix_str(_spent(stage, queue.usage), refresh=False)
                bar.update(already + queue.finished - bar.n)
        except KeyboardInterrupt:
            queue.stop()
            log.warning("%s: stopping after what is in work; run again to go on", stage.name)
            for thread in threads:
                thread.join()
            raise
    return queue.failed, queue.error


def _spent(stage: Stage, usage: Mapping[str, int]) -> str:
    """Tokens, and dollars where they are known, as the progress bar shows them."""
    tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    if not tokens:
        return ""
    return f"{tokens:,} tokens" + (f", ${stage.cost(usage):.2f}" if stage.cost else "")


def ends_run(error: BaseException) -> bool:
    """Whether an error is one after which no other record need be tried."""
    if isinstance(error, ModelError):
        return error.fatal
    return isinstance(error, TiebeError) and not isinstance(error, FetchError)


def _worker(stage: Stage, queue: _Queue, journal: Journal) -> None:
    while (task := queue.take()) is not None:
        try:
            with metered() as usage:
                outputs = list(stage.run(task.record))
            _check(stage, outputs)
        except Wait as wait:
            if wait.cause is not None and task.tries + 1 >= (wait.tries or TRIES):
                queue.fail(task, wait.cause, stage.name)
            else:
                queue.again(task, wait)
            continue
        except BaseException as error:  # a stranger's function may raise SystemExit as well
            if ends_run(error) or not isinstance(error, Exception):
                queue.stop(error)
            elif not isinstance(error, TiebeError):
                log.exception("%s: record %s failed; the run goes on", stage.name, task.record.id)
            queue.fail(task, error, stage.name)
            continue
        try:
            _write(task, outputs, usage, journal)
        except Exception as error:
            queue.stop(
                error
            )  # a journal that takes nothing (a full disk): going on loses paid work
            queue.fail(task, error, stage.name)
        else:
            queue.done(task, usage)


def _check(stage: Stage, outputs: list[Any]) -> None:
    drops = sum(isinstance(output, Drop) for output in outputs)
    if not outputs or drops > 1 or 0 < drops < len(outputs):
        raise TypeError(f"{stage.name} must give records or exactly one Drop, and gave {outputs!r}")


def _write(task: _Task, outputs: list[Any], usage: Mapping[str, int], journal: Journal) -> None:
    if isinstance(outputs[0], Drop):
        journal.append(task.key, drop=to_row(outputs[0]), usage=usage)
    else:
        rows = [{"record": type(output).__name__, **to_row(output)} for output in outputs]
        journal.append(task.key, rows, usage=usage)


class Overrun(Exception):
    """A function in a worker process took more time or memory than it may, or died.

    Attributes:
        reason: `too_slow`, `too_big` or `crashed`.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Workers:
    """Processes for CPU work on strangers' input, each call with a time and a memory limit.

    Args:
        processes: How many; None for one per core.
        megabytes: The address space that a process may take.
        preload: Modules that a new process has imported before its first call.
    """

    def __init__(
        self, processes: int | None = None, *, megabytes: int = 2048, preload: tuple[str, ...] = ()
    ) -> None:
        import multiprocessing

        from pebble import ProcessPool

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(preload))
        self._given = megabytes, preload
        self._pool = ProcessPool(
            max_workers=processes or os.cpu_count() or 1,
            initializer=_limit_memory,
            initargs=(megabytes,),
            context=context,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process starts one of its own: those that share the work share the cores."""
        return _one_worker, self._given

    def call(self, function: Callable[..., T], *args: Any, seconds: float) -> T:
        """Runs `function(*args)` in a worker process and returns what it returns.

        Raises:
            Overrun: It ran longer than `seconds`, wanted more memory, or took its process down.
            Exception: Whatever the function itself raised.
        """
        from pebble import ProcessExpired

        future = self._pool.schedule(function, args=args, timeout=seconds)
        try:
            result: T = future.result()
        except TimeoutError as error:
            raise Overrun("too_slow", f"more than {seconds:g} s") from error
        except MemoryError as error:
            raise Overrun("too_big") from error
        except ProcessExpired as error:
            raise Overrun("crashed", f"exit code {error.exitcode}") from error
        return result

    def close(self) -> None:
        """Ends the processes."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _one_worker(megabytes: int, preload: tuple[str, ...]) -> Workers:
    return Workers(1, megabytes=megabytes, preload=preload)


def _limit_memory(megabytes: int) -> None:
    import resource

    limit = megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
