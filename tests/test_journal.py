import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebe import journal as journals
from tiebe.errors import RecordError
from tiebe.journal import Compacted, Journal, appended, compact


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
from tiebe.journal import Journal, appended
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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that hold some ten lines."""
    monkeypatch.setattr(journals, "PART", 1000)


def entries(folder: Path) -> list[tuple[str, object]]:
    with Journal(folder) as journal:
        return [(entry.key, entry.rows) for entry in journal]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fsync", [False, True])
def test_a_full_part_is_followed_by_another(tmp_path: Path, fsync: bool) -> None:
    with Journal(tmp_path, fsync=fsync) as journal:
        for n in range(50):
            journal.append(key(n), [{"n": n}])
        assert [entry.rows[0]["n"] for entry in journal] == [*range(50)]
    parts = sorted(tmp_path.glob("*.jsonl"))
    assert len(parts) > 4 and all(part.stat().st_size >= 1000 for part in parts[:-1])
    assert [p.with_suffix(".index").exists() for p in parts] == [True] * (len(parts) - 1) + [False]
    before = entries(tmp_path)
    with Journal(tmp_path) as journal:
        journal.append(key(50), [{"n": 50}])
        assert len(journal) == 51
    assert len(sorted(tmp_path.glob("*.jsonl"))) == len(parts)
    assert entries(tmp_path)[:50] == before


@pytest.mark.usefixtures("small_parts")
def test_threads_fill_many_parts(tmp_path: Path) -> None:
    with Journal(tmp_path, fsync=True) as journal:

        def write(first: int) -> None:
            for n in range(first, first + 50):
                journal.append(key(n), [{"n": n}])

        threads = [threading.Thread(target=write, args=(50 * t,)) for t in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Journal(tmp_path) as journal:
        assert [journal.get(key(n)).rows for n in range(400)] == [[{"n": n}] for n in range(400)]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fault", ["gone", "cut", "changed", "of a shorter part"])
def test_an_index_that_does_not_fit_is_not_believed(tmp_path: Path, fault: str) -> None:
    fill(tmp_path, 40)
    before = entries(tmp_path)
    index = tmp_path / "0000.index"
    data = index.read_bytes()
    part = tmp_path / "0000.jsonl"
    if fault == "gone":
        index.unlink()
    elif fault == "cut":
        index.write_bytes(data[:-40])
    elif fault == "changed":
        index.write_bytes(data[:-1] + b"x")
    else:
        lines = part.read_bytes().splitlines(keepends=True)
        part.write_bytes(b"".join(lines) + lines[0].replace(key(0).encode(), key(99).encode()))
        before.append((key(99), before[0][1]))
    assert sorted(entries(tmp_path)) == sorted(before)


@pytest.mark.usefixtures("small_parts")
def test_compacting_leaves_each_key_once_in_few_parts(tmp_path: Path) -> None:
    for n in range(6):  # six writers at a time, each with a part of its own
        part = fill(tmp_path / "one", 4)
        part.rename(tmp_path / f"{n:04d}.jsonl")
        (tmp_path / "one" / "0000.jsonl").unlink(missing_ok=True)
    with (tmp_path / "0003.jsonl").open("ab") as file:
        file.write(b'{"key":"torn')
    size = sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    before = entries(tmp_path)
    one = (tmp_path / "0000.jsonl").stat().st_size
    assert compact(tmp_path) == Compacted((6, 1), (size - 12, one))
    assert [path.name for path in sorted(tmp_path.glob("*.*"))] == ["0006.jsonl"]
    assert entries(tmp_path) == before
    fill(tmp_path, 60)
    assert compact(tmp_path).parts[1] > 4 and len(entries(tmp_path)) == 60


def test_a_compaction_that_is_killed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "PART", 600)
    fill(tmp_path / "whole", 30)
    before = entries(tmp_path / "whole")
    steps = 0

    def counted(real: Callable[..., object], limit: int) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            nonlocal steps
            steps += 1
            if steps > limit:
                raise KeyboardInterrupt
            return real(*args, **options)

        return step

    for limit in range(80):
        folder = shutil.copytree(tmp_path / "whole", tmp_path / str(limit))
        steps = 0
        with monkeypatch.context() as patch:
            for name in ("rename", "unlink", "hardlink_to"):
                patch.setattr(Path, name, counted(getattr(Path, name), limit))
            with contextlib.suppress(KeyboardInterrupt):
                compact(folder)
        assert sorted(entries(folder)) == sorted(before)
        compact(folder)
        assert sorted(entries(folder)) == sorted(before)
        if steps <= limit:
            break
    assert 10 < limit < 79


def test_a_journal_in_use_is_not_compacted(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(key(1), [{"n": 1}])
        with pytest.raises(RecordError, match="being written to"):
            compact(tmp_path)
    assert compact(tmp_path).parts == (1, 1)


def test_what_others_write_is_seen_after_a_refresh(tmp_path: Path) -> None:
    with Journal(tmp_path) as one, Journal(tmp_path) as other:
        one.append(key(1), [{"n": 1}])
        assert key(1) not in other
        other.refresh()
        entry = other.get(key(1))
        assert entry is not None and entry.rows == [{"n": 1}]
        other.append(key(2), [{"n": 2}])
        assert other.get(key(2)) and len(list(tmp_path.iterdir())) == 2
        one.append(key(3), [{"n": 3}])
        with (tmp_path / "0000.jsonl").open("ab") as part:
            part.write(b'{"key":"')  # a line that is being written
        other.refresh()
        one.refresh()
        assert [len(one), len(other)] == [3, 3] and key(2) in one
    damaged = tmp_path / "0001.jsonl"
    with Journal(tmp_path) as journal:
        damaged.write_bytes(damaged.read_bytes() + b'{"nokey":1}\n')
        with pytest.raises(RecordError, match=r"0001\.jsonl:2: not a journal line"):
            journal.refresh()


def test_what_was_appended_since_can_be_told(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, Journal(tmp_path) as other:
        journal.append(key(1), [{"n": 1}], usage={"calls": 1})
        ends = journal.ends()
        assert list(appended(tmp_path, ends)) == []
        other.append(key(2), [{"n": 2}], usage={"calls": 2})
        journal.append(key(3), drop={"reason": "empty"}, usage={"calls": 3})
        told = [entry.usage for entry in appended(tmp_path, ends)]
    assert sorted(usage["calls"] for usage in told if usage) == [2, 3]


def test_writers_that_begin_at_once_have_parts_of_their_own(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tiebe.journal import Journal\n"
        "for n in range(20):\n"
        "    with Journal(Path(sys.argv[1])) as journal:\n"
        "        journal.append(f'{int(sys.argv[2]) * 1000 + n:064x}', [{'n': n}])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(n)]) for n in range(4)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    with Journal(tmp_path) as journal:
        assert len(journal) == 80 == sum(1 for _ in journal)


def test_another_process_opens_a_journal_for_itself(tmp_path: Path) -> None:
    with Journal(tmp_path, fsync=True) as journal:
        journal.append(key(1), [{"n": 1}])
        with pickle.loads(pickle.dumps(journal)) as other:
            assert key(1) in other and other.fsync
    with pytest.raises(TypeError, match="in memory"):
        pickle.dumps(Journal(None))


def test_a_run_that_starts_while_a_journal_is_compacted_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 30)
    late: list[Journal] = []
    sync = os.fsync

    def start(fd: int) -> None:
        sync(fd)
        if not late:  # the new part is written, and not yet there
            late.append(Journal(tmp_path))
            late[0].append(key(100), [{"n": 100}])

    monkeypatch.setattr(os, "fsync", start)
    assert compact(tmp_path).parts == (1, 1)
    late[0].append(key(101), [{"n": 101}])
    assert late[0].get(key(7)) is not None
    late[0].close()
    assert len(entries(tmp_path)) == 32


@pytest.mark.parametrize("size", [0, 100, 1000])
def test_a_part_that_lost_its_end_is_named(tmp_path: Path, size: int) -> None:
    part = fill(tmp_path, 50)
    with Journal(tmp_path) as journal:
        os.truncate(part, size)
        with pytest.raises(RecordError, match=r"0000\.jsonl:\d+: not a journal line"):
            journal.get(key(49))


@pytest.mark.usefixtures("small_parts")
def test_a_line_of_another_key_is_not_handed_out(tmp_path: Path) -> None:
    part = fill(tmp_path, 40)
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    with Journal(tmp_path) as journal, pytest.raises(RecordError, match=r"0000\.jsonl:1"):
        journal.get(key(0))


def test_what_is_no_file_is_no_part(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0000.jsonl")
    with Journal(tmp_path) as journal:
        journal.append(key(1), [{"n": 1}])
    assert len(entries(tmp_path)) == 1
