import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import batch_server
import pytest

from tiebe.batches import Pace, batched
from tiebe.errors import ModelError, SettingsError
from tiebe.judges import Judge
from tiebe.llm import Budget, open_model

PACE = Pace(quiet=0.1, poll=0.1)


def rows(n: int) -> list[dict[str, str]]:
    return [{"question": f"Who {i}?", "answer": f"x{i}", "model_answer": "x"} for i in range(n)]


def judged(url: str, folder: Path, n: int, pace: Pace = PACE, **options: Any) -> list[Any]:
    model = batched(open_model("stub", base_url=url, **options), folder, pace)
    return Judge(model, cache=False, progress=False)(rows(n))


CLIENT = """
import sys
from pathlib import Path
from tiebe.batches import Pace, batched
from tiebe.judges import Judge
from tiebe.llm import open_model
rows = [{"question": f"Who {i}?", "answer": f"x{i}", "model_answer": "x"} for i in range(2000)]
model = batched(open_model("stub", base_url=sys.argv[1]), Path(sys.argv[2]), Pace(0.3, 0.3, 700))
verdicts = Judge(model, cache=False, progress=False)(rows)
print([v.correct for v in verdicts].count(None), sum(v.usage["calls"] for v in verdicts))
"""


@pytest.mark.slow
def test_two_thousand_requests_a_kill_failures_and_an_expiry(tmp_path: Path) -> None:
    with batch_server.running(seconds=3.0, fail=0.03, expire=1) as server:
        command = [sys.executable, "-c", CLIENT, server.base_url, str(tmp_path / "b")]
        process = subprocess.Popen(command)
        while len(server.batches) < 3:
            time.sleep(0.05)
            assert process.poll() is None
        process.kill()
        process.wait()
        server.seconds = 0.3
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        # 2,000 in files of at most 700, what expired and failed in more of them.
        assert len(server.batches) >= 5
        assert done.stdout.split() == ["0", "2000"]
        assert len(server.paid) == 2000 and set(server.paid.values()) == {1}
    left = sorted(path.name for path in (tmp_path / "b").iterdir())
    assert not [name for name in left if name.endswith((".jsonl", "_id"))]


def test_replies_are_matched_by_their_id(tmp_path: Path) -> None:
    from llm_server import verdict

    from tiebe.prompts import load_prompt

    with batch_server.running() as server:
        verdicts = judged(server.base_url, tmp_path, 40)
    prompt = load_prompt("judge")
    for row, got in zip(rows(40), verdicts, strict=True):
        text = prompt.render(question=row["question"], expected=row["answer"], candidate="x")
        assert (got.correct, got.refusal) == verdict(text[-1]["content"])
        assert got.served_model == "stub-1"
        assert got.usage == {"calls": 1, "prompt_tokens": 100, "completion_tokens": 20}


def test_an_order_whose_answer_was_lost_is_found_and_not_given_twice(tmp_path: Path) -> None:
    with batch_server.running(lose=1) as server:
        assert len(judged(server.base_url, tmp_path, 10)) == 10
        assert len(server.batches) == 1 and set(server.paid.values()) == {1}


def test_a_second_run_pays_nothing(tmp_path: Path) -> None:
    with batch_server.running() as server:
        first = judged(server.base_url, tmp_path, 10)
        assert judged(server.base_url, tmp_path, 10) == first and len(server.batches) == 1
        judged(server.base_url, tmp_path, 12)
        assert len(server.paid) == 12 and set(server.paid.values()) == {1}


def test_a_request_that_always_fails_leaves_its_row_unscored(tmp_path: Path) -> None:
    with batch_server.running(fail=0.5) as server:
        verdicts = judged(server.base_url, tmp_path, 40, Pace(0.1, 0.1, tries=2))
    failed = [v for v in verdicts if v.correct is None]
    assert 0 < len(failed) < 40 and {v.reasoning for v in failed} == {
        "ModelError: stub: overloaded"
    }


def test_a_refused_batch_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with (
        batch_server.running(refuse="the token limit is reached") as server,
        pytest.raises(ModelError, match="refused: the token limit is reached"),
    ):
        judged(server.base_url, tmp_path, 10)


def test_the_budget_holds_and_what_fits_is_done_first(tmp_path: Path) -> None:
    budget = Budget(max_tokens=60_000)
    with batch_server.running() as server:
        with pytest.raises(ModelError, match="budget of 60,000 tokens is used up"):
            judged(server.base_url, tmp_path, 600, budget=budget, max_tokens=200)
        assert 0 < budget.tokens <= 60_000 and len(server.batches) > 1


def test_one_process_works_in_a_folder(tmp_path: Path) -> None:
    model = open_model("stub", base_url="http://127.0.0.1:9/v1")
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    code += "; print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout and other.stdout.readline()
        with pytest.raises(SettingsError, match="another process works"):
            batched(model, tmp_path)
        other.communicate()
    assert batched(model, tmp_path).send is batched(model, tmp_path).send
    with pytest.raises(SettingsError, match="has no server with a Batch API"):
        batched(open_model(lambda prompt: "x"), tmp_path)


def test_a_server_without_batches_is_told(tmp_path: Path) -> None:
    import llm_server

    with (
        llm_server.running() as server,
        pytest.raises(ModelError, match="404 .*check the model's name and the base_url"),
    ):
        judged(server.base_url, tmp_path, 3)


def test_a_file_that_was_never_sent_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "0001.jsonl").write_text('{"custom_id": "torn')
    with batch_server.running() as server:
        judged(server.base_url, tmp_path, 3)
        assert len(server.batches) == 1
        content = server.files[server.batches["batch-0"]["input_file_id"]]
    assert [json.loads(line)["url"] for line in content.splitlines()] == [
        "/v1/chat/completions"
    ] * 3
