"""Stages on Ray: the results of the engine of this process."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llm_server
import pytest

from tiebe.answers import answer
from tiebe.engine import Stage, run_stage
from tiebe.errors import ModelError
from tiebe.evaluation import evaluate
from tiebe.journal import Journal
from tiebe.judges import Judge
from tiebe.lanes import Lanes
from tiebe.llm import Budget, open_model
from tiebe.records import Drop, Group

ray = pytest.importorskip("ray", reason="needs Ray: make test-ray")
ray_engine = pytest.importorskip("tiebe.ray_engine")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    with ray_engine.RayEngine() as made:
        yield made
    ray.shutdown()


def questions(count: int) -> list[dict[str, Any]]:
    return [{"question": f"Who won match {n}?", "answer": f"Team {n}"} for n in range(count)]


def test_an_evaluation_is_that_of_this_process(
    engine: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with llm_server.running(latency=0.01, p429=0.05, p500=0.05, retry_after="0.1") as server:
        model = open_model("m", base_url=server.base_url)
        judge = Judge(open_model("j", base_url=server.base_url), "1", concurrency=4)
        local, shared = (
            evaluate(model, judge=judge, run=tmp_path / name, questions=questions(40), engine=runs)
            for name, runs in (("local", run_stage), ("ray", engine))
        )
        asked = server.stats()["requests"]
        again = evaluate(
            model, judge=judge, run=tmp_path / "ray", questions=questions(40), engine=engine
        )
        assert server.stats()["requests"] == asked
    assert "runs in this process" not in caplog.text
    assert model.paid["calls"] == judge.asked.paid["calls"] == 80  # by each of two runs, no more
    assert shared.rows == local.rows == again.rows
    names = ("verdicts.jsonl",)
    assert [(tmp_path / "ray" / n).read_bytes() for n in names] == [
        (tmp_path / "local" / n).read_bytes() for n in names
    ]


def test_the_budget_holds_for_all_workers(engine: Any, tmp_path: Path) -> None:
    with llm_server.running(latency=0.02) as server:
        budget = Budget(max_tokens=2500)
        model = open_model("m", base_url=server.base_url, budget=budget, max_tokens=100)
        with (
            Journal(tmp_path, fsync=True) as journal,
            pytest.raises(ModelError, match=r"budget of 2,500 tokens is used up"),
        ):
            answer(questions(200), model, concurrency=6, journal=journal, engine=engine)
        with Journal(tmp_path) as journal:
            paid = sum(
                entry.usage["prompt_tokens"] + entry.usage["completion_tokens"]
                for entry in journal
                if entry.usage
            )
    assert 1500 < paid <= 2500 and budget.tokens == paid


def test_no_quota_ends_the_stage(engine: Any, tmp_path: Path) -> None:
    with llm_server.running(pquota=1.0) as server, Journal(tmp_path) as journal:
        model = open_model("m", base_url=server.base_url)
        with pytest.raises(ModelError, match="no quota is left") as raised:
            answer(questions(100), model, journal=journal, engine=engine)
        assert raised.value.fatal and raised.value.model == "m"
        assert server.stats()["requests"] <= 16


def fails_at(*names: str) -> Stage:
    def run(group: Group) -> list[Any]:
        if group.name in names:
            raise ModelError("out of order", model="m")
        return [Drop("try", group.id, "seen")]

    return Stage("try", 1, run, ())


GROUPS = [Group(f"g{n}", ()) for n in range(12)]


def test_what_fails_is_told_and_tried_again(engine: Any, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        first = engine(fails_at("g1", "g7"), GROUPS, journal, workers=12, progress=False)
        assert first.counts()["dropped"] == {"seen": 10, "failed": 2}
        second = engine(fails_at("g7"), GROUPS, journal, workers=12, progress=False)
        assert second.counts()["dropped"] == {"seen": 11, "failed": 1}
        with pytest.raises(ModelError, match="out of order"):
            engine(fails_at("g7"), GROUPS, journal, workers=12, progress=False)


def test_what_cannot_be_sent_runs_here(engine: Any, caplog: pytest.LogCaptureFixture) -> None:
    outcome = engine(fails_at(), GROUPS, Journal(None), progress=False)
    assert outcome.counts()["dropped"] == {"seen": 12}
    assert "try: runs in this process: a journal in memory" in caplog.text


def test_a_limiter_that_is_replaced_knows_what_is_spent(engine: Any, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(f"{1:064x}", [{"asked": "m"}], usage={"prompt_tokens": 5})
        ledgers = {"replies": (tmp_path, journal.ends(), None)}
        account = ray_engine._Account(1000, 0.0, {}, 700, 0.0, ledgers)
        limiter = (
            ray.remote(ray_engine._Limiter)
            .options(num_cpus=0, max_restarts=1, max_task_retries=-1)
            .remote()
        )
        assert ray.get(limiter.hold.remote("s.a", 0, 200, 0.0)) == "later"
        ray.get(limiter.open.remote("s", [account], [30.0], again=False))
        assert ray.get(limiter.hold.remote("s.a", 0, 200, 0.0)) == "held"
        assert ray.get(limiter.hold.remote("s.b", 0, 200, 0.0)) == "later"
        assert ray.get(limiter.take.remote("s.a", 0, "host", 0.0)) == 0.0
        ray.get(limiter.lose.remote("s.a"))  # its call may have been paid
        ray.get(limiter.add.remote("s.a", 0, "m", {"prompt_tokens": 9}))  # said by the dead
        assert ray.get(limiter.spent.remote()) == [(900, 0.0)]
        assert 25 < ray.get(limiter.left.remote("s.b", 0, "host")) <= 30
        journal.append(f"{2:064x}", [{"asked": "m"}], usage={"prompt_tokens": 80})
        ray.kill(limiter, no_restart=False)
        deadline = time.monotonic() + 60
        while ray.get(limiter.stage.remote()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert ray.get(limiter.hold.remote("s.b", 0, 10, 0.0)) == "later"
        ray.get(limiter.open.remote("s", [account], [30.0], again=True))
        assert ray.get(limiter.spent.remote()) == [(780, 0.0)]
        assert ray.get(limiter.hold.remote("s.b", 0, 10, 0.0)) == "later"
        assert ray.get(limiter.take.remote("s.b", 0, "other", 0.0)) > 25
        ray.kill(limiter)


def test_an_owner_is_in_one_shard() -> None:
    stage = Stage(
        "try", 1, lambda g: (), (), owner=lambda g: g.name[:2] if g.name[0] == "o" else None
    )
    groups = [Group(f"o{n % 5}.{n}", ()) for n in range(40)] + GROUPS
    shards = ray_engine._split(stage, {g.id: g for g in groups}, 3)
    places: dict[str, set[int]] = {}
    for shard in shards:
        for group in shard.records.values():
            if owner := stage.owner(group):
                places.setdefault(owner, set()).add(shard.number)
    assert all(len(found) == 1 for found in places.values()) and len(places) == 5
    assert sum(len(shard.records) for shard in shards) == 52
    assert max(len(s.records) for s in shards) - min(len(s.records) for s in shards) <= 8


def test_tools_are_packed_once_and_opened_by_the_worker(tmp_path: Path) -> None:
    lanes, journal = Lanes(3.0), Journal(tmp_path)
    model = open_model(len_of, budget=Budget(max_tokens=9), replies=journal)  # type: ignore[arg-type]
    stage = Stage("try", 1, lambda record: [model, lanes, journal], ())
    parcel = ray_engine._Parcel.of(stage, journal)
    assert parcel.tools == [journal] and parcel.lanes == [lanes] and parcel.models == [model]
    assert parcel.budgets == [model.budget]
    journal.close()


def len_of(prompt: str) -> str:
    return str(len(prompt))


def test_ctrl_c_finishes_what_is_in_work(engine: Any, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(r | {"model_answer": "x"}) + "\n" for r in questions(120)))
    with llm_server.running(latency=0.3, log=str(tmp_path / "log")) as server:
        address = ray.get_runtime_context().gcs_address
        command = [
            *(sys.executable, "-m", "tiebe.cli", "judge", str(rows), "--model", "j"),
            *("--base-url", server.base_url, "--concurrency", "8", "--prompt", "1"),
            *("--engine", "ray", "--address", address, "--out", str(tmp_path / "out.jsonl")),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while server.stats()["requests"] < 20 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode != 0 and "stopping after what is in work" in told, told
        answered = server.stats()["requests"]
        assert 20 <= answered < 100
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        assert server.stats()["requests"] == 120
