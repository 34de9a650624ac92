import json
import sys

import pandas as pd
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
        ('{"model": "m"}', "verdicts.jsonl:2: correct: there is no such field, only model"),
        ("[1]", "verdicts.jsonl:2: Expected `object`"),
        ("{", "verdicts.jsonl:2: Input data was truncated; expected one JSON object a line"),
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


def test_a_named_table_is_printed_in_any_form(run, verdicts):
    assert "Portuguese" in run("score", verdicts, "--table", "coverage").stdout
    found = json.loads(run("score", verdicts, "--table", "all", "--json").stdout)
    assert {"ranking", "regions", "coverage"} <= set(found)
    assert "toprule" in run("score", verdicts, "--table", "regions", "--latex").stdout
    result = run("score", verdicts, "--table", "region")
    assert result.exit_code == 1 and "did you mean 'regions'" in result.stderr


def test_score_writes_the_results_of_the_hub(run, tmp_path):
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"correct": true, "model": "org/m", "split": "english"}\n')
    assert run("score", path, "--eval-results", tmp_path / "out").exit_code == 0
    assert "task_id: english" in (tmp_path / "out" / "org_m.yaml").read_text()


def test_report_writes_a_page_and_tables(run, verdicts, tmp_path):
    survey = tmp_path / "survey.jsonl"
    survey.write_text('{"country": "Peru", "events": 3, "tier": "1-64"}\n')
    out = tmp_path / "out"
    result = run("report", verdicts, "--out", out, "--survey", survey)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(out / "index.html")
    assert (out / "regions.csv").is_file() and (out / "availability.csv").is_file()


def test_report_counts_what_a_run_built(run, verdicts, tmp_path):
    built = tmp_path / "built"
    for stage, rows in {
        "collect": [
            {"region": "Brazil", "wikitext": "…"},
            {"region": "Brazil", "references": [{"url": "u"}, {"url": "v"}]},
            {"region": "Brazil", "references": []},
        ],
        "retrieve": [{"event": {"region": "Brazil"}, "text": "…"}],
    }.items():
        (built / stage).mkdir(parents=True)
        line = json.dumps({"key": "k", "rows": rows})
        (built / stage / "part.jsonl").write_text(line + "\n")
    english = built / "release" / "data" / "english"
    english.mkdir(parents=True)
    row = {"year": "2016", "month": "01", "event_desc": "e", "question": "Who?", "answer": "a"}
    (english / "Brazil.json").write_text(json.dumps([row]))
    out = tmp_path / "out"
    result = run("report", verdicts, "--out", out, "--release", built)
    assert result.exit_code == 0, result.output
    lines = (out / "extraction.csv").read_text().splitlines()
    assert lines == ["region,events,references,extracted,english,questions", "Brazil,2,2,1,1,1"]


def test_compare_prints_what_changed_and_writes_flips(run, tmp_path):
    for name, right in (("one", "false"), ("two", "true")):
        (tmp_path / f"{name}.jsonl").write_text(
            f'{{"id": "1", "model": "{name}", "correct": {right}, "question": "Who?"}}\n'
        )
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    result = run("compare", *files, "--json", "--flips", tmp_path / "flips.csv")
    assert result.exit_code == 0, result.output
    change = json.loads(result.stdout)["changes"][0]
    assert (change["first"], change["second"], change["difference"]) == ("one", "two", 1.0)
    assert "learned" in (tmp_path / "flips.csv").read_text()
    assert run("compare", files[0]).exit_code == 1


FORMULA = '=HYPERLINK("http://x.example";"Ana")'


def test_no_text_is_a_formula_in_the_tables_of_a_report(run, tmp_path):
    path, out = tmp_path / "verdicts.jsonl", tmp_path / "out"
    rows = [
        {"id": str(n), "model": model, "split": "english", "correct": n < 2 * right}
        for model, right in ((FORMULA, 3), ("@m", 5), ("o-1", 1))
        for n in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("report", path, "--out", out).exit_code == 0
    ranking, differences = (pd.read_csv(out / f"{name}.csv") for name in ("ranking", "differences"))
    assert set(ranking["model"]) == {f"'{FORMULA}", "'@m", "o-1"}
    assert differences["difference"].dtype == float and min(differences["difference"]) < 0


def test_no_answer_is_a_formula_in_the_flips(run, tmp_path):
    for name, answer in (("one", FORMULA), ("two", "-5")):
        row = {"id": "1", "model": name, "question": "Who?", "model_answer": answer}
        line = json.dumps(row | {"correct": name == "two"})
        (tmp_path / f"{name}.jsonl").write_text(line + "\n")
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    assert run("compare", *files, "--flips", tmp_path / "flips.csv").exit_code == 0
    (flip,) = pd.read_csv(tmp_path / "flips.csv", dtype=str).to_dict("records")
    assert (flip["model_answer"], flip["model_answer_second"]) == (f"'{FORMULA}", "'-5")
    assert flip["question"] == "Who?"


def test_compare_tells_that_two_judged(run, tmp_path):
    row = {"id": "1", "question": "Who?", "correct": True}
    for name, judge in (("gpt-4o", "gpt-4o"), ("offline", "offline-1")):
        line = row | {"model": name, "decided_by": name, "judge": judge}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    result = run("compare", tmp_path / "gpt-4o.jsonl", tmp_path / "offline.jsonl", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)
    assert "of 2 judges (gpt-4o; offline-1)" in result.stderr
    assert "50% of the verdicts are of the offline judge" in result.stderr


def test_reproduce_prints_numbers_beside_ours(run, tmp_path):
    english = tmp_path / "data" / "english"
    english.mkdir(parents=True)
    row = {"year": "2016", "month": "01", "event_desc": "e", "question": "Who?", "answer": "a"}
    (english / "Canada.json").write_text(json.dumps([row] * 37))
    result = run("reproduce", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    lines = {line["what"]: line for line in json.loads(result.stdout)}
    assert lines["Canada: 2015–2017"]["status"] == "same"
    assert lines["Canada: 2018–2020"]["by"] == -49
    assert "cannot be checked" in result.stderr


def test_labels_of_a_person_are_read_from_their_file(tmp_path):
    from tiebe.cli import read_labels
    from tiebe.labels import COLUMNS

    path = tmp_path / "labels.csv"
    cells = {"id": "1", "correct": "true"}, {"id": "2", "correct": ""}, {"id": "3", "correct": "no"}
    lines = [",".join(cell.get(name, "") for name in COLUMNS) for cell in cells]
    path.write_text("\n".join([",".join(COLUMNS), *lines]))
    assert [row["correct"] for row in read_labels(path)] == [True, None, False]


def test_rows_are_written_to_a_folder_that_is_made(run, tmp_path):
    rows, out = tmp_path / "rows.jsonl", tmp_path / "new" / "out.jsonl"
    rows.write_text('{"question": "Who?", "answer": "Ana", "model_answer": "Ana"}\n')
    assert run("judge", rows, "--model", "offline", "--out", out).exit_code == 0
    assert json.loads(out.read_text())["correct"] is True


def test_a_path_that_cannot_be_written_is_named_in_one_line(run, verdicts, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("score", verdicts, "--eval-results", tmp_path / "file" / "results")
    assert result.exit_code == 1
    assert f"error: {tmp_path / 'file'}" in result.output.splitlines()[-1]
    assert "can be read and written" in result.output


@pytest.mark.parametrize("option", ["--concurrency", "--max-tokens"])
def test_no_request_in_flight_and_no_token_are_refused(run, verdicts, option):
    result = run("judge", verdicts, "--model", "offline", option, "0")
    assert result.exit_code == 2 and option in result.output


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--price", "-1", "2"], "-1 is no amount of dollars"),
        (["--price", "1", "nan"], "nan is no amount of dollars"),
        (["--max-cost", "nan"], "nan is no amount of dollars: expected more than 0"),
        (["--max-cost", "inf"], "inf is no amount of dollars"),
        (["--max-cost", "0"], "0 is no amount of dollars: expected more than 0"),
        (["--max-total-tokens", "-5"], "-5 is not in the range"),
    ],
)
def test_what_is_no_amount_of_money_is_refused(run, verdicts, option, says):
    result = run("judge", verdicts, "--model", "gpt-4o", *option)
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_options_that_the_offline_judge_cannot_heed_are_refused(run, verdicts):
    for option in (["--prompt", "1"], ["--extra-body", "{}"], ["--max-tokens", "9"], ["--batch"]):
        for verb in (["judge", verdicts, "--model", "offline"], ["exam", "offline"]):
            result = run(*verb, *option)
            assert result.exit_code == 1 and f"{option[0]} is given" in result.stderr
    result = run("evaluate", "--model", "gpt-4o", "--judge", "offline", "--judge-prompt", "1")
    assert result.exit_code == 1 and "--judge-prompt is given" in result.stderr


def test_rows_are_read_as_they_come_and_none_are_told(run, tmp_path):
    path = tmp_path / "rows.jsonl"
    row = '{"question": "Who?", "answer": "Ana", "model_answer": "Ana"}\n'
    path.write_bytes(b"\xef\xbb\xbf" + row.encode())
    assert json.loads(run("judge", path, "--model", "offline").stdout)["correct"] is True
    for nothing in ("", "\n\n"):
        path.write_text(nothing)
        result = run("judge", path, "--model", "offline")
        assert result.exit_code == 1 and "rows.jsonl: there are no rows in it" in result.stderr
    path.write_text(row + '{"question": "Who?", "gold": 3, "model_answer": "Ana"}\n')
    for column, says in (
        ([], "rows.jsonl:2: answer: there is no such field, only question, gold, model_answer"),
        (["--column", "model_answer=gold"], "rows.jsonl:1: gold: there is no such field"),
    ):
        result = run("judge", path, "--model", "offline", *column)
        assert result.exit_code == 1 and says in result.stderr
    path.write_text('{"question": "Who?", "gold": 3, "model_answer": "Ana"}\n')
    result = run("judge", path, "--model", "offline", "--column", "answer=gold")
    assert "rows.jsonl: row 1: gold: expected a text, got 3" in result.stderr


def test_ray_where_it_is_not_installed(run, tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Who?", "answer": "Ana", "model_answer": "Ana"}\n')
    for name in [n for n in sys.modules if n.split(".")[0] == "ray" or n == "tiebe.ray_engine"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    told = run("judge", rows, "--model", "offline", "--engine", "ray")
    assert told.exit_code == 1 and "pip install 'tiebe[ray]'" in told.stderr
    told = run("judge", rows, "--model", "offline", "--address", "127.0.0.1:6379")
    assert told.exit_code == 1 and "give --engine ray as well" in told.stderr


ANA = {"question": "Who?", "answer": "Ana", "model_answer": "Ana"}


def test_ids_may_be_numbers_and_pass_through(run, tmp_path):
    path, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    rows = [ANA | {"id": n, "event_id": 7, "model": "m"} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("judge", path, "--model", "offline", "--out", out).exit_code == 0
    judged = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["event_id"]) for row in judged] == [(0, 7), (1, 7), (2, 7)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps(row | {"id": str(row["id"])}) + "\n" for row in judged))
    (line,) = json.loads(run("agreement", out, "--with", texts, "--json").stdout)
    assert line["n"] == 3


def test_rows_are_read_from_csv(run, tmp_path):
    path, out = tmp_path / "rows.csv", tmp_path / "verdicts.jsonl"
    path.write_text(
        "question,gold,model_answer,system,correct\r\n"
        '"Who, of both?",Ana,"It was\r\nAna.",m,\r\nWho?,1,Eva,m,TRUE\r\n',
        "utf-8-sig",
    )
    columns = ["--column", "answer=gold", "--column", "model=system"]
    assert run("judge", path, "--model", "offline", *columns, "--out", out).exit_code == 0
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert (first["correct"], first["question"], first["gold"]) == (True, "Who, of both?", "Ana")
    assert (second["correct"], second["model"], second["system"]) == (False, "m", "m")
    assert json.loads(run("score", out, "--json").stdout)[0]["model"] == "m"
    path.write_text("model,correct\nm,true\nm,False\nm,\n")
    (scores,) = json.loads(run("score", path, "--json").stdout)
    assert (scores["n"], scores["accuracy"], scores["unscored"]) == (3, 0.5, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("question,answer\n", "rows.csv: there are no rows in it; expected a header and lines"),
        ("question,answer,model_answer\nWho, then?,Ana,Ana\n", "rows.csv:2: expected 3 cells"),
        ("question,answer,model_answer\nWho?,Ana\n", "rows.csv:2: expected 3 cells"),
        ("question;answer\nWho?;Ana\n", "question: there is no such field, only question;answer"),
        ('question,answer,model_answer\n"Who?', "no CSV file that can be read"),
    ],
)
def test_what_is_wrong_in_a_csv_file_is_named(run, tmp_path, text, says):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    result = run("judge", path, "--model", "offline")
    assert result.exit_code == 1 and says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_columns_are_renamed_where_rows_are_read(run, tmp_path):
    path, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    path.write_text(json.dumps(ANA | {"modell": "m", "nr": 3, "land": "Brazil"}) + "\n")
    renamed = ["model=modell", "id=nr", "region=land"]
    command = ["judge", path, "--model", "offline", "--out", out]
    assert run(*command, *(f"--column={pair}" for pair in renamed)).exit_code == 0
    row = json.loads(out.read_text())
    assert (row["model"], row["id"], row["region"], row["modell"]) == ("m", 3, "Brazil", "m")
    for pair, says in (
        ("modle=modell", "--column names 'modle', expected one of question"),
        ("model=system", "rows.jsonl:1: system: there is no such field, only question"),
    ):
        result = run(*command, "--column", pair)
        assert result.exit_code == 1 and says in result.stderr


def test_a_line_with_python_s_nan_is_read(run, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ANA | {"model_answer": float("nan")}) + "\n")
    result = run("judge", path, "--model", "offline")
    assert json.loads(result.stdout)["correct"] is None and "1 of 1 are unscored" in result.stderr
    path.write_text('{"question": NaNa}\n')
    assert "rows.jsonl:1: JSON is malformed" in run("judge", path, "--model", "offline").stderr


def test_a_limit_asks_for_all_prices_at_once(run):
    models = ["--model", "openai:m", "--judge", "openai:j", "--max-cost", "1"]
    says = "--max-cost needs --price IN OUT and --judge-price IN OUT, in dollars"
    assert says in run("evaluate", *models, "--dry-run").stderr
    result = run("evaluate", *models, "--price", "1", "2", "--dry-run")
    assert "--max-cost needs --judge-price IN OUT, in dollars" in result.stderr
    result = run("exam", "openai:j", "--max-cost", "1")
    assert "--max-cost needs --price IN OUT, in dollars" in result.stderr


def test_what_cannot_be_compared_says_what_can(run, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text('{"id": "1", "model": "a", "correct": true}\n')
    assert "`tiebe score RUN --table differences`" in run("compare", path).stderr
    again = tmp_path / "." / "one.jsonl"
    assert "one.jsonl is named twice" in run("compare", path, again).stderr


def test_help_names_where_labels_come_from(run):
    assert "tiebe judge --annotate" in " ".join(run("report", "--help").stdout.split())
