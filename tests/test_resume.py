"""An evaluation that is killed again and again: nothing is lost, nothing is paid for twice."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import llm_server
import pytest
from releases import make

from builder.release import Edition, write_release
from tiebe.records import Question, read_rows, record_id

REGIONS = ("Brazil", "France", "Turkey", "the_United_Kingdom")
IN_FLIGHT = 16


@dataclass
class Bench:
    """A release, two scripted servers and their logs."""

    folder: Path
    candidate: str
    judge: str

    def command(self, *more: str) -> list[str]:
        run, source = str(self.folder / "run"), str(self.folder / "release")
        return [
            *(sys.executable, "-m", "tiebe.cli", "evaluate", run, "--source", source),
            *("--split", "both", "--model", "candidate", "--base-url", self.candidate),
            *("--judge", "judge", "--judge-base-url", self.judge, "--no-report", *more),
        ]

    def log(self, name: str) -> list[dict]:
        path = self.folder / f"{name}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self) -> tuple[int, int]:
        return len(self.log("candidate")), len(self.log("judge"))

    def run(self, *more: str) -> list[dict]:
        done = subprocess.run(self.command(*more), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return list(read_rows(self.folder / "run", "correct"))

    def killed(self, name: str, after: int) -> None:
        """Runs until a server has answered so many requests, then kills."""
        process = subprocess.Popen(
            self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while len(self.log(name)) < after and process.poll() is None:
            time.sleep(0.05)
        assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        process.wait()


@pytest.mark.slow
def test_an_evaluation_survives_three_kills(tmp_path: Path) -> None:
    questions, articles = make(72, REGIONS)
    questions = [replace(q, question=f"{q.question} In {q.region}?") for q in questions]
    assert len(questions) == 504 and len({q.language for q in questions}) == 4
    write_release(tmp_path / "release", questions, articles, Edition("2025.04"))
    logs = [str(tmp_path / f"{name}.log") for name in ("candidate", "judge")]
    with (
        llm_server.running(latency=0.05, p429=0.02, retry_after="0.1", log=logs[0]) as candidate,
        llm_server.running(latency=0.05, p500=0.02, log=logs[1]) as judge,
    ):
        bench = Bench(tmp_path, candidate.base_url, judge.base_url)
        bench.killed("candidate", 150)
        bench.killed("judge", 60)
        bench.killed("judge", 350)
        rows = bench.run()
        assert len(rows) == 504 and all(row["correct"] is not None for row in rows)
        for name in ("candidate", "judge"):
            answered = Counter(r["item"] for r in bench.log(name) if r["status"] == 200)
            assert len(answered) == 504
            # A kill repeats at most what was in flight.
            assert sum(answered.values()) - 504 <= 3 * IN_FLIGHT

        asked = bench.asked()
        assert bench.run() == rows and bench.asked() == asked  # a second call pays nothing

        again = bench.run("--judge-prompt", "1")
        assert {row["prompt"] for row in again} == {"judge@1"} and len(again) == 504
        answers, verdicts = bench.asked()
        assert answers == asked[0] and verdicts - asked[1] >= 504

        new = with_one_more(questions)
        write_release(tmp_path / "release", new, articles, Edition("2025.05"))
        rows = bench.run()
        assert len(rows) == 505
        ok = [sum(r["status"] == 200 for r in bench.log(name)) for name in ("candidate", "judge")]
    assert bench.asked()[0] - answers >= 1 and ok[0] - 504 <= 3 * IN_FLIGHT + 1
    about = json.loads((tmp_path / "run" / "manifest.json").read_text())["evaluations"]["candidate"]
    assert about["questions"]["n"] == 505 and about["verdicts"]["unscored"] == 0
    assert about["verdicts"]["prompts"] == {"judge@event-1": 505}


def with_one_more(questions: list[Question]) -> list[Question]:
    first = next(q for q in questions if q.language == "en")
    text = "Which new question is asked about the same event?"
    return [*questions, replace(first, id=record_id(first.event_id, text), question=text)]
