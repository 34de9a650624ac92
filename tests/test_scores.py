import math

import numpy as np
import pandas as pd
import pytest

from tiebe.errors import RecordError, SettingsError
from tiebe.records import Verdict
from tiebe.scores import between, frame, score


def rows(**columns):
    length = max(len(c) for c in columns.values())
    return [{name: column[i] for name, column in columns.items()} for i in range(length)]


def test_counts_unscored_refused_and_contradictory_rows():
    table = score(
        rows(
            model=["a"] * 6 + ["b"],
            correct=[True, True, True, False, False, None, None],
            refusal=[False, False, True, True, False, None, None],
        )
    )
    a, b = table.to_dict("records")
    assert (a["n"], a["unscored"], a["contradictory"], a["small"]) == (6, 1, 1, True)
    assert a["accuracy"] == pytest.approx(3 / 5)
    assert a["refusal"] == pytest.approx(2 / 5)
    assert a["attempted"] == pytest.approx(2 / 3)
    assert (b["n"], b["unscored"], b["events"]) == (1, 1, 0)
    assert math.isnan(b["accuracy"]) and math.isnan(b["low"]) and math.isnan(b["refusal"])


def test_verdict_records_give_one_line_for_all():
    verdicts = [
        Verdict(right, False, "", None, "offline", "offline", "", "judge@1")
        for right in (True, False, True)
    ]
    table = score(verdicts)
    assert len(table) == 1
    assert table.accuracy[0] == pytest.approx(2 / 3)


def test_without_rows_there_is_no_line_and_no_error():
    assert len(score([])) == 0


def test_refusal_is_not_known_without_the_field():
    assert math.isnan(score([{"correct": True}]).refusal[0])


def test_language_english_is_read_as_split():
    data = frame(
        rows(
            correct=[True] * 4,
            language=["english", "native", "en", "pt"],
            split=[None, None, None, "native"],
        )
    )
    assert list(data["split"]) == ["english", "native", "english", "native"]
    assert list(data["language"]) == ["en", "", "en", "pt"]


def test_periods_are_the_papers_and_what_came_since():
    data = frame(rows(correct=[True] * 6, year=["2014", "2017", 2018, "2022", "2025", "2031"]))
    assert list(data["period"]) == [
        "–2014",
        "2015–2017",
        "2018–2020",
        "2021–2022",
        "2023–2025",
        "2026–",
    ]


def test_clusters_are_events_else_places_else_questions():
    data = frame(
        rows(
            correct=[True] * 3,
            event_id=["e1", None, None],
            region=["Brazil", "Brazil", None],
            row=[1, 2, None],
            question=["q1", "q2", "q3"],
        )
    )
    assert list(data["cluster"]) == ["e1", "Brazil/2", "q3"]


def test_an_interval_is_wider_where_answers_come_from_fewer_events():
    correct = [True, False] * 100
    single = score(rows(correct=correct, event_id=[str(i) for i in range(200)])).iloc[0]
    tens = score(rows(correct=correct, event_id=[str(i % 20) for i in range(200)])).iloc[0]
    assert tens.events == 20
    assert (tens.high - tens.low) > 2.5 * (single.high - single.low)


def test_an_interval_has_a_width_where_all_answers_agree():
    table = score(rows(correct=[True] * 12, question=[f"q{i}" for i in range(12)]))
    assert table.high[0] == pytest.approx(1.0)
    assert 0.6 < table.low[0] < 0.8


def test_the_same_seed_gives_the_same_interval():
    data = rows(correct=[True, False, True] * 20, question=[str(i) for i in range(60)])
    pd.testing.assert_frame_equal(score(data, seed=3), score(data, seed=3))
    assert score(data, seed=3).low[0] != score(data, seed=4).low[0]


@pytest.mark.parametrize(("by", "name"), [(["regin"], "'region'"), (["region"], "no row says")])
def test_an_unknown_group_is_named(by, name):
    with pytest.raises(SettingsError, match=name):
        score([{"correct": True}], by)


@pytest.mark.parametrize("value", ["yes", 2, "true"])
def test_a_verdict_of_another_kind_is_refused(value):
    with pytest.raises(RecordError, match=r"row 2: field 'correct'"):
        score([{"correct": True}, {"correct": value}])


def test_answers_without_verdicts_are_refused():
    with pytest.raises(RecordError, match="judge the answers first"):
        score([{"question": "q"}])


def test_between_keeps_what_surely_lies_there():
    data = frame(
        rows(
            correct=[True] * 4,
            year=["2022", "2023", "2023", ""],
            month=["12", "1", "", "05"],
        )
    )
    assert list(between(data, before="2023-01").year) == ["2022"]
    assert list(between(data, after="2022-12").year) == ["2023", "2023"]
    assert len(between(data)) == 4
    with pytest.raises(SettingsError, match="is no month"):
        between(data, before="2023")


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("events", [25, 200])
def test_intervals_keep_their_level_on_clustered_answers(share, events):
    """Each event has one to five answers, whose chance of being right is the event's own."""
    random = np.random.default_rng(events)
    runs = 300
    hits = 0
    for _ in range(runs):
        sizes = random.integers(1, 6, events)
        chance = random.beta(1.5 * share, 1.5 * (1 - share), events)
        cluster = np.repeat(np.arange(events), sizes)
        right = random.random(len(cluster)) < chance[cluster]
        data = pd.DataFrame({"correct": right, "event_id": cluster})
        line = score(data, [], draws=120).iloc[0]
        hits += line.low <= share <= line.high
    assert 0.92 <= hits / runs <= 0.98  # 95 % give or take the noise of 300 runs


def test_the_given_verdicts_score_as_another_implementation_found(shared):
    data = frame(pd.read_parquet(shared / "upstream" / "judged.parquet"))
    table = score(data, ["split", "model"]).set_index(["split", "model"])
    early = score(between(data, before="2023-01"), ["split", "model"]).set_index(["split", "model"])
    text = (shared / "upstream" / "README.md").read_text()
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    figures = [[cell.strip() for cell in line] for line in lines[1:]]
    assert len(figures) == 14
    for split, model, n, accuracy, refusal, early_n, early_accuracy in figures:
        line, before = table.loc[(split, model)], early.loc[(split, model)]
        assert (line.n, before.n) == (int(n), int(early_n))
        assert 100 * line.accuracy == pytest.approx(float(accuracy), abs=0.05)
        assert 100 * line.refusal == pytest.approx(float(refusal), abs=0.05)
        assert 100 * before.accuracy == pytest.approx(float(early_accuracy), abs=0.05)
    assert table.contradictory.sum() == (data.correct * data.refusal).sum() > 0
