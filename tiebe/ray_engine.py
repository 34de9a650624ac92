"""Runs stages on Ray: the stages, the journals and the results of `tiebe.engine`, on many machines.

One task works on each shard, and an owner's records are in one shard, so that one worker owns a
host. A worker opens the stage's tools for itself and writes a journal part of its own. What only
one may count, money and the turns of hosts, a limiter counts for all. A worker that dies, or whose
machine does, is replaced: the next one skips what the journal holds.

The machines share the folders of the run, of TIEBE_HOME where one is used, and of pages; journals
lock their parts (`flock`: NFS 4 does). The cache of documents is SQLite, which no network folder
bears: where there are several machines, TIEBE_CACHE is on each one's own disk, and what a lost
machine had fetched is fetched again. A model at 127.0.0.1 is each machine's own. Keys travel with
the stage from the driver's memory to the workers'. An object store has neither locks nor appending:
there a part would be one object per batch of lines, named by its writer, and a listing of them the
journal.
"""

import contextlib
import heapq
import io
import itertools
import logging
import math
import os
import pickle
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from tiebe.engine import Outcome, Stage, ends_run, pending, run_stage, summary, work
from tiebe.errors import SettingsError, TiebeError
from tiebe.journal import Journal, appended
from tiebe.lanes import Lanes
from tiebe.llm import Budget, Model
from tiebe.records import Drop

try:
    import ray
    import ray.cloudpickle
    from ray.exceptions import (
        LocalRayletDiedError,
        NodeDiedError,
        ObjectLostError,
        OutOfMemoryError,
        RayError,
        RayTaskError,
        WorkerCrashedError,
    )
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as _error:
    raise SettingsError("Ray is not installed: pip install 'tiebe[ray]'") from _error

__all__ = ["RayEngine"]

log = logging.getLogger(__name__)

THREADS = 2
"""Of a worker: as many calls at the most are made again when it is killed."""
CPUS = 0.25
"""Of a worker, which mostly waits for servers."""
DEATHS = 5
"""So often a shard is begun again, whose workers die."""
CLOSED = 120.0
"""Seconds in which a limiter that has itself been replaced lets nobody spend: until the calls that
its predecessor allowed are over."""

_DEATH = (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    WorkerCrashedError,
)


class RayEngine:
    """Runs stages on a Ray cluster; `engine(stage, records, journal)` does what `run_stage` does.

    Args:
        address: The cluster's, as `ray.init` takes it; None starts one on this machine, unless
            this process is connected already.

    Raises:
        SettingsError: No cluster is there.
    """

    def __init__(self, address: str | None = None) -> None:
        self._own = not ray.is_initialized()
        if self._own:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            own = {} if address else {"include_dashboard": False}
            try:
                ray.init(address or "local", logging_level=logging.WARNING, **own)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise SettingsError(f"no Ray cluster at {address or 'local'}: {error}") from error
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._limiter = (
            ray.remote(_Limiter)
            .options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
            .remote()
        )

    def close(self) -> None:
        """Leaves the cluster, or ends the one that was started here."""
        ray.kill(self._limiter)
        if self._own:
            ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(
        self,
        stage: Stage,
        records: Iterable[Any],
        journal: Journal,
        *,
        workers: int = 8,
        progress: bool = True,
    ) -> Outcome:
        """Runs a stage over records; what its journal has is not done again.

        A stage that cannot leave this process (a journal in memory, a model that is asked in files)
        runs here, and a warning says so.

        Args:
            stage: What to run.
            records: The inputs.
            journal: The stage's own, in a folder that all machines share.
            workers: How many records are in work at a time, on all machines together.
            progress: Whether a progress bar goes to stderr.

        Raises:
            TiebeError: See `run_stage`; or the workers of a shard die again and again.
            KeyboardInterrupt: After the records in work have been finished.
        """
        try:
            parcel = _Parcel.of(stage, journal)
        except (TypeError, pickle.PicklingError) as error:
            log.warning("%s: runs in this process: %s", stage.name, error)
            return run_stage(stage, records, journal, workers=workers, progress=progress)
        inputs, todo = pending(stage, records, journal)
        failed: dict[str, Drop] = {}
        if todo:
            with _Shards(self._limiter, parcel, todo, workers) as shards:
                failed = shards.run(total=len(inputs) if progress else None)
        outcome = Outcome(stage, journal, inputs, failed)
        log.info("%s", summary(stage.name, outcome.counts()))
        return outcome


# --- What is sent ----------------------------------------------------------------------------


@dataclass
class _Parcel:
    """A stage and its journal as bytes, and what of them stays where all can reach it."""

    stage: Stage
    journal: Journal
    data: bytes = b""
    budgets: list[Budget] = field(default_factory=list)
    lanes: list[Lanes] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)
    """What each process opens for itself and closes in the end: journals, a web, processes."""
    models: list[Model] = field(default_factory=list)

    @classmethod
    def of(cls, stage: Stage, journal: Journal) -> Self:
        """Packs them; TypeError or PicklingError where something cannot leave this process."""
        parcel, file = cls(stage, journal), io.BytesIO()
        _Pickler(file, parcel).dump((stage, journal))
        parcel.data = file.getvalue()
        return parcel

    @property
    def journals(self) -> list[Journal]:
        """All that the stage reads or writes."""
        return [tool for tool in self.tools if isinstance(tool, Journal)]


_MODEL = [f.name for f in fields(Model) if f.name != "paid" and not f.name.startswith("_")]
"""What makes a model; not what one process has paid and remembers."""


class _Pickler(ray.cloudpickle.CloudPickler):
    """Leaves out of a stage what all workers share, and what each opens for itself."""

    def __init__(self, file: io.BytesIO, parcel: _Parcel) -> None:
        super().__init__(file)
        self._parcel = parcel

    def persistent_id(self, thing: Any) -> Any:
        """Names what is left out; each is left out once, however often it is met."""
        if isinstance(thing, Budget):
            told = thing.max_tokens, thing.max_cost, thing.prices
            return "budget", _place(thing, self._parcel.budgets), told
        if isinstance(thing, Lanes):
            return "lanes", _place(thing, self._parcel.lanes), thing.longest
        if isinstance(thing, Model):
            given = {name: getattr(thing, name) for name in _MODEL}
            return "model", _place(thing, self._parcel.models), given
        if hasattr(thing, "__exit__") and "__reduce__" in vars(type(thing)):
            return "tool", _place(thing, self._parcel.tools), thing.__reduce__()
        return None


def _place(thing: Any, known: list[Any]) -> int:
    for number, other in enumerate(known):
        if other is thing:
            return number
    known.append(thing)
    return len(known) - 1


class _Unpickler(pickle.Unpickler):
    """Puts the workers' own tools and their doors to the limiter into a stage."""

    def __init__(self, data: bytes, limiter: "_Door", stack: contextlib.ExitStack) -> None:
        super().__init__(io.BytesIO(data))
        self._limiter, self._stack = limiter, stack
        self._known: dict[tuple[str, int], Any] = {}
        self.models: dict[int, Model] = {}

    def persistent_load(self, name: Any) -> Any:
        """Returns what was left out under this name."""
        kind, number, told = name
        if (kind, number) not in self._known:
            if kind == "tool":
                made = self._stack.enter_context(told[0](*told[1]))
            elif kind == "model":
                made = self.models[number] = Model(**told)
            elif kind == "budget":
                made = _SharedBudget(self._limiter, number, *told)
            else:
                made = _SharedLanes(self._limiter, number, told)
            self._known[kind, number] = made
        return self._known[kind, number]


def _work_on(
    data: bytes, records: Mapping[str, Any], door: "_Door"
) -> tuple[dict[str, Drop], BaseException | None, dict[int, dict[str, int]]]:
    """The task: works on a shard; what failed, what ended it, and what each model was paid."""
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(door.close)
            parcel = _Unpickler(data, door, stack)
            stage, journal = parcel.load()
            todo = {key: record for key, record in records.items() if key not in journal}
            failed, error = work(stage, todo, journal, workers=THREADS)
    except TiebeError as error:  # a damaged journal, a tool that cannot be opened there
        return {}, error, {}
    return failed, error, {number: dict(m.paid) for number, m in parcel.models.items()}


# --- What is shared --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Account:
    """What a limiter needs to know of a budget: its limits, what is spent, and what tells more."""

    max_tokens: int
    max_cost: float
    prices: Mapping[str, tuple[float, float]]
    tokens: int
    cost: float
    ledgers: Mapping[str, tuple[Any, Mapping[str, int], str | None]]
    """Journals by folder: how far they are counted already, and whose calls they hold (None: each
    reply tells)."""

    def open(self) -> Budget:
        """Returns the budget with what is spent by now, as the journals tell."""
        budget = Budget(self.max_tokens, self.max_cost, self.prices, self.tokens, self.cost)
        for folder, ends, model in self.ledgers.values():
            for entry in appended(folder, ends):
                if entry.usage:
                    budget.add(model or str(entry.rows[0]["asked"]), entry.usage)
        return budget


class _Limiter:
    """The actor: what may be spent, and whose turn it is, for all workers of a stage.

    Where it dies, Ray starts another, which grants nothing until the driver opens the stage again:
    the sums are in the journals, and what its predecessor allowed is waited out.
    """

    def __init__(self) -> None:
        self._stage = ""
        self._budgets: list[Budget] = []
        self._lanes: list[Lanes] = []
        self._opens = math.inf
        self._held: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        self._dead: set[str] = set()

    def open(
        self, stage: str, accounts: list[_Account], longest: list[float], *, again: bool
    ) -> None:
        self._stage = stage
        self._budgets = [account.open() for account in accounts]
        self._lanes = [Lanes(one, closed=one if again else 0.0) for one in longest]
        self._opens = time.monotonic() + (CLOSED if again else 0.0)
        self._held.clear()
        self._dead.clear()

    def stage(self) -> str:
        return self._stage

    def _counts(self, holder: str) -> bool:
        """Whether a holder works on the stage that is open, and is not dead."""
        return holder.partition(".")[0] == self._stage and holder not in self._dead

    def hold(
        self, holder: str, number: int, tokens: int, cost: float
    ) -> Literal["held", "later", "never"]:
        if not self._counts(holder) or time.monotonic() < self._opens:
            return "later"
        answer = self._budgets[number].hold(tokens, cost)
        if answer == "held":
            self._held[holder].append((number, tokens, cost))
        return answer

    def let_go(self, holder: str, number: int, tokens: int, cost: float) -> None:
        held = number, tokens, cost
        if self._counts(holder) and held in self._held[holder]:  # else its predecessor held it
            self._held[holder].remove(held)
            self._budgets[number].let_go(tokens, cost)

    def add(self, holder: str, number: int, model: str, usage: Mapping[str, int]) -> None:
        if self._counts(holder):
            self._budgets[number].add(model, usage)

    def spent(self) -> list[tuple[int, float]]:
        return [(budget.tokens, budget.cost) for budget in self._budgets]

    def left(self, holder: str, number: int, owner: str) -> float:
        return self._lanes[number].left(owner) if self._counts(holder) else 1.0

    def take(self, holder: str, number: int, owner: str, pause: float) -> float:
        return self._lanes[number].take(owner, pause, holder) if self._counts(holder) else 1.0

    def leave(self, holder: str, number: int, owner: str, rest: float) -> None:
        if self._counts(holder):
            self._lanes[number].leave(owner, rest)

    def lose(self, holder: str) -> None:
        """Settles what a worker leaves behind that is dead: calls in flight may have been paid."""
        self._dead.add(holder)
        for number, tokens, cost in self._held.pop(holder, ()):
            self._budgets[number].let_go(tokens, cost, lost=True)
        for lanes in self._lanes:
            lanes.lose(holder)


@dataclass(frozen=True)
class _Door:
    """A worker's way to the limiter."""

    limiter: Any
    holder: str

    def ask(self, method: str, *args: Any) -> Any:
        return ray.get(getattr(self.limiter, method).remote(self.holder, *args))

    def tell(self, method: str, *args: Any) -> None:
        """Does not wait: what one worker tells and asks comes in its order."""
        getattr(self.limiter, method).remote(self.holder, *args)

    def close(self) -> None:
        """Waits until all is told."""
        ray.get(self.limiter.stage.remote())


class _SharedBudget(Budget):
    """A budget that the limiter keeps."""

    def __init__(self, door: _Door, number: int, *told: Any) -> None:
        super().__init__(*told)
        self._door, self._number = door, number

    def add(self, model: str, usage: Mapping[str, int]) -> None:
        self._door.tell("add", self._number, model, dict(usage))

    def hold(self, tokens: int, cost: float) -> Literal["held", "later", "never"]:
        if not self.limited:
            return "held"
        answer: Literal["held", "later", "never"] = self._door.ask(
            "hold", self._number, tokens, cost
        )
        return answer

    def let_go(self, tokens: int, cost: float, *, lost: bool = False) -> None:
        if self.limited:
            self._door.tell("let_go", self._number, tokens, cost)


class _SharedLanes(Lanes):
    """Lanes that the limiter keeps."""

    def __init__(self, door: _Door, number: int, longest: float) -> None:
        super().__init__(longest)
        self._door, self._number = door, number

    def left(self, owner: str) -> float:
        return float(self._door.ask("left", self._number, owner))

    def take(self, owner: str, pause: float, holder: str = "") -> float:
        return float(self._door.ask("take", self._number, owner, pause))

    def leave(self, owner: str, rest: float = 0.0) -> None:
        self._door.tell("leave", self._number, owner, rest)


# --- The driver ------------------------------------------------------------------------------


@dataclass
class _Shard:
    number: int
    records: dict[str, Any]
    deaths: int = 0


def _split(stage: Stage, todo: Mapping[str, Any], count: int) -> list[_Shard]:
    """Splits records so that an owner's are together, and those without one go round."""
    shards = [_Shard(number, {}) for number in range(count)]
    owners: dict[str, dict[str, Any]] = defaultdict(dict)
    free = itertools.cycle(shards)
    for key, record in todo.items():
        owner = stage.owner(record)
        if owner is None:
            next(free).records[key] = record
        else:
            owners[owner][key] = record
    sizes = [(len(shard.records), shard.number) for shard in shards]
    for records in sorted(owners.values(), key=len, reverse=True):
        size, number = heapq.heappop(sizes)
        shards[number].records |= records
        heapq.heappush(sizes, (size + len(records), number))
    return [shard for shard in shards if shard.records]


class _Shards:
    """The shards of a stage in work; the limiter is theirs for as long."""

    def __init__(self, limiter: Any, parcel: _Parcel, todo: dict[str, Any], workers: int) -> None:
        self._limiter, self._parcel, self._todo = limiter, parcel, todo
        self._stage, self._journal = parcel.stage, parcel.journal
        self._name = uuid.uuid4().hex
        count = math.ceil(min(workers, len(todo)) / THREADS)
        self._waiting = _split(self._stage, todo, count)
        self._running: dict[Any, _Shard] = {}
        self._before = len(self._journal)
        self._failed: dict[str, Drop] = {}
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._accounts = [self._account(budget) for budget in self._parcel.budgets]
        self._open(again=False)
        # Ray's own retries would not tell the limiter who is dead.
        self._task = ray.remote(_work_on).options(
            num_cpus=CPUS,
            max_retries=0,
            name=f"tiebe-{self._stage.name}",
            scheduling_strategy="SPREAD",
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._look()
        spent = ray.get(self._limiter.spent.remote())
        for budget, (tokens, cost) in zip(self._parcel.budgets, spent, strict=True):
            budget.tokens, budget.cost = tokens, cost
        for journal in self._parcel.journals:
            journal.refresh()

    def _open(self, *, again: bool) -> None:
        longest = [lanes.longest for lanes in self._parcel.lanes]
        ray.get(self._limiter.open.remote(self._name, self._accounts, longest, again=again))

    def _account(self, budget: Budget) -> _Account:
        ledgers: dict[str, Any] = {}
        for model in self._parcel.models:
            if model.budget is budget:
                kept = self._journal if model.replies is None else model.replies
                assert kept.folder is not None
                whose = model.name if model.replies is None else None
                ledgers[str(kept.folder)] = (kept.folder.resolve(), kept.ends(), whose)
        limits = budget.max_tokens, budget.max_cost, budget.prices
        return _Account(*limits, budget.tokens, budget.cost, ledgers)

    def run(self, *, total: int | None) -> dict[str, Drop]:
        """Works on all shards; by key what failed for a passing reason.

        Raises:
            TiebeError: What ended the stage.
        """
        from tqdm import tqdm

        already = (total or 0) - len(self._todo)
        bar = tqdm(
            total=total,
            initial=already,
            desc=self._stage.name,
            disable=total is None or None,  # None: only on a terminal
            mininterval=0.5,
        )
        with bar:
            try:
                while self._waiting or self._running:
                    while self._waiting:
                        self._start(self._waiting.pop())
                    for ended in ray.wait(list(self._running), timeout=1.0)[0]:
                        self._end(ended)
                    self._look()
                    self._journal.refresh()
                    over = len(self._journal) - self._before + len(self._failed)
                    bar.update(already + over - bar.n)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    log.warning(
                        "%s: stopping after what is in work; run again to go on", self._stage.name
                    )
                self._stop()
                raise
        # Where nothing at all could be done, that is an error and no loss of some records.
        if self._error is not None and len(self._failed) == len(self._todo):
            raise self._error
        return self._failed

    def _look(self) -> None:
        """Opens the stage again where the limiter has been replaced."""
        if ray.get(self._limiter.stage.remote()) != self._name:
            log.warning("%s: the limiter died; another one waits and goes on", self._stage.name)
            self._open(again=True)

    def _start(self, shard: _Shard) -> None:
        left = {key: r for key, r in shard.records.items() if key not in self._journal}
        door = _Door(self._limiter, self._holder(shard))
        self._running[self._task.remote(self._parcel.data, left, door)] = shard

    def _holder(self, shard: _Shard) -> str:
        """Who works on a shard now, as the limiter knows it."""
        return f"{self._name}.{shard.number}.{shard.deaths}"

    def _end(self, ended: Any) -> None:
        """Takes what a task returned; where its worker died, another one shall go on."""
        shard = self._running.pop(ended)
        try:
            failed, error, paid = ray.get(ended)
        except _DEATH as death:
            ray.get(self._limiter.lose.remote(self._holder(shard)))
            shard.deaths += 1
            if shard.deaths > DEATHS:
                raise TiebeError(
                    f"{self._stage.name}: the workers of a shard died {shard.deaths} times, see "
                    "Ray's logs; what was done is kept"
                ) from death
            log.warning(
                "%s: a worker died (%s); another one goes on", self._stage.name, _line(death)
            )
            self._journal.refresh()
            self._waiting.append(shard)
            return
        except RayTaskError as error:
            raise TiebeError(
                f"{self._stage.name}: a worker cannot do its work; is the same tiebe, with its "
                f"extras, on each machine? {str(error).strip().splitlines()[-1][:300]}"
            ) from error
        self._failed |= failed
        for number, usage in paid.items():
            self._parcel.models[number].pay(usage)
        if error is None:
            return
        self._journal.refresh()
        # A small shard may fail as a whole where the stage as a whole does not.
        whole = all(key in self._journal or key in self._failed for key in shard.records)
        if ends_run(error) or not whole:
            raise error
        self._error = error

    def _stop(self) -> None:
        """Lets the workers finish what is in work, and no more."""
        for task in self._running:
            ray.cancel(task, force=False)
        while self._running:
            for ended in ray.wait(list(self._running))[0]:
                shard = self._running.pop(ended)
                try:
                    ray.get(ended)
                except RayError as error:  # that it was cancelled, or died of it
                    log.debug("%s: shard %d: %s", self._stage.name, shard.number, _line(error))


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
