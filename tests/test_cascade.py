"""The cascade: what the offline judge settles, what the model is asked, what is measured."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llm_server
import pytest
from click.testing import CliRunner

from tiebe.cascade import LEAST, Agreement, Calibration, cascade_name, drawn, wanted
from tiebe.cli import main
from tiebe.errors import ModelError, RecordError, SettingsError
from tiebe.evaluation import evaluate, plan, plan_judging
from tiebe.judges import Judge
from tiebe.llm import Budget, open_model
from tiebe.records import read_rows, record_id
from tiebe.scores import judge_notes

FIRST = ("Ana", "Bruno", "Carla", "Dario", "Elena", "Fabio", "Greta", "Hugo", "Irene", "Jonas")
LAST = ("Almeida", "Barros", "Cardoso", "Duarte", "Esteves", "Falcao", "Guerra", "Horta")
MAYORS = [f"{first} {last}" for first in FIRST for last in LAST]
NAME = "m, cascade 0.99 with offline-1"


def row(n: int, *, sure: bool, own: bool = True) -> dict[str, Any]:
    """An answer: a bare name, of which the offline judge is sure, or a guess."""
    mayor = MAYORS[n % len(MAYORS)]
    ours = {"id": f"q{n}", "event_id": f"e{n}", "region": "Brazil", "language": "en"}
    return (ours if own else {}) | {
        "question": f"Who won the mayoral election of town {n} in Brazil in October 2016?",
        "answer": mayor,
        "model_answer": mayor if sure else f"Perhaps {mayor} won it.",
    }


def rows(n: int, *, own: bool = True) -> list[dict[str, Any]]:
    """Every third one is such that the model must judge it."""
    return [row(i, sure=i % 3 > 0, own=own) for i in range(n)]


def town(prompt: str) -> int:
    return int(prompt.split("town ")[1].split()[0])


def model(correct: Callable[[str], bool] = lambda _: True) -> Any:
    """A model that counts what it is asked, with a budget that knows its price."""

    def m(prompt: str) -> str:
        asked.append(prompt)
        return json.dumps({"reasoning": "", "correct": correct(prompt), "refusal": False})

    asked: list[str] = []
    m.asked = asked  # type: ignore[attr-defined]
    return m


def judge(by: Any, **more: Any) -> Judge:
    return Judge(by, "event-1", **{"cascade": 0.99, "progress": False, **more})


def test_the_interval_is_exact() -> None:
    assert Agreement(0, 0).interval() == (0, 1)
    assert Agreement(20, 20).interval() == pytest.approx((0.8316, 1), abs=1e-4)
    assert Agreement(95, 100).interval() == pytest.approx((0.8872, 0.9836), abs=1e-4)
    assert Agreement(95, 100).misses(0.99) and not Agreement(97, 100).misses(0.99)
    assert str(Agreement(95, 100)) == "95 of 100 the same (95.0%, 95% interval 88.7%–98.4%)"


def test_about_three_in_a_hundred_are_drawn_always_the_same() -> None:
    ids = [record_id(str(n)) for n in range(20_000)]
    share = sum(map(drawn, ids)) / len(ids)
    assert 0.017 < share < 0.033 and [drawn(i) for i in ids] == [drawn(i) for i in ids]


def test_a_cascade_is_named_by_both_judges() -> None:
    assert cascade_name("m", 0.99, "offline-1") == NAME and wanted(NAME) == 0.99
    assert wanted(NAME + ", refusal by the offline rule") == 0.99 and wanted("gpt-4o") is None


@pytest.mark.parametrize(
    ("settled", "same", "holds", "says"),
    [
        (200, 199, True, "1,000 answers take $1.06 instead of $3.00"),
        (200, 180, False, "below the 99.0% wanted, so the model judges all"),
        (LEAST - 1, LEAST - 1, False, "too few are settled to tell"),
    ],
)
def test_a_calibration_tells_whether_it_holds(
    settled: int, same: int, holds: bool, says: str
) -> None:
    found = Calibration(NAME, 0.99, 300, settled, same, {"prompt_tokens": 9}, 0.9)
    assert found.holds is holds and says in str(found)


def test_the_model_is_asked_only_for_what_is_not_settled_and_a_sample() -> None:
    m = model()
    given = rows(300)
    verdicts = judge(m)(given)
    cases = judge(m).cases(given)
    sample = [drawn(case.id) for case in cases if case]
    for n, verdict in enumerate(verdicts):
        assert verdict.correct is True and verdict.judge == NAME
        assert verdict.settled_as is (True if n % 3 else None)
        offline = n % 3 > 0 and not sample[n]
        assert verdict.decided_by == ("offline" if offline else "m")
        assert (verdict.confidence is not None) == offline and bool(verdict.usage) != offline
    in_sample = sum(sample[n] for n in range(300) if n % 3)
    assert len(m.asked) == 100 + in_sample and in_sample > 0


@pytest.mark.parametrize("answer", ["{} or {}", "It was not {}, but {}"])
def test_a_doubt_keeps_an_answer_from_being_settled_as_correct(answer: str) -> None:
    m = model()
    given = [
        row(n, sure=True) | {"model_answer": answer.format(MAYORS[n], MAYORS[n - 9])}
        for n in range(20)
    ]
    verdicts = judge(m)(given)
    assert not [v for v in verdicts if v.decided_by == "offline" and v.correct]


def test_nothing_is_settled_in_a_language_without_labels() -> None:
    m = model()
    judge(m)([row(n, sure=True) | {"language": "hi"} for n in range(10)])
    assert len(m.asked) == 10


def test_nothing_is_settled_outside_tiebe_until_it_was_measured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tiebe")
    given = rows(150, own=False)
    m = model()
    by = judge(m)
    by(given)
    assert len(m.asked) == 150
    assert "off for 150 of 150 answers, as they are not to TiEBe's questions" in caplog.text
    assert "Judge.calibrate(rows), or --calibrate 300" in caplog.text
    found = by.calibrate(given, n=120)
    assert (found.n, found.agreement.same) == (120, found.settled) and found.holds
    assert 70 <= found.settled <= 90 and by.calibration == found
    m.asked.clear()
    verdicts = by(given)
    assert sum(v.decided_by == "offline" for v in verdicts) > 80 and len(m.asked) < 70


def test_a_plan_of_judging_counts_what_is_settled_or_all_before_a_calibration() -> None:
    m = model()
    by = judge(m)
    given = rows(60)
    told = plan_judging(by, given)
    assert told.rows == 60 == told.verdicts + told.settled and not m.asked
    assert f", {told.settled} settled offline" in str(told)
    by(given)
    assert len(m.asked) == told.verdicts == told.usage["m"]["calls"]
    first = str(plan_judging(by, given, calibrate=True)).splitlines()[0]
    assert first == "60 rows: 0 judged already, at most 60 to be judged"


def test_a_calibration_that_falls_short_settles_nothing(caplog: pytest.LogCaptureFixture) -> None:
    given = rows(150, own=False)
    by = judge(model(lambda prompt: town(prompt) % 4 > 0))
    found = by.calibrate(given)
    assert not found.holds and "so the model judges all" in str(found)
    assert {v.decided_by for v in by(given)} == {"m"}
    assert "as calibrated, m, cascade 0.99" in caplog.text
    assert {v.decided_by for v in by(rows(20))} == {"m"}  # TiEBe's too: what was measured decides


def test_a_calibration_is_found_by_the_next_process_and_its_verdicts_paid_once() -> None:
    given = rows(90, own=False)
    with llm_server.running() as server:

        def opened(**more: Any) -> Judge:
            prices = {"stub": (2.0, 8.0)}
            by = open_model("stub", base_url=server.base_url, budget=Budget(prices=prices))
            return judge(by, **more)

        first = opened()
        found = first.calibrate(given)
        assert found.n == 90 and found.cost and "instead of $" in found.per_thousand()
        asked = server.stats()["requests"]
        assert asked == 90
        again = opened()
        assert again.calibration == found
        again(given)
        assert server.stats()["requests"] == asked
        for other in ({"cascade": 0.95}, {"columns": {"answer": "gold"}}, {"unanswerable": "-"}):
            assert opened(**other).calibration is None
        assert opened(cache=False).calibration is None


def test_a_calibration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    by = open_model("stub", base_url="http://127.0.0.1:9")
    path = judge(by)._calibration_file()
    path.parent.mkdir(parents=True)
    counts = '{"judge": "j", "target": 0.99, "n": 9, "settled": 10, "same": 11}'
    other = counts.replace("0.99", "0.5").replace("10", "9").replace("11", "9")
    for text in ("{", '{"judge": 3}', counts, other):
        path.write_text(text)
        with pytest.raises(RecordError, match="delete it and calibrate again"):
            judge(by)


def test_what_the_model_gives_no_verdict_on_stays_settled() -> None:
    def m(prompt: str) -> str:
        return "Hm."

    given = rows(300)
    by = judge(m)
    verdicts = by(given)
    sample = [v for v in verdicts if v.settled_as is not None and v.usage]
    assert sample and {(v.correct, v.decided_by) for v in sample} == {(True, "offline")}
    assert {v.correct for v in verdicts[::3]} == {None} and {v.judge for v in verdicts} == {NAME}


def test_a_cascade_that_falls_short_is_told_while_judging_and_by_scores(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tiebe")
    given = rows(600)
    for right, short in ((True, False), (False, True)):
        caplog.clear()
        verdicts = judge(model(lambda _, right=right: right))(given)
        (said,) = [r for r in caplog.records if "cascade: 400 of 600 settled" in r.getMessage()]
        assert (said.levelno == logging.WARNING) is short
        assert ("BELOW the 99.0% wanted" in said.getMessage()) is short
        notes = judge_notes(verdicts)
        assert len(notes) == 2 and "of the verdicts are of the offline judge" in notes[0]
        assert "67% of 600 answers were settled offline" in notes[1]
        assert ("BELOW the 99.0% wanted" in notes[1]) is short


def test_to_decline_is_right_where_there_is_no_answer_in_a_cascade_too() -> None:
    given = [
        row(n, sure=True) | {"answer": "unanswerable", "model_answer": "I do not know."}
        for n in range(40)
    ]
    verdicts = judge(model(), unanswerable="unanswerable")(given)
    assert {(v.correct, v.refusal) for v in verdicts} == {(True, True)}
    assert "offline" in {v.decided_by for v in verdicts}


@pytest.mark.parametrize("target", [0.5, 1, 0.999, 99, float("nan")])
def test_an_agreement_that_cannot_be_had_is_refused(target: float) -> None:
    with pytest.raises(SettingsError, match="cascade is"):
        judge(model(), cascade=target)


def test_a_cascade_needs_a_model_and_a_calibration_a_cascade() -> None:
    with pytest.raises(SettingsError, match="cascade is '0.99'"):
        Judge("offline", cascade=0.99)
    with pytest.raises(SettingsError, match="give cascade="):
        Judge(model()).calibrate(rows(3))
    with pytest.raises(RecordError, match="no answer to calibrate"):
        judge(model()).calibrate([])


def test_a_budget_holds_and_goes_on() -> None:
    given = rows(150)
    with llm_server.running() as server:
        budget = Budget(max_cost=0.004, prices={"stub": (1.0, 1.0)})
        by = judge(open_model("stub", base_url=server.base_url, budget=budget, max_tokens=100))
        with pytest.raises(ModelError, match="budget of 0.004 dollars is used up"):
            by(given)
        asked = server.stats()["requests"]
        budget.max_cost = 1.0
        verdicts = by(given)
        need = sum(v.decided_by != "offline" for v in verdicts)
        assert 0 < asked < need == server.stats()["requests"] < 70


RUN = """
import json, os, sys
from tiebe import Judge, evaluate
from tiebe.llm import open_model
from tiebe.records import to_row
rows = [json.loads(line) for line in open(sys.argv[2])]
judge = Judge(open_model("stub", base_url=sys.argv[1]), "event-1", cascade=0.99, progress=False)
answers = {row["question"]: row["model_answer"] for row in rows}
def candidate(prompt):
    return next(a for q, a in answers.items() if q in prompt)
if sys.argv[3] == "judge":
    print(json.dumps([to_row(verdict) for verdict in judge(rows)]))
else:
    run = os.path.join(os.environ["TIEBE_HOME"], "run")
    print(json.dumps(evaluate(candidate, judge=judge, questions=rows, run=run).rows))
"""


@pytest.mark.parametrize("what", ["judge", "evaluate"])
def test_a_killed_run_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    log, path = tmp_path / "requests.jsonl", tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows(600)))
    with llm_server.running(latency=0.15, log=str(log)) as server:

        def seen() -> list[dict[str, Any]]:
            return [json.loads(line) for line in log.read_text().splitlines()]

        command = [sys.executable, "-c", RUN, server.base_url, str(path), what]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not log.exists() or len(seen()) < 70:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        process.kill()
        killed = time.time()
        process.wait()
        resumed = subprocess.run(command, capture_output=True, text=True, check=True)
        both = seen()
        monkeypatch.setenv("TIEBE_HOME", str(tmp_path / "other"))
        unbroken = subprocess.run(command, capture_output=True, text=True, check=True)
    assert resumed.stdout == unbroken.stdout
    verdicts = json.loads(resumed.stdout)
    need = sum(v["decided_by"] == "stub" for v in verdicts)
    answered = {r["item"] for r in both if r["status"] == 200 and r["t_out"] < killed - 0.1}
    again = {r["item"] for r in both if r["t_in"] > killed}
    assert len(answered) >= 50 and not answered & again
    assert len({r["item"] for r in both}) == need < 230 and len(both) <= need + 16


def questions(n: int) -> list[dict[str, Any]]:
    return [{name: value for name, value in r.items() if name != "model_answer"} for r in rows(n)]


def candidate(prompt: str) -> str:
    n = town(prompt)
    return f"Answer: {row(n, sure=n % 3 > 0)['model_answer']}"


@pytest.mark.parametrize("folder", [True, False])
def test_an_evaluation_settles_and_its_plan_knows(tmp_path: Path, folder: bool) -> None:
    m = model()
    named = open_model(m, name="m")  # else it is another one at each call, as it notes them
    more: dict[str, Any] = {"judge": judge(named), "run": tmp_path / "run" if folder else None}
    more["questions"] = questions(120)
    before = plan(candidate, **more)
    assert (before.answers, before.verdicts + before.settled) == (120, 120)
    assert 40 < before.settled < 80 and before.usage["m"]["calls"] == before.verdicts
    assert f"about {before.settled} settled offline" in str(before) and not m.asked
    result = evaluate(candidate, **more)
    offline = sum(r["decided_by"] == "offline" for r in result.rows)
    assert offline + len(m.asked) == 120 and 70 < offline <= 80
    assert {r["judge"] for r in result.rows} == {NAME} and {r["correct"] for r in result.rows} == {
        True
    }
    about = result.manifest["cascade"]
    assert about["settled"] == 80 and about["sample"]["n"] == 80 - offline
    assert about["target"] == 0.99 and 0.5 < about["least_confidence"]["en"] < 1
    assert "67% of 120 answers were settled offline" in str(result)
    if folder:
        after = plan(candidate, **more)
        assert (after.answers, after.verdicts, after.settled) == (0, 0, offline)
        asked = len(m.asked)
        assert evaluate(candidate, **more).rows == result.rows and len(m.asked) == asked
        assert list(read_rows(tmp_path / "run", "settled_as")) == result.rows
        # With the model alone, only what was settled is asked.
        alone = evaluate(candidate, **(more | {"judge": judge(named, cascade=None)}))
        assert len(m.asked) == 120 and {r["judge"] for r in alone.rows} == {"m"}


def test_the_verbs_take_a_cascade(tmp_path: Path) -> None:
    path, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    path.write_text("".join(json.dumps(r | {"mine": 1}) + "\n" for r in rows(90, own=False)))
    replies = tmp_path / "replies.jsonl"
    said = {"reasoning": "", "correct": True, "refusal": False}
    replies.write_text(json.dumps({"match": [], "reply": json.dumps(said)}) + "\n")
    args = ["judge", str(path), "--model", f"replay:{replies}", "--out", str(out)]
    told = CliRunner().invoke(main, [*args, "--cascade", "0.99", "--calibrate", "90"])
    assert told.exit_code == 0, told.output
    assert "60 of 90 answers settled (67%), 60 of 60 the same" in told.stderr
    found = list(read_rows(out, "correct"))
    assert {r["decided_by"] for r in found} == {"offline", f"replay:{replies}"}
    assert [r["settled_as"] for r in found] == [True if n % 3 else None for n in range(90)] and {
        r["mine"] for r in found
    } == {1}
    scored = CliRunner().invoke(main, ["score", str(out)])
    assert "67% of 90 answers were settled offline" in scored.stderr
    assert "of the verdicts are of the offline judge" in scored.stderr
    for verb in (["judge", str(path), "--model"], ["evaluate", "--model", "gpt-4o", "--judge"]):
        result = CliRunner().invoke(main, [*verb, "offline", "--cascade", "0.99"])
        assert result.exit_code == 1 and "--cascade is given" in result.stderr


def test_a_sample_of_none_is_told_in_words() -> None:
    assert Agreement(0, 0).of_sample(0) == ""
    assert Agreement(0, 0).of_sample(3) == "; none of them was drawn for the model to judge too"
    assert (
        Agreement(9, 9).of_sample(300).startswith("; of a sample that the model judged too, 9 of")
    )
    found = str(Calibration(NAME, 0.99, 20, 0, 0))
    assert "0 of 20 answers settled (0%); too few are settled" in found


@pytest.mark.parametrize("own", [True, False])
def test_that_nothing_is_settled_is_told_once(own: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tiebe")
    verdicts = judge(model())([row(n, sure=False, own=own) for n in range(6)])
    (said,) = [r.getMessage() for r in caplog.records if r.getMessage().startswith("cascade")]
    assert said.startswith("cascade: none of 6 settled" if own else "cascade: off for 6 of 6")
    assert judge_notes(verdicts) == [f"{NAME}: 0% of 6 answers were settled offline."]
