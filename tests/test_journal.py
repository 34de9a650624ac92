import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tiebe.errors import RecordError
from tiebe.journal import Journal


def key(number: int) -> str:
    return f"{number:064x}"


def fill(folder: Path, count: int) -> Path:
    with Journal(folder) as journal:
        for n in range(count):
            journal.append(key(n), [{"n": n, "text": f"línea {n} 中文"}], usage={"calls": n})
    return folder / "0000.jsonl"


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    fill(tmp_path / "j", 3)
    with Journal(tmp_path / "j") as journal:
        journal.append(key(3), drop={"reason": "not_found"})
        assert len(journal) == 4
        assert key(2) in journal and key(9) not in journal
        entry = journal.get(key(2))
        assert entry is not None
        assert entry.rows == [{"n": 2, "text": "línea 2 中文"}] and entry.usage == {"calls": 2}
        assert [e.drop for e in journal][-1] == {"reason": "not_found"}
        assert journal.get(key(9)) is None


def test_a_key_is_written_once(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(key(1), [{"n": 1}])
        journal.append(key(1), [{"n": 2}])
        assert [list(e.rows) for e in journal] == [[{"n": 1}]]


@pytest.mark.parametrize("folder", [None, "j"])
def test_a_lone_surrogate_survives(tmp_path: Path, folder: str | None) -> None:
    with Journal(tmp_path / folder if folder else None) as journal:
        journal.append(key(1), [{"text": "bad \udc80 half"}])
        entry = journal.get(key(1))
        assert entry is not None and entry.rows[0]["text"] == "bad \udc80 half"


def test_every_torn_tail_is_cut_and_no_whole_line_lost(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", 3).read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        folder = tmp_path / "cut"
        folder.mkdir(exist_ok=True)
        part = folder / "0000.jsonl"
        part.write_bytes(whole[:cut])
        survivors = sum(end <= cut for end in ends)
        with Journal(folder) as journal:
            assert len(journal) == survivors
            journal.append(key(7), [{"n": 7}])
            assert [r["n"] for e in journal for r in e.rows] == [*range(survivors), 7]
        lines = part.read_bytes().splitlines()
        assert len(lines) == survivors + 1 and all(json.loads(line) for line in lines)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    part = fill(tmp_path, 3)
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(lines[0] + b"garbage\n" + lines[2])
    with pytest.raises(RecordError, match=r"0000\.jsonl:2: .*delete this line"):
        Journal(tmp_path)


def test_a_line_damaged_inside_is_named_when_read(tmp_path: Path) -> None:
    part = fill(tmp_path, 3)
    part.write_bytes(part.read_bytes().replace(b'"n":2', b'"n":,'))
    with Journal(tmp_path) as journal, pytest.raises(RecordError, match=r"0000\.jsonl:3: "):
        list(journal)


def test_two_writers_have_a_part_each(tmp_path: Path) -> None:
    with Journal(tmp_path) as one, Journal(tmp_path) as two:
        one.append(key(1), [{"n": 1}])
        two.append(key(2), [{"n": 2}])
        one.append(key(3), [{"n": 3}])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0000.jsonl", "0001.jsonl"]
    with Journal(tmp_path) as both:
        assert len(both) == 3


def test_a_live_writers_tail_is_not_cut(tmp_path: Path) -> None:
    with Journal(tmp_path) as writer:
        writer.append(key(1), [{"n": 1}])
        part = tmp_path / "0000.jsonl"
        with part.open("ab") as file:
            file.write(b'{"key":"half')
        with Journal(tmp_path) as reader:
            assert len(reader) == 1
        assert part.read_bytes().endswith(b"half")


def test_threads_share_a_journal(tmp_path: Path) -> None:
    with Journal(tmp_path, fsync=True) as journal:

        def write(start: int) -> None:
            for n in range(start, start + 50):
                journal.append(key(n), [{"n": n}])

        threads = [threading.Thread(target=write, args=(s,)) for s in range(0, 200, 50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Journal(tmp_path) as journal:
        assert sorted(r["n"] for e in journal for r in e.rows) == list(range(200))


def test_threads_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk, what was written while one waited for it is synced at once."""
    synced = []

    def slow(fd: int) -> None:
        time.sleep(0.02)
        synced.append(os.fstat(fd).st_size)

    with Journal(tmp_path, fsync=True) as journal:
        journal.append(key(0), [{"n": 0}])
        monkeypatch.setattr("os.fsync", slow)
        safe = []

        def write(n: int) -> None:
            journal.append(key(n), [{"n": n}])
            on_disk = (tmp_path / "0000.jsonl").read_bytes()[: max(synced)]
            safe.append(key(n).encode() in on_disk)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 33)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(synced) <= 8 and safe == [True] * 32


WRITER = """
import sys
from pathlib import Path
from tiebe.journal import Journal
with Journal(Path(sys.argv[1]), fsync=True) as journal:
    for n in range(100_000):
        journal.append(f"{n:064x}", [{"n": n, "text": "x" * (n % 5000)}])
        print(n, flush=True)
"""


def test_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        command = [sys.executable, "-c", WRITER, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.05 + 0.07 * attempt)
            os.kill(process.pid, signal.SIGKILL)
            acknowledged = [int(line) for line in process.stdout.read().splitlines()]
        with Journal(folder) as journal:
            assert acknowledged
            assert all(key(n) in journal for n in range(acknowledged[-1] + 1))
            assert [r["n"] for e in journal for r in e.rows] == list(range(len(journal)))
