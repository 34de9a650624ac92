import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tiebe.answers import answer
from tiebe.cli import main
from tiebe.errors import RecordError
from tiebe.journal import Journal
from tiebe.results import apart, read_answers, read_verdicts

ROW = {
    "year": "2018",
    "month": "10",
    "question": "Who won?",
    "answer": "Ann",
    "model_answer": "Answer: Ann",
    "correct": True,
    "refusal": False,
    "reasoning": "The same.",
}


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sample(number: int, reply: str, **more: Any) -> dict[str, Any]:
    """A line of what lm-eval writes with --log_samples."""
    doc = {"id": f"q{number}", "region": "Brazil", "language": "pt", "year": "2018"}
    doc |= {"question": f"Quem {number}?", "answer": "Ann", "month": "10", "flags": []}
    return {
        "doc_id": number,
        "doc": doc,
        "target": "Ann",
        "arguments": {"gen_args_0": {"arg_0": "prompt", "arg_1": {"until": []}}},
        "resps": [[reply]],
        "filtered_resps": [reply.strip()],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": "0",
        "exact_match": 0.0,
        **more,
    }


def test_upstreams_files_say_model_region_and_split_by_their_names(tmp_path: Path) -> None:
    write(tmp_path / "gpt-4o" / "Brazil-answers_judged.json", ROW, ROW | {"correct": False})
    write(tmp_path / "translated" / "gpt-4o" / "Brazil-answers_judged.json", ROW)
    rows = list(read_verdicts(tmp_path))
    assert [(r["model"], r["region"], r["row"], r["split"], r["correct"]) for r in rows] == [
        ("gpt-4o", "Brazil", 0, "english", True),
        ("gpt-4o", "Brazil", 1, "english", False),
        ("gpt-4o", "Brazil", 0, "native", True),
    ]
    own = ROW | {"model": "other", "language": "native", "row": 7}
    (row,) = read_verdicts(write(tmp_path / "x" / "World-answers_judged.json", own))
    assert (row["model"], row["row"]) == ("other", 7) and "split" not in row


def test_upstreams_files_are_scored_and_judged_again(tmp_path: Path) -> None:
    write(tmp_path / "gpt-4o" / "Brazil-answers_judged.json", ROW, ROW | {"model_answer": "Bob"})
    scored = CliRunner().invoke(main, ["score", str(tmp_path), "--json"])
    assert json.loads(scored.stdout)[0]["accuracy"] == 1.0, scored.output
    judged = CliRunner().invoke(main, ["judge", str(tmp_path), "--model", "offline"])
    rows = [json.loads(line) for line in judged.stdout.splitlines()]
    assert [row["correct"] for row in rows] == [True, False]
    assert {row["decided_by"] for row in rows} == {"offline"} and rows[0]["region"] == "Brazil"


def test_samples_of_lm_eval_are_answers(tmp_path: Path) -> None:
    folder = tmp_path / "org__model"
    path = folder / "samples_tiebe_2026-01-01T00-00-00.jsonl"
    thought = "<think>Ann?</think>Bob"
    write(path, sample(0, " Resposta: Ann"), sample(0, "x", filter="strict"), sample(1, thought))
    for given in (path, folder, tmp_path):
        first, second = read_answers(given)
        assert (first["model_answer"], first["raw"]) == ("Ann", " Resposta: Ann")
        assert (second["id"], second["language"], second["model"]) == ("q1", "pt", "org/model")
        assert second["model_answer"] == "Bob"
    (folder / "results_2026.json").write_text(json.dumps({"model_name": "org/model-7b"}))
    assert {row["model"] for row in read_answers(folder)} == {"org/model-7b"}
    judged = CliRunner().invoke(main, ["judge", str(folder), "--model", "offline"])
    assert [json.loads(line)["correct"] for line in judged.stdout.splitlines()] == [True, False]
    with pytest.raises(RecordError, match="answers without verdicts: judge them by `tiebe judge"):
        list(read_verdicts(folder))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (sample(0, "x") | {"doc": {"text": "a"}}, "1: doc.question: no task of questions"),
        (sample(0, "x") | {"resps": []}, "1: doc: expected"),
        ({"doc_id": 0, "resps": [["x"]]}, "1: doc: there is no such field"),
    ],
)
def test_other_samples_are_named(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    path = write(tmp_path / "samples_other.jsonl", row)
    with pytest.raises(RecordError, match=f"samples_other.jsonl:{says}"):
        list(read_answers(path))


def test_answers_of_a_run_folder_and_of_a_file(tmp_path: Path) -> None:
    question = {"id": "q1", "question": "Who won?", "answer": "Ann", "language": "en"}
    with Journal(tmp_path / "answer") as journal:
        answer([question], lambda prompt: "Answer: Ann", journal=journal)
    (row,) = read_answers(tmp_path)
    assert (row["id"], row["model_answer"], row["answer_prompt"]) == ("q1", "Ann", "answer@paper")
    file = write(tmp_path / "rows.jsonl", {"question": "Who?", "own": 1})
    assert list(read_answers(file)) == [{"question": "Who?", "own": 1}]
    with pytest.raises(RecordError, match="rows.jsonl:1: answer: there is no such field"):
        list(read_answers(file, "answer"))


def test_a_model_in_two_runs_is_told_apart(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Who?", "model": "gpt-4.1", "split": "english", "correct": True}
    rows = {
        "one": [row, row | {"id": "b"}],
        "two": [row | {"correct": False}],
        "three": [row | {"id": "c", "model": "other"}],
    }
    told = [(r["model"], r["id"], r.get("knowledge_cutoff")) for r in apart(rows)]
    assert told == [
        ("gpt-4.1 (one)", "a", "2024-07"),
        ("gpt-4.1 (one)", "b", "2024-07"),
        ("gpt-4.1 (two)", "a", "2024-07"),
        ("other", "c", None),
    ]
    parts = {name: [row | {"id": name}] for name in ("Brazil", "France")}
    assert {r["model"] for r in apart(parts)} == {"gpt-4.1"}  # parts of one run
    for name, lines in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    paths = [str(tmp_path / f"{name}.jsonl") for name in rows]
    done = CliRunner().invoke(main, ["score", *paths, "--by", "model", "--json"])
    assert [(line["model"], line["n"]) for line in json.loads(done.stdout)] == [
        ("gpt-4.1 (one)", 2),
        ("gpt-4.1 (two)", 1),
        ("other", 1),
    ]
