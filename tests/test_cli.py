import json

import pytest
from click.testing import CliRunner

from tiebe.cli import main


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *args: runner.invoke(main, [str(a) for a in args])


@pytest.fixture
def verdicts(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    rows = [
        {"model": "m", "region": "Brazil", "year": "2018", "month": "03", "correct": True},
        {"model": "m", "region": "Brazil", "year": "2024", "month": "03", "correct": False},
        {"model": "m", "region": "France", "year": "2018", "month": "03", "correct": None},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_score_prints_json(run, verdicts):
    result = run("score", verdicts, "--by", "region,period", "--json")
    assert result.exit_code == 0
    groups = json.loads(result.stdout)
    assert [(g["region"], g["period"], g["accuracy"]) for g in groups] == [
        ("Brazil", "2018–2020", 1.0),
        ("Brazil", "2023–2025", 0.0),
        ("France", "2018–2020", None),
    ]


def test_score_prints_a_table_in_percent(run, verdicts):
    result = run("score", verdicts, "--before", "2023-01")
    assert result.exit_code == 0
    assert "100.0%" in result.stdout


def test_score_reads_the_journal_of_a_run(run, verdicts, tmp_path):
    folder = tmp_path / "run" / "judge"
    folder.mkdir(parents=True)
    lines = [
        json.dumps({"key": str(i), "rows": [json.loads(line)], "at": "2026-01-01"})
        for i, line in enumerate(verdicts.read_text().splitlines())
    ]
    lines.insert(1, json.dumps({"key": "x", "drop": {"reason": "model_failed"}}))
    (folder / "part.jsonl").write_text("\n".join(lines) + "\n" + '{"key": "torn", "ro')
    result = run("score", tmp_path / "run", "--json")
    assert json.loads(result.stdout)[0]["n"] == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"correct": "yes"}', "verdicts.jsonl:2: correct: Expected `bool | null`"),
        ('{"model": "m"}', "verdicts.jsonl:2: correct: there is no such field"),
        ("[1]", "verdicts.jsonl:2: Expected `object`"),
        ("{", "verdicts.jsonl:2: Input data was truncated"),
        ("[" * 100_000, "verdicts.jsonl:2: maximum recursion depth"),
    ],
)
def test_a_bad_line_is_named(run, tmp_path, line, message):
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"correct": true}\n' + line + "\n")
    result = run("score", path)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_path_is_named(run, tmp_path):
    result = run("score", tmp_path / "nothing")
    assert result.exit_code == 1
    assert "no such file or run folder" in result.stderr


def test_cutoff_says_when_the_data_cannot_tell(run, verdicts):
    result = run("cutoff", verdicts, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)[0]["note"] == "fewer than 60 answers with a month"


def test_score_can_count_regions_the_same(run, verdicts):
    result = run("score", verdicts, "--average", "macro", "--json")
    assert json.loads(result.stdout)[0]["average"] == "macro"
