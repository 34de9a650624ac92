import math

import numpy as np
import pandas as pd
import pytest

from tiebe.errors import RecordError, SettingsError
from tiebe.records import Verdict
from tiebe.scores import (
    Bootstrap,
    between,
    correlations,
    coverage,
    cutoffs,
    differences,
    english_native,
    frame,
    gaps,
    question_type,
    score,
    texts,
    truncated,
)


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
    one, other = Bootstrap(seed=3), Bootstrap(seed=4)
    pd.testing.assert_frame_equal(score(data, bootstrap=one), score(data, bootstrap=one))
    assert score(data, bootstrap=one).low[0] != score(data, bootstrap=other).low[0]


@pytest.mark.parametrize(("by", "name"), [(["regin"], "'region'"), (["region"], "no row says")])
def test_an_unknown_group_is_named(by, name):
    with pytest.raises(SettingsError, match=name):
        score([{"correct": True}], by)


def test_what_cannot_be_compared_cannot_be_grouped_by():
    with pytest.raises(SettingsError, match="cannot group by usage"):
        score([{"correct": True, "usage": {"total": 1}}], ["usage"])


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


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("models", "events"), [(2000, 30), (2000, 100)])
def test_intervals_keep_their_level_on_clustered_answers(share, models, events):
    """An event has one to five answers, which share a chance of being right."""
    random = np.random.default_rng(events)
    size = random.integers(1, 6, models * events)
    chance = random.beta(1.5 * share, 1.5 * (1 - share), models * events)
    cluster = np.repeat(np.arange(models * events), size)
    data = pd.DataFrame(
        {
            "correct": random.random(len(cluster)) < chance[cluster],
            "event_id": cluster,
            "model": cluster // events,
        }
    )
    table = score(data, ["model"], bootstrap=Bootstrap(draws=200))
    covered = ((table.low <= share) & (share <= table.high)).mean()
    assert len(table) == models
    assert 0.93 <= covered <= 0.97


def test_intervals_of_differences_keep_their_level():
    random = np.random.default_rng(5)
    groups, events = 1500, 40
    chance = random.beta(1.0, 1.0, groups * events)
    cluster = np.repeat(np.arange(groups * events), random.integers(1, 4, groups * events))
    parts = []
    for model, worse in (("a", 1.0), ("b", 0.8)):
        right = random.random(len(cluster)) < chance[cluster] * worse
        parts.append(
            pd.DataFrame(
                {
                    "model": model,
                    "id": np.arange(len(cluster)),
                    "event_id": cluster,
                    "group": cluster // events,
                    "correct": right,
                }
            )
        )
    table = differences(pd.concat(parts), ["group"], bootstrap=Bootstrap(draws=100))
    assert 0.93 <= ((table.low <= -0.1) & (table.high >= -0.1)).mean() <= 0.97


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


def test_the_given_verdicts_count_the_questions_of_table_1(shared):
    data = frame(pd.read_parquet(shared / "upstream" / "judged.parquet"))
    table = coverage(data).set_index("region")
    lines = [
        line.replace("$", "").split("\t")
        for line in (shared / "paper.txt").read_text().splitlines()
        if line.count("\t$") == 5
    ]
    names = {"DR Congo": "the_Democratic_Republic_of_the_Congo"}
    checked = 0
    for name, language, *figures in lines:
        slug = names.get(name, name.replace(" ", "_"))
        if slug not in table.index or language.isdigit():  # Table 5 has lines of this form too
            continue
        checked += 1
        line = table.loc[slug]
        assert line.language == language
        assert [int(x) for x in figures] == [
            line[c] for c in ("2015–2017", "2018–2020", "2021–2022", "2023–2025", "questions")
        ]
    assert checked == len(table) == 13
    by_score = score(data, ["region", "period"], bootstrap=Bootstrap(draws=1))
    assert by_score.questions.sum() == table.questions.sum() == 5319


def test_the_given_verdicts_correlate_as_another_implementation_found(shared):
    data = between(frame(pd.read_parquet(shared / "upstream" / "judged.parquet")), before="2023-01")
    table = correlations(data).set_index(["split", "indicator", "method"])
    expected = {
        "english": (13, {"gdp": (0.780, 0.636), "hdi": (0.720, 0.620), "mys": (0.604, 0.453)}),
        "native": (11, {"gdp": (0.827, 0.862), "hdi": (0.664, 0.863), "mys": (0.700, 0.827)}),
    }
    expected["english"][1]["population"] = (0.082, 0.186)
    expected["native"][1]["population"] = (0.200, 0.345)
    for split, (n, indicators) in expected.items():
        for indicator, (spearman, pearson) in indicators.items():
            assert table.loc[(split, indicator, "spearman"), "n"] == n
            assert table.loc[(split, indicator, "spearman"), "value"] == pytest.approx(
                spearman, abs=0.005
            )
            assert table.loc[(split, indicator, "pearson"), "value"] == pytest.approx(
                pearson, abs=0.005
            )


def test_the_cutoffs_of_the_given_verdicts(shared):
    data = frame(pd.read_parquet(shared / "upstream" / "judged.parquet"))
    table = cutoffs(data[data.split == "english"]).set_index("model")
    for model, month, slack in (
        ("gpt-4.1", "2024-07", 1),
        ("mistral-large-latest", "2023-09", 2),
        ("gpt-4.1-mini", "2023-08", 3),
        ("Llama-4-Maverick-17B-128E-Instruct-FP8", "2024-02", 2),
    ):
        found, low, high = (pd.Period(table.loc[model, c], "M") for c in ("month", "low", "high"))
        assert abs((found - pd.Period(month, "M")).n) <= slack
        assert low <= found <= high
    assert table.loc["gpt-4.1", "stated"] == "2024-07"


def test_a_macro_average_counts_regions_the_same():
    data = rows(
        correct=[True] * 9 + [False],
        refusal=[False] * 9 + [True],
        region=["Brazil"] * 9 + ["France"],
        question=[str(i) for i in range(10)],
    )
    assert score(data).accuracy[0] == pytest.approx(0.9)
    macro = score(data, average="macro").iloc[0]
    assert (macro.average, macro.n, macro.accuracy, macro.refusal) == ("macro", 10, 0.5, 0.5)
    assert macro.low < 0.5 < macro.high


def test_rows_are_grouped_by_what_follows_from_them():
    data = frame(
        rows(
            correct=[True] * 5,
            model=["gpt-4o", "gpt-4o", "qwen2-72b", "own", "gpt-4o"],
            region=["Brasil", "Brazil", "the Democratic Republic of the Congo", "Narnia", "World"],
            split=["english", "native", "native", "english", "english"],
            year=["2023", "2023", "2023", "2023", "2023"],
            month=["10", "11", None, "1", None],
            id=["a", "a", "b", "c", "d"],
            question=["In which year?", "Em que ano?", "Quoi ?", "", "Name it."],
        )
    )
    assert list(data.region) == [
        "Brazil",
        "Brazil",
        "the_Democratic_Republic_of_the_Congo",
        "Narnia",
        "World",
    ]
    assert list(data.macro_region) == ["South America", "South America", "Africa", "", "World"]
    assert list(data.language) == ["en", "pt", "fr", "en", "en"]
    assert list(data.cutoff) == ["before", "after", "before", "", ""]
    assert list(data.question_type) == ["which", "which", "", "other", "other"]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("In which year did it open?", "which"),
        ("How many people came?", "how many"),
        ("How  Many came?", "how many"),
        ("How long did it take?", "how"),
        ("To whom was it given?", "who"),
        ("After the vote in 2019, what did the mayor, who lost, do?", "what"),
        ("Name the winner.", "other"),
        ("", "other"),
        ("Whatever happened?", "other"),
    ],
)
def test_a_question_is_of_the_type_of_its_first_interrogative(question, kind):
    assert question_type(question) == kind


@pytest.mark.parametrize(
    ("answer", "finish", "cut"),
    [
        ("x " * 150, "", True),
        ("x " * 150 + ".", "", False),
        ("字" * 300 + "。", "", False),
        ("short", "", False),
        ("short", "length", True),
        ("x " * 150, "stop", False),
        ("", "", False),
    ],
)
def test_cut_off_answers(answer, finish, cut):
    assert truncated(answer, finish) is cut


def test_models_are_compared_on_the_questions_both_answered():
    data = rows(
        model=["a", "a", "a", "a", "b", "b", "b", "b"],
        id=["1", "2", "3", "4", "1", "2", "3", "5"],
        correct=[True, False, False, True, True, True, None, True],
    )
    line = differences(data).iloc[0]
    assert (line["first"], line.second, line.n, line.gained, line.lost) == ("a", "b", 2, 1, 0)
    assert (line.first_accuracy, line.second_accuracy, line.difference) == (0.5, 1.0, 0.5)
    assert line.low < 0 < line.high and line.p > 0.1
    assert len(differences(data[:4])) == 0


def test_two_models_that_always_agree_differ_by_nothing_or_little():
    data = rows(
        model=["a"] * 12 + ["b"] * 12,
        id=[str(i) for i in range(12)] * 2,
        correct=[True] * 24,
    )
    line = differences(data).iloc[0]
    assert line.difference == 0 and line.p == 1.0
    assert -0.4 < line.low < 0 < line.high < 0.4


def test_gaps_to_the_reference():
    data = rows(
        region=["USA"] * 10 + ["Brazil"] * 10 + ["World"] * 10 + ["France"] * 10,
        correct=[True] * 9
        + [False]
        + [True] * 5
        + [False] * 5
        + [False] * 10
        + [True] * 8
        + [False] * 2,
        id=[str(i) for i in range(40)],
    )
    table = gaps(data)
    assert list(table.region) == ["Brazil", "France", "the_United_States"]
    assert list(table.gap) == pytest.approx([0.4, 0.1, 0.0])
    assert (table.reference == "the_United_States").all()
    brazil = table.iloc[0]
    assert brazil.low < 0.4 < brazil.high
    assert list(gaps(data, reference="FR").gap) == pytest.approx([0.3, 0.0, -0.1])
    with pytest.raises(SettingsError, match="reference region 'Peru'"):
        gaps(data, reference="Peru")


def test_gaps_without_the_usual_reference_are_to_the_best_of_the_large_regions():
    data = rows(
        region=["Brazil"] * 40 + ["France"] * 40 + ["Nigeria"] * 2,
        correct=[True] * 20 + [False] * 20 + [True] * 30 + [False] * 10 + [True] * 2,
        id=[str(i) for i in range(82)],
    )
    assert set(gaps(data).reference) == {"France"}


def test_english_minus_native_is_split_into_refusals_and_wrong_answers():
    data = rows(
        model=["m"] * 9,
        region=["Brazil"] * 9,
        id=["1", "2", "3", "4", "1", "2", "3", "4", "9"],
        split=["english"] * 4 + ["native"] * 4 + ["native"],
        correct=[True, True, True, False, False, False, True, True, True],
        refusal=[False, False, False, True, True, False, True, False, False],
        model_answer=["a."] * 7 + ["x" * 300] + ["b."],
    )
    line = english_native(data).iloc[0]
    assert (line.n, line.english, line.native) == (4, 0.75, 0.5)
    assert line.difference == pytest.approx(0.25)
    assert line.by_refusal == pytest.approx(0.0)  # one more, one less; correct refusals are right
    assert line.by_wrong == pytest.approx(0.25)
    assert line.cut == 1
    assert line.control == pytest.approx(2 / 3)


def test_correlation_needs_four_countries():
    data = rows(
        region=["Brazil", "France", "Nigeria"],
        split=["english"] * 3,
        correct=[True, False, True],
        model=["m"] * 3,
    )
    table = correlations(data)
    assert len(table) == 8
    assert table.value.isna().all() and (table.n == 3).all()


def test_a_break_is_found_where_it_is_and_not_where_there_is_none():
    random = np.random.default_rng(1)
    month = np.repeat(np.arange(60), 20)
    for broken in (True, False):
        chance = np.where(broken & (month >= 33), 0.2, 0.6)
        data = pd.DataFrame(
            {
                "model": "own",
                "id": np.arange(len(month)),
                "correct": random.random(len(month)) < chance,
                "year": 2018 + month // 12,
                "month": month % 12 + 1,
            }
        )
        line = cutoffs(data, bootstrap=Bootstrap(draws=200)).iloc[0]
        if broken:
            assert line.month == "2020-10"
            assert line.low <= "2020-10" <= line.high
            assert line.before == pytest.approx(0.6, abs=0.05)
            assert line.after == pytest.approx(0.2, abs=0.05)
        else:
            assert line.month == ""
            assert line.note


def test_few_answers_tell_no_cutoff():
    line = cutoffs(rows(model=["m"], correct=[True], year=["2020"], month=["01"])).iloc[0]
    assert line.month == "" and "fewer than 60" in line.note


def test_coverage_counts_each_question_once():
    data = rows(
        region=["Brazil"] * 4 + ["Narnia"],
        split=["english", "english", "native", "native", "english"],
        id=["1", "1", "1", "2", "3"],
        year=["2016", "2016", "2016", "2027", "1999"],
        correct=[True] * 5,
    )
    table = coverage(data)
    assert list(table.columns) == [
        "region",
        "language",
        "–2014",
        "2015–2017",
        "2026–",
        "english",
        "native",
        "questions",
    ]
    assert table.to_dict("records")[0] == {
        "region": "Brazil",
        "language": "Portuguese",
        "–2014": 0,
        "2015–2017": 2,
        "2026–": 1,
        "english": 1,
        "native": 2,
        "questions": 3,
    }


def test_what_no_page_can_show_is_replaced_and_white_space_stays():
    given = ["nul \x00 and \x1b[31m", "\x85\x7f", "a\tb\r\nc\x0cd", "\ud800", ["x\x00", "y"]]
    shown = ["nul \ufffd and \ufffd[31m", "\ufffd\ufffd", "a\tb\r\nc\x0cd", "?", "x\ufffd / y"]
    assert list(texts(pd.DataFrame({"t": given}), "t")) == shown
