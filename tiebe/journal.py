"""A journal: the append-only, keyed, crash-safe memory of a stage.

A journal is a folder of JSON-lines parts, one writer per part; writers may be many, in processes of
several machines that share the folder. A line is
`{"key": …, "rows": […] | "drop": {…}, "usage": {…}, "at": …}`; what has a key there is never
computed again. A process killed at any byte leaves at most one torn last line per part, which the
next opening cuts off. A part that has reached `PART` bytes is full: an index beside it, which may
be deleted, spares the next opening reading it. Standard library only.
"""

import fcntl
import functools
import json
import os
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebe.errors import RecordError

__all__ = ["PART", "Compacted", "Entry", "Journal", "appended", "compact"]

PART = 1 << 26
"""Bytes from which on a part is full, and lines go to the next."""

_HEAD = b'{"key":"'
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_TAIL = b"}\n"
_BATCH = 1 << 18  # bytes between two fsyncs of a journal that does not sync each line
_OFFSET_BITS = 44
_INDEX = ".index"
_INDEX_HEAD = struct.Struct(">8sQI")  # a mark, the size of its part, a checksum of what follows
_INDEX_LINE = struct.Struct(">32sQ")  # a key and where its line begins
_INDEX_MARK = b"tiebe-1\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a journal: what became of the input with this key."""

    key: str
    """64 hex digits."""
    rows: Sequence[Mapping[str, Any]] = ()
    drop: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    """Tokens and calls that were paid for it."""


class Journal:
    """A folder of JSON-lines parts, indexed by key; safe to share between threads.

    Args:
        folder: Where the parts lie; made when the first line is written. None keeps all in memory.
        fsync: Whether each line reaches the disk before `append` returns, as paid work must.

    Raises:
        RecordError: A line that is not the last of its part is damaged; the message names it.
    """

    def __init__(self, folder: Path | None, *, fsync: bool = False) -> None:
        self.folder = folder
        self.fsync = fsync
        self._lock = threading.Lock()
        self._memory: dict[bytes, Entry] = {}
        self._index: dict[bytes, int] = {}
        self._readers: list[int] = []
        self._paths: list[Path] = []
        self._ends: list[int] = []  # how far each part is indexed, the one that is written aside
        self._writer: int | None = None
        self._part = 0
        self._size = 0
        self._sync_lock = threading.Lock()
        self._synced = 0
        if folder is not None:
            for path in _parts(folder):
                self._open_part(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder for itself, and writes a part of its own."""
        if self.folder is None:
            raise TypeError("a journal in memory cannot be shared between processes")
        return functools.partial(Journal, fsync=self.fsync), (self.folder.resolve(),)

    def _open_part(self, path: Path) -> None:
        """Indexes a part; becomes its writer when nobody else is and no part is held yet."""
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
        mine = self._try_lock(fd)
        part = self._add_part(path, fd)
        size = os.fstat(fd).st_size
        keys = _read_index(path, size) if size >= PART else None
        if keys is None:
            keys = []
            offset = 0
            for line in _lines(path):
                keys.append((bytes.fromhex(line[_KEY].decode("ascii")), offset))
                offset += len(line)
            if mine and offset < size:  # torn by a kill: it was never acknowledged
                os.ftruncate(fd, offset)
            size = offset
            if mine and size >= PART:
                _write_index(path, size, keys)
        for key, at in keys:
            self._index.setdefault(key, part << _OFFSET_BITS | at)
        self._ends[part] = size
        if mine and self._writer is None and size < PART:
            self._writer, self._part, self._size, self._synced = fd, part, size, size
        elif mine:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _add_part(self, path: Path, fd: int) -> int:
        self._paths.append(path)
        self._readers.append(fd)
        self._ends.append(0)
        return len(self._paths) - 1

    def refresh(self) -> None:
        """Indexes what other writers have added since this journal was opened or refreshed."""
        if self.folder is None:
            return
        with self._lock:
            known = set(self._paths)
            for path in _parts(self.folder):
                if path not in known:
                    self._add_part(path, os.open(path, os.O_RDONLY))
            for part, path in enumerate(self._paths):
                if self._readers[part] == self._writer:
                    continue
                for line in _lines(path, self._ends[part]):
                    place = part << _OFFSET_BITS | self._ends[part]
                    self._index.setdefault(bytes.fromhex(line[_KEY].decode("ascii")), place)
                    self._ends[part] += len(line)

    def ends(self) -> dict[str, int]:
        """Returns how long each part was when it was last looked at, for `appended`."""
        with self._lock:
            ends = {path.name: end for path, end in zip(self._paths, self._ends, strict=True)}
            if self._writer is not None:
                ends[self._paths[self._part].name] = self._size
            return ends

    @staticmethod
    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _new_part(self) -> None:
        """Makes a part of this writer's own."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(self._paths)
        while True:
            path = self.folder / f"{number:04d}.jsonl"
            try:
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                number += 1
                continue
            if self._try_lock(fd):
                break
            os.close(fd)  # another process has opened it in between, and writes it now
        _sync_folder(self.folder)
        self._writer, self._part, self._size, self._synced = fd, self._add_part(path, fd), 0, 0

    def _end_part(self) -> None:
        """Lets go of a full part, if there is one: on the disk, with its index."""
        if self._writer is None:
            return
        os.fsync(self._writer)
        first, end = self._part << _OFFSET_BITS, (self._part + 1) << _OFFSET_BITS
        keys = [(key, at - first) for key, at in self._index.items() if first <= at < end]
        _write_index(self._paths[self._part], self._size, keys)
        fcntl.flock(self._writer, fcntl.LOCK_UN)
        self._writer, self._ends[self._part] = None, self._size

    def append(
        self,
        key: str,
        rows: Sequence[Mapping[str, Any]] = (),
        *,
        drop: Mapping[str, Any] | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> None:
        """Writes what became of an input; a key that is there already is left as it is.

        Args:
            key: 64 hex digits.
            rows: The outputs as JSON values.
            drop: Why there is no output.
            usage: Tokens and calls that were paid for it.

        Raises:
            OSError: The disk refuses; nothing half-written stays.
        """
        raw_key = bytes.fromhex(key)
        if self.folder is None:
            with self._lock:
                self._memory.setdefault(raw_key, Entry(key, list(rows), drop, usage))
            return
        body: dict[str, Any] = {"key": key}
        body |= {"rows": list(rows)} if drop is None else {"drop": drop}
        if usage:
            body["usage"] = usage
        body["at"] = round(time.time(), 3)
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate cannot be UTF-8; written as \udXXX it is JSON all the same.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        with self._lock:
            if raw_key in self._index:
                return
            if self._writer is None or self._size >= PART:
                with self._sync_lock:  # who waits for the old part's sync must not see the new one
                    self._end_part()
                    self._new_part()
            assert self._writer is not None
            self._write(self._writer, line)
            self._index[raw_key] = self._part << _OFFSET_BITS | self._size
            self._size += len(line)
            end = self._size
            due = self.fsync or end - self._synced >= _BATCH
        if due:
            self._sync(end)

    def _sync(self, end: int) -> None:
        """Waits until the part is on the disk up to `end`; one sync serves all who wait for it."""
        with self._sync_lock:
            if self._synced < end and self._writer is not None:
                reached = self._size
                os.fsync(self._writer)
                self._synced = reached

    def _write(self, fd: int, line: bytes) -> None:
        """Writes a whole line or none of it."""
        written = 0
        try:
            while written < len(line):
                written += os.write(fd, line[written:])
        except OSError:
            os.ftruncate(fd, self._size)
            raise

    def __contains__(self, key: str) -> bool:
        """Whether the input with this key is done."""
        raw_key = bytes.fromhex(key)
        return raw_key in self._index or raw_key in self._memory

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._index) + len(self._memory)

    def get(self, key: str) -> Entry | None:
        """Returns what became of the input with this key, or None when it is not done."""
        raw_key = bytes.fromhex(key)
        if self.folder is None:
            return self._memory.get(raw_key)
        place = self._index.get(raw_key)
        return None if place is None else self._read(raw_key, place)

    def __iter__(self) -> Iterator[Entry]:
        """Yields every entry, in the order of parts and lines."""
        yield from list(self._memory.values())
        for key, place in list(self._index.items()):
            yield self._read(key, place)

    def _read(self, key: bytes, place: int) -> Entry:
        part, offset = place >> _OFFSET_BITS, place & (1 << _OFFSET_BITS) - 1
        fd, at, chunks = self._readers[part], offset, []
        while chunk := os.pread(fd, 65536, at):
            end = chunk.find(b"\n")
            chunks.append(chunk[: end + 1] if end >= 0 else chunk)
            at += len(chunk)
            if end >= 0:
                break
        try:
            entry = _entry(b"".join(chunks))
            if entry.key != key.hex():
                raise ValueError("another key's line: the part was changed after it was indexed")
            return entry
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(self._paths[part], offset) from error

    def close(self) -> None:
        """Syncs what was written and lets go of the files."""
        with self._lock:
            if self._writer is not None and self._synced < self._size:
                os.fsync(self._writer)
            for fd in self._readers:
                os.close(fd)
            self._readers, self._paths, self._ends, self._writer = [], [], [], None
            self._index = {}

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def appended(folder: Path, ends: Mapping[str, int]) -> Iterator[Entry]:
    """Yields what has been written into a journal's folder since its parts ended there.

    Args:
        folder: The journal's; nothing of it is locked.
        ends: As of `Journal.ends`.
    """
    for path in _parts(folder):
        yield from map(_entry, _lines(path, ends.get(path.name, 0)))


@dataclass(frozen=True, slots=True)
class Compacted:
    """What `compact` did to a journal."""

    parts: tuple[int, int]
    """How many before and after."""
    size: tuple[int, int]
    """Bytes before and after."""


def compact(folder: Path) -> Compacted:
    """Rewrites a journal: each key once, in as few parts as there can be.

    Killed at any time it leaves every entry readable, some of them twice, and can run again.

    Raises:
        RecordError: Another process writes to the journal, or a line is damaged.
    """
    old = _parts(folder)
    with ExitStack() as stack:
        for path in old:
            file = stack.enter_context(path.open("rb"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecordError(
                    f"{path}: it is being written to; compact when no run is"
                ) from error
        before = sum(path.stat().st_size for path in old)
        new = _merged(folder, old)
        for path in old:
            path.unlink()
            path.with_suffix(_INDEX).unlink(missing_ok=True)
        _sync_folder(folder)
    return Compacted((len(old), len(new)), (before, sum(path.stat().st_size for path in new)))


def _merged(folder: Path, old: Sequence[Path]) -> list[Path]:
    """Writes the first line of each key into new parts, and makes them visible when all are."""
    seen: set[bytes] = set()
    written: list[tuple[Path, int, list[tuple[bytes, int]]]] = []
    lines = (line for path in old for line in _lines(path))
    line = next(lines, None)
    while line is not None:
        partial = folder / f"compact-{len(written):04d}.partial"
        keys, size = [], 0
        with partial.open("wb") as file:
            while line is not None and size < PART:
                key = bytes.fromhex(line[_KEY].decode("ascii"))
                if key not in seen:
                    seen.add(key)
                    keys.append((key, size))
                    size += file.write(line)
                line = next(lines, None)
            file.flush()
            os.fsync(file.fileno())
        written.append((partial, size, keys))
    parts = []
    for partial, size, keys in written:
        path = _linked(partial)
        partial.unlink()
        if size >= PART:
            _write_index(path, size, keys)
        parts.append(path)
    _sync_folder(folder)
    return parts


def _linked(partial: Path) -> Path:
    """Gives a file the name of the next part, which a run that starts now may have taken."""
    number = 1 + max(
        (int(p.stem) for p in _parts(partial.parent) if p.stem.isdecimal()), default=-1
    )
    while True:
        path = partial.with_name(f"{number:04d}.jsonl")
        try:
            path.hardlink_to(partial)
        except FileExistsError:
            number += 1
        else:
            return path


def _parts(folder: Path) -> list[Path]:
    """Returns the parts that lie in a journal's folder."""
    return [path for path in sorted(folder.glob("*.jsonl")) if path.is_file()]


def _lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yields the lines of a part from an offset on; not a torn last one.

    Raises:
        RecordError: Another one is damaged.
    """
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            if not (line.startswith(_HEAD) and line.endswith(_TAIL) and _is_key(line[_KEY])):
                raise _damaged(path, start)
            start += len(line)
            yield line


def _entry(line: bytes) -> Entry:
    body = json.loads(line)
    return Entry(body["key"], body.get("rows", ()), body.get("drop"), body.get("usage"))


def _is_key(text: bytes) -> bool:
    return len(text) == 64 and not text.translate(None, b"0123456789abcdef")


def _damaged(path: Path, offset: int) -> RecordError:
    number = 1
    with path.open("rb") as file:
        while offset > 0 and (block := file.read(min(offset, 1 << 20))):
            number += block.count(b"\n")
            offset -= len(block)
    return RecordError(
        f"{path}:{number}: not a journal line; delete this line and run again: "
        "only its own record is done anew"
    )


def _write_index(path: Path, size: int, keys: Iterable[tuple[bytes, int]]) -> None:
    """Writes beside a full part where its lines are."""
    body = b"".join(_INDEX_LINE.pack(key, at) for key, at in keys)
    index = path.with_suffix(_INDEX)
    _partial(index).write_bytes(_INDEX_HEAD.pack(_INDEX_MARK, size, zlib.crc32(body)) + body)
    _partial(index).rename(index)


def _read_index(path: Path, size: int) -> list[tuple[bytes, int]] | None:
    """Returns the keys of a part and where their lines begin; None without an index that fits."""
    try:
        data = path.with_suffix(_INDEX).read_bytes()
    except FileNotFoundError:
        return None
    head, body = data[: _INDEX_HEAD.size], data[_INDEX_HEAD.size :]
    if head != _INDEX_HEAD.pack(_INDEX_MARK, size, zlib.crc32(body)):
        return None
    return list(_INDEX_LINE.iter_unpack(body))


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _sync_folder(folder: Path) -> None:
    """Makes the name of a new file as durable as what will be written into it."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
