import json
import tomllib
from importlib import resources

import pandas as pd
import pytest

from tiebe.errors import RecordError, SettingsError
from tiebe.reports.reproduction import reproduce

PAPER = tomllib.loads(resources.files("tiebe.reports").joinpath("paper.toml").read_text())


def question(year, text="Who?", region="Brazil"):
    row = {"year": year, "month": "03", "event_desc": "e", "text": "t", "question": text}
    return row | {"answer": "a", "region": region}


@pytest.fixture
def folder(tmp_path):
    """Upstream's layout with 18 questions on Argentina of the first period, as the paper has."""
    english = tmp_path / "data" / "english"
    native = tmp_path / "data" / "translated"
    events = tmp_path / "event_retrieval" / "output_events" / "Argentina"
    judged = tmp_path / "results" / "judged_results_english" / "org" / "gpt-4.1"
    other = tmp_path / "results" / "judged_results_native" / "org" / "gpt-4.1"
    for path in (english, native, events, judged, other):
        path.mkdir(parents=True)
    rows = [question("2016")] * 9 + [question("2019")]
    for path in (english, native):
        (path / "Argentina.json").write_text(json.dumps(rows))
    links = [{"link": "https://x.example"}]
    months = [{"Month": "March", "Data": [{"event_text": "e", "links": links * n}]} for n in (1, 2)]
    (events / "2016_in_Argentina_events.json").write_text(json.dumps({"Events": months}))
    for path, right in ((judged, True), (other, False)):
        lines = [json.dumps(row | {"correct": right, "model_answer": "b"}) for row in rows]
        (path / "Argentina-answers_judged.json").write_text("\n".join(lines))
    return tmp_path


def test_the_numbers_of_the_paper_add_up():
    for table in ("table1", "table5"):
        rows = PAPER[table]["rows"]
        assert len(rows) == 24
        total = rows["Total"]
        regions = [figures for slug, figures in rows.items() if slug != "Total"]
        assert [sum(column) for column in zip(*regions, strict=True)] == total
    assert len(PAPER["claims"]) >= 30


def test_same_differs_and_cannot_be_checked(folder):
    table = reproduce(folder).set_index(["where", "what"])
    cell = table.loc[("Table 1", "Argentina: 2015–2017")]
    assert (cell.printed, cell.ours, cell.status) == ("18", "18", "same")
    cell = table.loc[("Table 1", "Argentina: 2018–2020")]
    assert (cell.ours, cell.status, cell.by) == ("2", "differs", -82)
    cell = table.loc[("Table 1", "Brazil: 2018–2020")]
    assert (cell.ours, cell.status) == ("", "cannot be checked")
    assert cell.why == "the folder holds no questions of this region"
    cell = table.loc[("Table 1", "Total: questions")]
    assert (cell.ours, cell.status) == ("20", "cannot be checked")
    assert cell.why == "of 1 of 23 regions only"
    cell = table.loc[("Table 5", "Argentina: references")]
    assert (cell.printed, cell.ours, cell.status, cell.by) == ("190", "3", "differs", -187)
    cell = table.loc[("§4.3", "models that do better in the native languages (Llama 4 Maverick)")]
    assert (cell.ours, cell.status) == ("0", "cannot be checked")
    assert "1 of 9 models" in cell.why
    assert set(table.status) == {"same", "differs", "cannot be checked"}


def test_duplicate_questions_count_as_often_as_they_stand_there(folder):
    table = reproduce(folder).set_index(["where", "what"])
    assert table.loc[("Table 5", "Argentina: english"), "ours"] == "10"


def test_labels_make_table_2(folder):
    labels = [
        {"region": "Argentina", "row": i, "split": "english", "model": "gpt-4.1", "correct": i > 0}
        for i in range(4)
    ]
    table = reproduce(folder, pd.DataFrame(labels)).set_index(["where", "what"])
    assert table.loc[("Table 2", "human: correct, percent"), "ours"] == "75.00"
    assert table.loc[("§3.4", "answers annotated by a person"), "ours"] == "4"
    assert table.loc[("Table 2", "deepseek: correct, percent"), "status"] == "cannot be checked"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("event_retrieval/output_events/Argentina/2017_in_Argentina_events.json", "{}"),
        ("event_retrieval/output_events/Argentina/2017_in_Argentina_events.json", "["),
        ("data/english/Brazil.json", "nothing"),
        ("judged.parquet", "no parquet"),
        ("x/m/Brazil-answers_judged.json", "{"),
    ],
)
def test_a_file_of_another_kind_is_named(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(RecordError, match=path.name.split("-")[0]):
        reproduce(folder)


def test_a_folder_without_any_of_it_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="nothing of upstream's data"):
        reproduce(tmp_path)
    with pytest.raises(SettingsError, match="no such folder"):
        reproduce(tmp_path / "nowhere")


def test_the_given_data_are_the_paper_to_the_digit(shared):
    table = reproduce(shared / "upstream")
    assert "differs" not in set(table.status)
    cells = table[table["where"].isin(["Table 1", "Table 5"]) & (table.status == "same")]
    # Table 1: 13 regions of 5; Table 5: their two counts of questions, 19 regions' two of events.
    assert len(cells) == 13 * 5 + 13 * 2 + 19 * 2
    assert (table.loc[table.status == "cannot be checked", "why"] != "").all()


def test_upstreams_layout_gives_the_same_as_the_tables_it_was_rebuilt_from(upstream_folder):
    table = reproduce(upstream_folder)
    cells = table[(table["where"] == "Table 1") & (table.status == "same")]
    assert len(cells) == 13 * 5
