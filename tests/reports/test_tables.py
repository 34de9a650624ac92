import pandas as pd
import pytest

from tiebe.errors import RecordError
from tiebe.reports.tables import TABLES, Inputs, latex, make_tables, plain, write_csv
from tiebe.scores import Bootstrap, frame, score


@pytest.fixture(scope="module")
def inputs(verdicts):
    return Inputs(frame(verdicts), bootstrap=Bootstrap(draws=100))


@pytest.fixture(scope="module")
def tables(inputs):
    return make_tables(inputs)


def test_every_table_is_made_but_those_that_need_more(tables):
    assert set(TABLES) - set(tables) == {"agreement", "availability", "extraction"}
    assert all(len(table.data) for table in tables.values())


def test_a_table_says_what_score_says(inputs, tables):
    by_period = tables["periods_by_model"].data
    expected = score(inputs.verdicts, ["split", "period", "model"], bootstrap=inputs.bootstrap)
    pd.testing.assert_frame_equal(by_period, expected)


def test_the_ranking_is_in_order_for_both_windows_and_names_both_averages(tables):
    ranking = tables["ranking"].data
    assert set(ranking.events_of) == {"all", "before 2023"}
    for _, part in ranking.groupby(["split", "events_of"]):
        assert list(part.accuracy) == sorted(part.accuracy, reverse=True)
        assert (part.macro_low <= part.macro).all() and (part.macro <= part.macro_high).all()


def test_the_drop_uses_the_published_cutoff_else_the_measured_one(inputs):
    # The model without a published cutoff gets a clear break.
    data = inputs.verdicts
    when = data.year + "-" + data.month
    broken = data.assign(correct=data.correct.mask((data.model == "own"), (when < "2020-03") * 1.0))
    table = make_tables(Inputs(broken, bootstrap=Bootstrap(draws=200)), "drop_at_cutoff")
    lines = table["drop_at_cutoff"].data.set_index(["split", "model"])
    known = lines.loc[("english", "gpt-4.1")]
    assert (known.cutoff, known.source) == ("2024-07", "published")
    own = lines.loc[("english", "own")]
    assert own.source == "measured"
    assert "2020-01" <= own.cutoff <= "2020-06"
    assert own["drop"] > 0.9


def test_the_cutoffs_give_the_month_after_the_published_one(tables):
    lines = tables["cutoffs"].data.set_index(["split", "model"])
    assert lines.loc[("english", "gpt-4.1"), "stated_end"] == "2024-08"
    assert lines.loc[("english", "own"), "stated_end"] == ""


def test_time_is_cut_into_years_where_half_years_would_be_too_small(verdicts, tables):
    assert set(tables["time_by_model"].data.since.str[-3:]) == {"-01"}
    many = frame([row | {"id": f"{row['id']}-{i}"} for row in verdicts for i in range(6)])
    table = make_tables(Inputs(many, bootstrap=Bootstrap(draws=10)), "time_by_model")
    assert set(table["time_by_model"].data.since.str[-3:]) == {"-01", "-07"}


def test_gaps_are_to_the_united_states_and_the_world_has_none(tables):
    regions = tables["regions"].data.query("split == 'english' and events_of == 'all'")
    regions = regions.set_index("region")
    assert regions.loc["Brazil", "reference"] == "the_United_States"
    assert pd.isna(regions.loc["World", "gap"])
    assert regions.loc["Brazil", "gap"] == pytest.approx(
        regions.loc["the_United_States", "accuracy"] - regions.loc["Brazil", "accuracy"]
    )


def test_rows_that_say_little_make_few_tables():
    tables = make_tables(Inputs(frame([{"correct": True}, {"correct": False}])))
    assert not tables
    tables = make_tables(Inputs(frame([{"correct": True, "model": "m"}])))
    assert set(tables) == {"ranking"}


def test_coverage_is_that_of_the_release_when_there_is_one(verdicts):
    questions = [
        {"region": "Brazil", "id": str(i), "language": "en", "year": "2016", "question": "Who?"}
        for i in range(7)
    ]
    inputs = Inputs(frame(verdicts), frame(questions, judged=False))
    table = make_tables(inputs, "coverage")["coverage"].data
    assert table[["region", "questions"]].to_dict("records") == [
        {"region": "Brazil", "questions": 7}
    ]


def test_labels_give_the_agreement(verdicts):
    some = [row for row in verdicts if row["correct"] is not None][:20]
    labels = [{name: row[name] for name in ("id", "split", "model", "correct")} for row in some]
    for label in labels[:5]:
        label["correct"] = not label["correct"]
    inputs = Inputs(frame(verdicts), labels=frame(labels))
    line = make_tables(inputs, "agreement")["agreement"].data.iloc[0]
    assert (line.judge, line.n, line.divergence) == ("a-judge", 20, 0.25)
    assert line.stricter + line.laxer == 5
    assert 0.02 < line.low < 0.25 < line.high < 0.75
    unclear = [{"id": some[0]["id"], "correct": True}]
    with pytest.raises(RecordError, match="name the model in the labels"):
        make_tables(Inputs(frame(verdicts), labels=frame(unclear)), "agreement")


def test_a_survey_is_in_order(verdicts):
    survey = pd.DataFrame({"country": ["a", "b"], "events": [1, 70], "tier": ["1–64", "65–199"]})
    table = make_tables(Inputs(frame(verdicts), survey=survey), "availability")
    assert list(table["availability"].data.country) == ["b", "a"]
    with pytest.raises(RecordError, match="no column events and tier"):
        make_tables(Inputs(frame(verdicts), survey=survey[["country"]]), "availability")


def test_text_shows_percent_and_marks_small_groups():
    table = score([{"correct": True, "model": "a&b_c"}, {"correct": False, "model": "a&b_c"}])
    text = plain(table)
    assert "50.0%" in text and "n < 30" in text and "–" in text
    source = latex(table, caption="Models")
    assert r"a\&b\_c" in source and r"50.0\%" in source and r"\toprule" in source


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d", "\t", "\r", "\n"])
def test_a_text_like_a_formula_is_quoted_and_no_number_is(tmp_path, start):
    path = tmp_path / "table.csv"
    data = pd.DataFrame({"text": [f"{start}1", "a\r=1"], "n": [-1, 2], "x": [-0.5, None]})
    data["mixed"] = pd.Series([-3, None], dtype=object)
    write_csv(data, path)
    quoted = f'"\'{start}1"' if start in "\r\n" else f"'{start}1"
    lines = ["text,n,x,mixed", f"{quoted},-1,-0.5,-3", '"a\r=1",2,,', ""]
    assert path.read_bytes().decode() == "\r\n".join(lines)


def test_a_table_without_lines_has_its_header(tmp_path):
    write_csv(pd.DataFrame({"text": [], "n": []}), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "text,n\n"
