import pandas as pd
import pytest

from tiebe.errors import SettingsError
from tiebe.reports.comparison import compare_releases, compare_runs
from tiebe.scores import Bootstrap

DRAWS = Bootstrap(draws=100)


def run(right, model="m", answers=None, year="2016"):
    return [
        {
            "id": str(i),
            "split": "english",
            "region": "Brazil",
            "year": year if i % 2 else "2024",
            "month": "01",
            "model": model,
            "question": f"q{i}?",
            "answer": "a",
            "model_answer": (answers or [f"{model} {i}"] * len(right))[i],
            "correct": value,
        }
        for i, value in enumerate(right)
    ]


def test_checkpoints_learn_and_forget_by_period():
    found = compare_runs(
        {
            "step 1": run([True, True, False, False], "a"),
            "step 2": run([False, True, True, False], "b"),
            "step 3": run([False, True, True, True], "c"),
        },
        bootstrap=DRAWS,
    )
    changes = found.tables["changes"].data.set_index(["first", "second"])
    assert list(changes.index) == [
        ("step 1", "step 2"),
        ("step 2", "step 3"),
        ("step 1", "step 3"),
    ]
    line = changes.loc[("step 1", "step 2")]
    assert (line.n, line.gained, line.lost, line.difference) == (4, 1, 1, 0.0)
    assert line.noise
    periods = found.tables["periods"].data.set_index(["first", "second", "period"])
    early = periods.loc[("step 1", "step 3", "2015–2017")]
    assert (early.learned, early.forgotten) == (1.0, 0.0)
    late = periods.loc[("step 1", "step 3", "2023–2025")]
    assert (late.learned, late.forgotten) == (1.0, 1.0)
    flips = found.flips.query("first == 'step 1' and second == 'step 2'")
    assert list(flips.change) == ["forgotten", "learned"]
    assert list(flips.question) == ["q0?", "q2?"]
    assert list(flips.model_answer_second) == ["b 0", "b 2"]


def test_a_judge_that_changes_its_mind_on_the_same_answers_is_noise():
    same = ["x"] * 8 + ["y1", "y2"]
    other = ["x"] * 8 + ["z1", "z2"]
    found = compare_runs(
        {
            "one": run([True] * 5 + [False] * 5, answers=same),
            "two": run([True] * 4 + [False] * 5 + [True], answers=other),
        },
        bootstrap=DRAWS,
    )
    line = found.tables["changes"].data.iloc[0]
    assert (line.same_answer, line.judge_noise) == (8, 1 / 8)


def test_a_large_change_is_no_noise():
    found = compare_runs(
        {"one": run([False] * 60), "two": run([True] * 50 + [False] * 10)}, bootstrap=DRAWS
    )
    line = found.tables["changes"].data.iloc[0]
    assert not line.noise and line.p < 0.001


def test_runs_of_several_models_are_compared_model_by_model():
    pair = [*run([True, False], "a"), *run([False, False], "b")]
    later = [*run([True, True], "a"), *run([False, True], "b")]
    changes = compare_runs({"one": pair, "two": later}, bootstrap=DRAWS).tables["changes"].data
    assert list(changes.model) == ["a", "b"]
    with pytest.raises(SettingsError, match="the same ones: one has a, b; two has a"):
        compare_runs({"one": pair, "two": run([True, True], "a")}, bootstrap=DRAWS)
    with pytest.raises(SettingsError, match="two or more runs"):
        compare_runs({"one": pair})


def release(*rows):
    names = ("id", "question", "answer", "replaces")
    return pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows]).assign(
        region="Brazil", language="en", year="2016", month="01"
    )


def test_releases_are_compared_row_by_row():
    old = release(*((str(i), f"q{i}", f"a{i}", None) for i in range(1, 5)))
    new = release(
        ("1", "q1", "a1", None),
        ("2", "q2", "other", None),
        ("9", "q3 better", "a3", "3"),
        ("8", "q8", "a8", None),
    )
    found = compare_releases({"2025.04": old, "2025.05": new})
    line = found.tables["changes"].data.iloc[0]
    assert (line["first"], line.second, line.region, line.split) == (
        "2025.04",
        "2025.05",
        "Brazil",
        "english",
    )
    kinds = ["unchanged", "reworded", "corrected", "added", "withdrawn"]
    assert [line[kind] for kind in kinds] == [1, 1, 1, 1, 1]
    assert dict(zip(found.flips["item"], found.flips["change"], strict=True)) == {
        "2": "reworded",
        "9": "corrected",
        "8": "added",
        "4": "withdrawn",
    }
