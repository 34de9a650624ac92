"""Requests in files, answered within a day and mostly at half the price: the Batch API.

`batched` gives a model whose every question goes into a file; until its reply is there, the record
that asks waits, as it waits for a busy server, and the stage is none the wiser. Files are sent when
no new question comes. What was sent is remembered on the disk: another process goes on from there
and nothing is paid twice.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiebe.engine import Wait
from tiebe.errors import ModelError, SettingsError
from tiebe.journal import Journal
from tiebe.llm import Budget, Model, Server, count_tokens, error_of
from tiebe.records import canonical, to_row

__all__ = ["PACE", "Pace", "batched", "has_files"]

log = logging.getLogger(__name__)

_WORKING = ("validating", "in_progress", "finalizing", "cancelling")
_PARAMETERS = dict.fromkeys(("response_format", "max_tokens", "temperature"))
_PATIENCE = 20  # failures in a row of submitting and polling, before the run ends


@dataclass(frozen=True, slots=True)
class Pace:
    """When files are sent and asked for."""

    quiet: float = 3.0
    """Seconds without a new question after which those that wait are sent."""
    poll: float = 30.0
    """Seconds between two looks at what was sent."""
    size: int = 20_000
    """Most requests in a file."""
    tries: int = 4
    """How often a request is sent, before its record fails."""


PACE = Pace()
"""What suits a provider that takes hours."""


def batched(model: Model, folder: Path, pace: Pace | None = None) -> Model:
    """Returns the model as one that is asked in files.

    Args:
        model: One with a server that has the Batch API.
        folder: Where questions, what was sent, and replies (where the model keeps none) lie; of
            this model only.
        pace: When files are sent.

    Raises:
        SettingsError: The model has no server, or another process works in the folder.
    """
    if not (isinstance(model.send, Server) and has_files(model)):
        raise SettingsError(f"{model.name} has no server with a Batch API")
    place = folder.resolve()
    batches = _here.get(place)
    if batches is None:
        batches = _here[place] = _Batches(place, model.replies)
    batches.serve(model, model.send, pace or PACE)
    # What a question may cost is held back until its reply is there, and not while it is written.
    return replace(model, send=batches, replies=batches.replies, budget=None)


def has_files(model: Model) -> bool:
    """Returns whether a model's server may have a Batch API: a remote one, mostly."""
    return isinstance(model.send, Server | _Batches) and model.name != "local"


_here: "weakref.WeakValueDictionary[Path, _Batches]" = weakref.WeakValueDictionary()
"""Of this process, by folder: a model may be opened again while its first one lives."""


class _Batches:
    """The files of one model."""

    name: str
    server: Server
    budget: Budget
    pay: Callable[[Mapping[str, int]], None]
    pace: Pace

    def __init__(self, folder: Path, replies: Journal | None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._own = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        weakref.finalize(self, os.close, self._own)
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another process works in {folder}: let it end") from error
        self.replies = Journal(folder / "replies", fsync=True) if replies is None else replies
        self._lock = threading.Lock()
        self._open: dict[str, bytes] = {}
        self._waiting: set[str] = set()
        self._sent: dict[str, dict[str, Any]] = {}
        self._held: dict[str, contextlib.ExitStack] = {}
        self._failures: Counter[str] = Counter()
        self._said: dict[str, str] = {}
        self._last = self._next = 0.0
        self._faults = 0
        self._number = 0
        for path in sorted(folder.glob("*.jsonl")):
            self._number = int(path.stem)
            state = self._state(path.stem)
            if state is None:
                path.unlink()  # never sent
            else:
                self._sent[path.stem] = state
                self._waiting.update(key for key, _ in _lines(path, "custom_id"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Stays where it is: one process sends files and asks for them."""
        raise TypeError("a model that is asked in files is asked by one process")

    def serve(self, model: Model, server: Server, pace: Pace) -> None:
        """Works for a model from now on; the same one at each call."""
        self.name, self.server, self.pace = model.name, server, pace
        self.budget, self.pay = model.budget or Budget(), model.pay
        if model.replies is not None:
            self.replies = model.replies

    def __call__(self, body: Mapping[str, Any]) -> Any:
        """Puts a request into a file and raises Wait: its reply will be among the kept ones."""
        key = hashlib.sha256(canonical(body)).hexdigest()
        with self._lock:
            if key in self.replies:
                raise Wait(0)  # it came while this request was made
            if self._failures[key] >= self.pace.tries:
                what = f"{self.name}: {self._said[key]}"
                raise ModelError(what, model=self.name)
            if key not in self._waiting:
                self._add(key, body)
            self._work()
            seconds = self.pace.quiet if self._open else self.pace.poll
        raise Wait(seconds)

    def _add(self, key: str, body: Mapping[str, Any]) -> None:
        texts = [message["content"] for message in body["messages"]]
        most = {
            "prompt_tokens": sum(map(count_tokens, texts)) * 3 // 2,
            "completion_tokens": int(body["max_tokens"]),
        }
        held = contextlib.ExitStack()
        try:
            held.enter_context(self.budget.reserved(self.name, most))
        except Wait as wait:
            self._work()  # what is open or sent must come back first
            raise Wait(self.pace.poll) from wait
        self._held[key] = held
        line = {
            "custom_id": key,
            "method": "POST",
            "url": f"/v1{self.server.path}",
            "body": self.server.adapt(body),
        }
        self._open[key] = canonical(line) + b"\n"
        self._waiting.add(key)
        self._last = time.monotonic()

    def _work(self) -> None:
        """Sends what is due and looks after what was sent."""
        now = time.monotonic()
        due = len(self._open) >= self.pace.size or now - self._last >= self.pace.quiet
        try:
            if self._open and due:
                self._submit()
            if now >= self._next:
                self._next = now + self.pace.poll
                for name in list(self._sent):
                    self._look(name)
            self._faults = 0
        except Wait as wait:
            self._faults += 1
            self._next = now + max(wait.seconds, self.pace.quiet)
            self._last = now  # so that sending waits as well
            if self._faults >= _PATIENCE and wait.cause is not None:
                raise ModelError(str(wait.cause), model=self.name, fatal=True) from wait

    def _submit(self) -> None:
        self._number += 1
        name = f"{self._number:04d}"
        content = b"".join(self._open.values())
        (self.folder / f"{name}.jsonl").write_bytes(content)
        state = {"sha256": hashlib.sha256(content).hexdigest(), "batch": None}
        self._remember(name, state)
        count, self._open = len(self._open), {}
        self._sent[name] = state
        log.info("%s: %s requests go into batch %s", self.name, f"{count:,}", name)
        self._send(name, state)

    def _send(self, name: str, state: dict[str, Any]) -> None:
        """Uploads a file and starts its batch."""
        uploaded = self._ask("POST", "/files", upload=self.folder / f"{name}.jsonl")
        order = {
            "input_file_id": uploaded["id"],
            "endpoint": f"/v1{self.server.path}",
            "completion_window": "24h",
            "metadata": {"tiebe": state["sha256"]},
        }
        state["batch"] = self._ask("POST", "/batches", json_body=order)["id"]
        self._remember(name, state)

    def _look(self, name: str) -> None:
        """Takes the replies of a batch that has ended."""
        state = self._sent[name]
        if state["batch"] is None:  # a process died, or a server failed, while it was being sent
            found = self._found(state["sha256"])
            if found is None:
                self._send(name, state)
            else:
                state["batch"] = found
                self._remember(name, state)
        batch = self._ask("GET", f"/batches/{state['batch']}")
        if batch["status"] in _WORKING:
            return
        keys = {key for key, _ in _lines(self.folder / f"{name}.jsonl", "custom_id")}
        for part in ("output_file_id", "error_file_id"):
            if batch.get(part):
                path = self.folder / f"{name}.{part}"
                with path.open("wb") as file:
                    self._ask("GET", f"/files/{batch[part]}/content", into=file)
                for key, line in _lines(path, "custom_id"):
                    if key in keys:
                        self._take(key, line)
                path.unlink()
        left = {key for key in keys if key not in self.replies}
        for key in left:
            self._failures[key] += 1
            self._said.setdefault(key, f"the batch ended as {batch['status']} without a reply")
        for key in keys:
            self._waiting.discard(key)
            if key in self._held:
                self._held.pop(key).close()
        del self._sent[name]
        (self.folder / f"{name}.jsonl").unlink()
        log.info(
            "%s: batch %s is %s: %s replies, %s to send again",
            *(self.name, name, batch["status"], len(keys) - len(left), len(left)),
        )
        if batch["status"] == "failed":
            errors = (batch.get("errors") or {}).get("data") or [{}]
            what = f"{self.name}: the batch was refused: {errors[0].get('message')}"
            raise ModelError(what, model=self.name, fatal=True)

    def _take(self, key: str, line: Mapping[str, Any]) -> None:
        """Keeps the reply in a line of a batch's output, or what is wrong with it."""
        response = line.get("response") or {}
        content = json.dumps(response.get("body") or line.get("error") or {}).encode()
        if response.get("status_code") != 200:
            error = error_of(content)
            self.server.learn(
                dict.fromkeys(("response_format", "max_tokens", "temperature")), error
            )
            self._said[key] = error["message"]
            return
        try:
            reply = self.server.read(content)
        except Wait as wait:
            self._said[key] = str(wait.cause)
            return
        row = {"asked": self.name, **to_row(reply)}
        self.replies.append(key, [row], usage=reply.usage)
        self.budget.add(self.name, reply.usage)
        self.pay(reply.usage)

    def _found(self, sha256: str) -> str | None:
        """The id of a batch that was started and not remembered."""
        after = ""
        while True:
            page = self._ask("GET", f"/batches?limit=100{after}")
            for batch in page["data"]:
                if (batch.get("metadata") or {}).get("tiebe") == sha256:
                    return str(batch["id"])
            if not page.get("has_more") or not page["data"]:
                return None
            after = f"&after={page['data'][-1]['id']}"

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        response, content = self.server.request(method, path, **more)
        if response.status_code != 200:
            raise self.server.status(response, error_of(content))
        if "into" in more:
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            what = f"{self.name}: {path} gave no JSON: {content[:200]!r}"
            raise Wait(5.0, cause=ModelError(what, model=self.name)) from error

    def _state(self, name: str) -> dict[str, Any] | None:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def _remember(self, name: str, state: Mapping[str, Any]) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(canonical(state))
        new.replace(self.folder / f"{name}.json")


def _lines(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the objects of a JSONL file with one of their fields; what is none is passed over."""
    with path.open("rb") as file:
        for line in file:
            try:
                value = json.loads(line)
                yield str(value[name]), value
            except (ValueError, LookupError, TypeError):
                log.warning("%s: a line without %s is passed over", path, name)
