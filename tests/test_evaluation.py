import json
from pathlib import Path
from typing import Any

import batch_server
import llm_server
import pytest
from click.testing import CliRunner
from releases import make

from builder.release import Edition, write_release
from tiebe.batches import Pace, batched
from tiebe.cli import main
from tiebe.errors import RecordError, SettingsError
from tiebe.evaluation import evaluate, plan
from tiebe.judges import Judge
from tiebe.llm import Budget, open_model
from tiebe.records import read_rows
from tiebe.scores import score

RIDERS = ("Ann", "Bea", "Cid", "Dov", "Eva", "Fay")
QUESTIONS = [
    {
        "id": f"q{n}",
        "event_id": f"e{n}",
        "region": "Brazil",
        "language": code,
        "year": "2018",
        "month": "10",
        "question": f"{'Quem' if code == 'pt' else 'Who'} won race {n}?",
        "answer": RIDERS[n],
    }
    for n in range(6)
    for code in ("en", "pt")
]


def candidate(prompt: str) -> str:
    """Right for the even numbers."""
    number = int(prompt.split("race ")[1][0])
    return f"Answer: {RIDERS[number - number % 2]}"


def test_three_lines_without_a_key() -> None:
    result = evaluate(candidate, judge="offline", questions=QUESTIONS)
    assert [row["correct"] for row in result.rows[:4]] == [True, True, False, False]
    assert list(result.scores["accuracy"]) == [0.5, 0.5]
    assert "<table" in result._repr_html_() and "50.0%" in str(result)
    assert "100% of the verdicts are of the offline judge" in str(result)


def test_a_run_folder_is_resumable_and_scored(tmp_path: Path) -> None:
    with llm_server.running() as candidates, llm_server.running() as judges:
        model = open_model("c", base_url=candidates.base_url)

        def go(prompt: str, questions: list[dict[str, Any]]) -> Any:
            judge = Judge(open_model("j", base_url=judges.base_url), prompt, progress=False)
            return evaluate(model, judge=judge, run=tmp_path, questions=questions)

        def asked() -> tuple[int, int]:
            return candidates.stats()["requests"], judges.stats()["requests"]

        first = go("event-1", QUESTIONS[:-2])
        assert asked() == (10, 10)
        assert go("event-1", QUESTIONS[:-2]).rows == first.rows
        assert asked() == (10, 10)
        go("event-1", QUESTIONS[:-1])  # a new question costs one answer and one verdict
        assert asked() == (11, 11)
        last = go("1", QUESTIONS[:-1])  # another prompt of the judge: no answer anew
        assert asked() == (11, 22)
    rows = list(read_rows(tmp_path, "correct"))
    assert rows == last.rows and {row["prompt"] for row in rows} == {"judge@1"}
    manifest = json.loads((tmp_path / "manifest.json").read_bytes())["evaluations"]["c"]
    assert manifest["answers"]["served"] == {"c": 11} and manifest["questions"]["n"] == 11
    assert score(rows)["n"].item() == 11


def test_several_models_share_a_folder(tmp_path: Path) -> None:
    def other(prompt: str) -> str:
        return "Answer: I do not know."

    evaluate(candidate, judge="offline", run=tmp_path, questions=QUESTIONS)
    evaluate(other, judge="offline", run=tmp_path, questions=QUESTIONS)
    evaluate(candidate, judge="offline", run=tmp_path, questions=QUESTIONS[:4])
    table = score(read_rows(tmp_path, "correct")).set_index("model")
    assert table["n"].to_dict() == {"candidate": 4, "other": 12}
    assert table["refusal"].to_dict() == {"candidate": 0.0, "other": 1.0}


def test_an_answer_that_could_not_be_had_is_unscored() -> None:
    def model(prompt: str) -> str:
        if "race 3" in prompt:
            raise ValueError("boom")
        return candidate(prompt)

    result = evaluate(model, judge="offline", questions=QUESTIONS)
    assert list(result.scores["unscored"]) == [1, 1]
    assert {row["finish"] for row in result.rows if row["correct"] is None} == {"failed"}


def test_without_a_judge_the_offline_one_judges_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = evaluate(candidate, questions=QUESTIONS)
    assert {row["decided_by"] for row in result.rows} == {"offline"}
    assert "100% of the verdicts are of the offline judge" in str(result)
    monkeypatch.setenv("TIEBE_JUDGE", "nobody")
    with pytest.raises(SettingsError, match="nobody"):
        evaluate(candidate, questions=QUESTIONS)


def test_contradicting_arguments_are_named() -> None:
    with pytest.raises(SettingsError, match="so region cannot select"):
        evaluate(candidate, judge="offline", questions=QUESTIONS, region="Brazil")
    with pytest.raises(RecordError, match="no questions"):
        evaluate(candidate, judge="offline", questions=[])


def test_the_verbs_in_a_row(tmp_path: Path) -> None:
    def run(*args: object) -> str:
        result = CliRunner().invoke(main, [str(a) for a in args])
        assert result.exit_code == 0, result.output
        return result.stdout

    rows, answers, verdicts = (tmp_path / f"{name}.jsonl" for name in "qav")
    rows.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    replies = tmp_path / "replies.jsonl"
    replies.write_text(json.dumps({"match": ["race"], "reply": "Answer: Cid"}) + "\n")
    run("answer", rows, "--model", f"replay:{replies}", "--out", answers)
    run("judge", answers, "--model", "offline", "--out", verdicts)
    judged = [json.loads(line) for line in verdicts.read_text().splitlines()]
    assert len(judged) == 12 and sum(row["correct"] for row in judged) == 2
    assert {"reasoning", "confidence", "decided_by", "judge", "prompt"} <= judged[0].keys()
    before = [json.loads(line) for line in answers.read_text().splitlines()]
    assert all(row.items() <= new.items() for row, new in zip(before, judged, strict=True))
    assert json.loads(run("score", verdicts, "--by", "split", "--json"))[0]["n"] == 6
    assert "the_United_Kingdom" in run("regions") and "2023-10" in run("models")


def test_own_columns_and_errors_of_the_judge_verb(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Who?", "gold": ["Ann", "Anna"], "model_answer": "Anna"}\n')
    cli = CliRunner()
    result = cli.invoke(main, ["judge", str(rows), "--model", "offline", "--column", "answer=gold"])
    assert json.loads(result.stdout)["correct"] is True
    for args, says in (
        (["judge", str(rows)], "no judge is chosen"),
        (
            ["judge", str(rows), "--model", "offline"],
            "rows.jsonl:1: answer: there is no such field, only",
        ),
        (["judge", str(rows), "--model", "offline", "--column", "x"], "--column is written"),
        (["evaluate"], "no model is named"),
        (
            ["answer", str(rows), "--model", "gpt-99"],
            "or local, replay:FILE, for a judge also offline",
        ),
    ):
        result = cli.invoke(main, args)
        assert result.exit_code == 1 and says in result.stderr, result.output
        assert len(result.stderr.splitlines()) == 1


def test_a_release_is_evaluated_by_one_command(tmp_path: Path) -> None:
    write_release(tmp_path / "r", *make(4), Edition("2025.04"))
    replies, run = tmp_path / "replies.jsonl", tmp_path / "run"
    replies.write_text(
        json.dumps({"match": ["foi"], "reply": "Resposta: Answer 1"})
        + "\n"
        + json.dumps({"match": ["event"], "reply": "Answer: I do not know."})
        + "\n"
    )
    args = ["evaluate", str(run), "--model", f"replay:{replies}", "--judge", "offline"]
    args += ["--source", str(tmp_path / "r"), "--region", "Brasil", "--split", "both"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    rows = list(read_rows(run, "correct"))
    assert len(rows) == 8 and {row["region"] for row in rows} == {"Brazil"}
    assert {row["split"]: row["answer_prompt"] for row in rows} == {
        "english": "answer@paper",
        "native": "answer@paper.pt",
    }
    assert sum(row["refusal"] for row in rows) == 4
    assert "english" in result.stdout and str(run) in result.stderr
    assert (run / "report" / "index.html").stat().st_size > 10_000


@pytest.mark.parametrize("folder", [True, False])
def test_a_plan_tells_what_is_left_and_asks_nothing(tmp_path: Path, folder: bool) -> None:
    prices = {"c": (1.0, 2.0), "j": (1.0, 2.0)}
    with llm_server.running() as server:
        model = open_model("c", base_url=server.base_url)
        judge = Judge(open_model("j", base_url=server.base_url), "event-1", progress=False)
        more: dict[str, Any] = {"judge": judge, "run": tmp_path / "run" if folder else None}

        def told(budget: Budget | None = None) -> Any:
            return plan(model, questions=QUESTIONS, budget=budget, **more)

        first = told(Budget(prices=prices))
        assert (first.questions, first.answers, first.verdicts) == (12, 12, 12)
        assert first.usage["c"]["calls"] == first.usage["j"]["calls"] == 12
        assert first.usage["j"]["prompt_tokens"] > 12 * 800 and 0 < (first.cost or 0) < 0.1
        assert told().cost is None and server.stats()["requests"] == 0
        evaluate(model, questions=QUESTIONS[:10], **more)
        asked = server.stats()["requests"]
        left = told()
        assert (left.answers, left.verdicts) == (2, 2) and server.stats()["requests"] == asked
        evaluate(model, questions=QUESTIONS, **more)
        assert str(told()) == "12 questions: 0 to be asked, 0 answers to be judged"


def test_the_verb_tells_first_and_then_asks_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiebe.batches.PACE", Pace(quiet=0.2, poll=0.2))
    write_release(tmp_path / "r", *make(4), Edition("2025.04"))
    with batch_server.running() as server:
        args = ["evaluate", str(tmp_path / "run"), "--model", "m", "--base-url", server.base_url]
        args += ["--source", str(tmp_path / "r"), "--judge", "m", "--price", "1", "2", "--batch"]
        args += ["--judge-base-url", server.base_url, "--judge-price", "1", "2", "--no-report"]
        told = CliRunner().invoke(main, [*args, "--dry-run"])
        assert told.exit_code == 0, told.output
        assert (
            "12 questions: 12 to be asked" in told.stdout and "cost: less than $0.01" in told.stdout
        )
        assert not server.batches
        done = CliRunner().invoke(main, args)
        assert done.exit_code == 0, done.output
        assert len(server.batches) >= 2 and set(server.paid.values()) == {1}
    assert "answers: 12 calls, 1,440 tokens, less than $0.01" in done.stderr
    rows = list(read_rows(tmp_path / "run", "correct"))
    assert len(rows) == 12 and None not in [row["correct"] for row in rows]


def test_a_second_call_tells_that_nothing_was_paid_for_again(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    lines = [json.dumps(row | {"model_answer": "Ann"}) + "\n" for row in QUESTIONS]
    with llm_server.running() as server:
        args = ["judge", str(rows), "--model", "m", "--base-url", server.base_url]
        args += ["--price", "1", "2", "--out", str(tmp_path / "out.jsonl")]

        def told(n: int) -> str:
            rows.write_text("".join(lines[:n]))
            return CliRunner().invoke(main, args).stderr

        assert "judged by m: 8 calls, 680 tokens, less than $0.01\n" in told(8)
        assert "judged by m: nothing paid now; 8 calls, 680 tokens, less than $0.01 before" in told(
            8
        )
        assert "judged by m: 4 calls, 340 tokens, less than $0.01 now; 8 calls, 680" in told(12)


def test_judging_tells_first_what_it_would_ask(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    lines = [json.dumps(row | {"model_answer": "Ann"}) + "\n" for row in QUESTIONS]
    missing = json.dumps(QUESTIONS[0] | {"model_answer": None}) + "\n"
    with llm_server.running() as server:
        args = ["judge", str(rows), "--model", "m", "--base-url", server.base_url]
        args += ["--concurrency", "1", "--out", str(out)]

        def told(lines: list[str], *more: str) -> list[str]:
            rows.write_text("".join(lines))
            done = CliRunner().invoke(main, [*args, *more])
            assert done.exit_code == 0, done.output
            return done.stdout.splitlines()

        first, usage, cost = told([*lines, lines[0], missing], "--dry-run", "--price", "1000", "0")
        assert first == "14 rows: 0 judged already, 12 to be judged, 1 without an answer"
        assert usage.startswith("m: 12 calls, about ") and usage.endswith(" tokens in, 1,020 out")
        tokens = int(usage.split()[4].replace(",", ""))
        assert tokens > 12 * 500
        assert cost == (
            f"cost: ${tokens / 1000:.2f}; time: about 0 min at 2 s a call, within a day in files "
            "(--batch)"
        )
        assert server.stats()["requests"] == 0 and not out.exists()
        told(lines[:8])
        out.unlink()
        first, usage, cost = told(lines, "--dry-run")
        assert first == "12 rows: 8 judged already, 4 to be judged"
        assert cost.startswith("cost: unknown without the price of m (--price IN OUT);")
        assert server.stats()["requests"] == 8 and not out.exists()
        told(lines)
        assert told(lines, "--dry-run") == ["12 rows: 12 judged already, 0 to be judged"]
        args[3:6] = ["offline"]
        assert told(lines, "--dry-run") == ["12 rows: 0 judged already, 12 to be judged"]
        rows.write_text('{"question": "Who?", "answer": [], "model_answer": "Ann"}\n')
        failed = CliRunner().invoke(main, [*args, "--dry-run"])
        assert failed.exit_code == 1 and "rows.jsonl: row 1: answer: no accep" in failed.stderr


def test_a_limit_needs_a_price_and_a_body_is_an_object(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Who?", "answer": "Ann"}\n')
    url = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    for more, says in (
        (["--max-cost", "1"], "--max-cost needs --price IN OUT"),
        (["--extra-body", "{"], "is no JSON"),
        (["--extra-body", "[1]"], "is no JSON object"),
    ):
        result = CliRunner().invoke(main, ["answer", str(rows), *url, *more])
        assert result.exit_code == 1 and says in result.stderr, result.output


def test_an_own_cutoff_parts_what_the_model_can_know(tmp_path: Path) -> None:
    evaluate(candidate, judge="offline", questions=QUESTIONS, run=tmp_path, cutoff="2018-09")
    rows = list(read_rows(tmp_path, "correct"))
    assert list(score(rows, ["cutoff"])["cutoff"]) == ["after"]
    evaluate(candidate, judge="offline", questions=QUESTIONS, run=tmp_path, cutoff="2018")
    about = json.loads((tmp_path / "manifest.json").read_bytes())["evaluations"]["candidate"]
    assert about["model"] == {"name": "candidate", "cutoff": "2018", "cutoff_is_year": True}
    assert about["answers"]["parameters"]["temperature"] == 0.0
    rows = list(read_rows(tmp_path, "correct"))
    assert len(rows) == 12 and list(score(rows, ["cutoff"])["cutoff"]) == ["before"]
    with pytest.raises(SettingsError, match="cutoff is '2018-13'"):
        evaluate(candidate, judge="offline", questions=QUESTIONS, cutoff="2018-13")


def test_a_share_of_nothing_is_a_dash() -> None:
    result = evaluate(lambda _: "Answer: I do not know.", judge="offline", questions=QUESTIONS[:1])
    assert "nan" not in str(result) and "–" in str(result)


def test_a_function_and_the_fixed_sample(tmp_path: Path) -> None:
    write_release(tmp_path, *make(4), Edition("2025.04"))
    result = evaluate(
        lambda _: "Answer: I do not know.", judge="offline", sample="mini", source=tmp_path
    )
    assert len(result.rows) > 4 and set(result.scores["refusal"]) == {1.0}


def test_tokens_are_a_budget_too(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    with llm_server.running() as server:
        args = ["answer", str(rows), "--model", "m", "--base-url", server.base_url]
        args += ["--max-total-tokens", "400", "--max-tokens", "100", "--concurrency", "1"]
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 1 and "budget of 400 tokens is used up" in result.stderr
        assert 0 < server.stats()["requests"] < 12


@pytest.mark.parametrize("folder", [True, False])
def test_what_is_asked_twice_is_counted_once(tmp_path: Path, folder: bool) -> None:
    with llm_server.running() as server:
        model, judge = (open_model(name, base_url=server.base_url) for name in "cj")
        run = tmp_path / "run" if folder else None
        found = evaluate(model, judge=judge, questions=QUESTIONS[:2] * 3, run=run)
        assert server.stats()["requests"] == 4 and len(found.rows) == 6
    assert found.manifest["answers"]["usage"] == dict(model.paid)
    assert found.manifest["verdicts"]["usage"] == dict(judge.paid)


def test_a_run_without_verdicts_says_how_far_it_is(tmp_path: Path) -> None:
    evaluate(candidate, judge="offline", questions=QUESTIONS, run=tmp_path)
    for path in (tmp_path / "verdicts.jsonl", *(tmp_path / "judge").iterdir()):
        path.unlink()
    result = CliRunner().invoke(main, ["score", str(tmp_path)])
    assert result.exit_code == 1
    assert "nothing is judged yet, 12 answers are there: run `tiebe evaluate`" in result.stderr
    (tmp_path / "judge" / "part.jsonl").write_text('{"key": "x", "torn')
    assert "nothing is judged yet" in CliRunner().invoke(main, ["score", str(tmp_path)]).stderr


def test_what_is_not_judged_yet_is_left_out_of_a_report_and_named(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("begun", "done", "lm-eval", "none")]
    for run in runs[:2]:
        evaluate(candidate, judge="offline", questions=QUESTIONS, run=run)
    for path in (runs[0] / "verdicts.jsonl", *(runs[0] / "judge").iterdir()):
        path.unlink()
    for run in runs[2:]:
        run.mkdir()
    (runs[2] / "samples_tiebe_2026.jsonl").write_text("{}\n")

    def told(*args: object) -> Any:
        return CliRunner().invoke(main, [str(a) for a in args])

    made = told("report", *runs, "--out", tmp_path / "report")
    assert made.exit_code == 0 and made.stdout == f"{tmp_path / 'report' / 'index.html'}\n"
    begun, samples, none = made.stderr.splitlines()
    assert begun.startswith(f"warning: left out {runs[0]}: nothing is judged yet, 12 answers are")
    assert begun.endswith("run `tiebe evaluate` on it again, which goes on where it was")
    assert samples.endswith(f"judge them by `tiebe judge {runs[2]} --out FILE`")
    assert none.startswith(f"warning: left out {runs[3]}: no run folder of that kind")
    alone = told("score", runs[1], "--json")
    assert told("score", *runs, "--json").stdout == alone.stdout and alone.exit_code == 0
    failed = told("report", runs[0], runs[3], "--out", tmp_path / "out")
    assert failed.exit_code == 1 and not (tmp_path / "out").exists()
    assert failed.stderr.startswith(f"error: {runs[0]}: nothing is judged yet")
    missing = told("report", runs[1], tmp_path / "missing", "--out", tmp_path / "out")
    assert missing.exit_code == 1 and "missing: no such file or run folder" in missing.stderr


def test_a_plan_says_what_it_does_not_know_and_nothing_that_cannot_be() -> None:
    def told(model: Any, judge: Any = "offline", **more: Any) -> str:
        return str(plan(model, judge=judge, questions=QUESTIONS, **more))

    def remote(name: str, **more: Any) -> Any:
        return open_model(name, base_url="http://127.0.0.1:9", **more)

    by_function = told(candidate)
    assert "unknown without the price of candidate (--price IN OUT" in by_function
    assert "--batch" not in by_function
    local = told(remote("local", max_tokens=20))
    assert "240 out" in local and "cost: $0.00" in local and "--batch" not in local
    cheap = {"c": (0.01, 0.01)}
    mixed = told(remote("c"), remote("j"), budget=Budget(prices=cheap))
    assert "unknown without the price of j (" in mixed and "in files (--batch)" in mixed
    assert "960 out" in mixed and "less than $0.01" in told(
        remote("c"), budget=Budget(prices=cheap)
    )
    with pytest.raises(SettingsError, match="local has no server with a Batch API"):
        batched(remote("local"), Path("batches"))


@pytest.mark.parametrize("text", ["xx", "[1]", '{"evaluations": 5}', "[" * 100_000])
def test_a_damaged_manifest_is_named_before_anything_is_asked(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match="manifest.json is damaged: delete it"):
        evaluate(lambda prompt: pytest.fail("asked"), questions=QUESTIONS, run=tmp_path)


def test_a_run_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for run, says in (("", "run is empty"), (tmp_path / "file/run", "cannot make the folder")):
        with pytest.raises(SettingsError, match=says):
            evaluate(lambda prompt: pytest.fail("asked"), questions=QUESTIONS, run=run)
