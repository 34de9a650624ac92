"""The agreement of two judges, beside what other ways of computing it give."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import binomtest

from tiebe.cli import main
from tiebe.errors import RecordError, SettingsError
from tiebe.keyboard import Decision
from tiebe.labels import draw, label_page
from tiebe.reports.tables import plain
from tiebe.scores import Bootstrap, agreement, judge_notes

RANDOM = np.random.default_rng(3)


def rows(n: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{i}",
            "event_id": f"e{i // 2}",
            "language": "en" if i % 3 else "pt",
            "split": "english" if i % 3 else "native",
            "model": "m",
            "question": f"Who {i}?",
            "answer": "x",
            "model_answer": "x",
            "correct": bool(i % 2),
            "refusal": i % 10 == 0,
            "judge": "j",
            **more,
        }
        for i in range(n)
    ]


def flipped(given: list[dict[str, Any]], to: bool, which: range) -> list[dict[str, Any]]:
    return [row | ({"correct": to} if i in which else {}) for i, row in enumerate(given)]


def test_two_equal_judges_agree() -> None:
    (line,) = agreement(rows(100), rows(100)).to_dict("records")
    assert (line["divergence"], line["kappa"], line["p"], line["direction"]) == (0, 1, 1, "")
    assert line["low"] == 0 and 0 < line["high"] < 0.1
    assert (line["f1_correct"], line["f1_incorrect"], line["f1_refusal"]) == (1, 1, 1)


def test_a_stricter_judge_is_told() -> None:
    """Of 200 answers, 100 right for people; the judge denies 15 of them and grants 3 others."""
    judge = flipped(flipped(rows(200), False, range(1, 30, 2)), True, range(100, 106, 2))
    (line,) = agreement(judge, rows(200)).to_dict("records")
    assert (line["stricter"], line["laxer"], line["divergence"]) == (15, 3, 0.09)
    assert (line["human"], line["verdict"], line["direction"]) == (0.5, 0.44, "stricter")
    assert line["p"] == pytest.approx(binomtest(3, 18).pvalue)
    assert line["difference"] == pytest.approx(-0.06)
    assert line["difference_low"] < -0.06 < line["difference_high"] < 0
    chance = 0.5 * 0.44 + 0.5 * 0.56
    assert line["kappa"] == pytest.approx((0.91 - chance) / (1 - chance))
    assert line["kappa_low"] < line["kappa"] < line["kappa_high"] < 1
    assert line["f1_correct"] == pytest.approx(2 * 85 / (100 + 88))
    assert line["low"] < 0.09 < line["high"]
    (other,) = agreement(rows(200), judge).to_dict("records")
    assert other["direction"] == "laxer" and other["difference"] == pytest.approx(0.06)


def test_intervals_cover_what_they_promise() -> None:
    """Kappa of drawn judges: in most draws the interval holds the true one (0.6)."""
    inside = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        truth = random.random(200) < 0.5
        said = np.where(random.random(200) < 0.2, ~truth, truth)
        first = [row | {"correct": bool(t)} for row, t in zip(rows(200), truth, strict=True)]
        second = [row | {"correct": bool(t)} for row, t in zip(rows(200), said, strict=True)]
        line = agreement(second, first, bootstrap=Bootstrap(draws=200)).iloc[0]
        inside += line["kappa_low"] <= 0.6 <= line["kappa_high"]
    assert inside >= 50


def test_groups_are_compared_for_themselves() -> None:
    judge = flipped(rows(60), True, range(0, 60, 6))  # every one of these is native
    table = agreement(judge, rows(60), by=["language"]).set_index("language")
    assert table["n"].to_dict() == {"en": 40, "pt": 20}
    assert table["laxer"].to_dict() == {"en": 0, "pt": 10}
    with pytest.raises(SettingsError, match="no column 'langage' to group by; did you mean"):
        agreement(judge, rows(60), by=["langage"])


def test_unscored_answers_are_left_out_and_refusals_may_be_untold() -> None:
    labels = [{k: v for k, v in row.items() if k != "refusal"} for row in rows(20)]
    line = agreement(flipped(rows(20), None, range(5)), labels).iloc[0]  # type: ignore[arg-type]
    assert line["n"] == 15 and np.isnan(line["f1_refusal"]) and line["f1_correct"] == 1
    assert len(agreement(rows(3), [row | {"id": "other"} for row in rows(3)])) == 0


def test_a_persons_labels_are_compared_by_the_verb(tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    verdicts.write_text("".join(json.dumps(row) + "\n" for row in rows(40)))
    page = label_page(draw(rows(40), 30), tmp_path / "labels.csv")
    for card in page.cards:
        page.keep(card.id, Decision("correct"))
    command = ["agreement", str(verdicts), "--with", str(tmp_path / "labels.csv"), "--json"]
    result = CliRunner().invoke(main, command)
    (line,) = json.loads(result.stdout)
    assert line["n"] == 30 and line["human"] == 1.0 and line["direction"] == "stricter"
    result = CliRunner().invoke(main, ["agreement", str(verdicts), "--with", str(verdicts)])
    assert result.exit_code == 0 and "100.0%" in result.stdout and "1.000" in result.stdout


def test_who_judged_is_told_where_it_matters() -> None:
    assert judge_notes(rows(4)) == []
    paper = rows(4, judge="j, refusal by the offline rule")
    assert judge_notes(rows(4) + paper) == []
    (mixed,) = judge_notes(rows(4) + rows(4, judge="k"))
    assert "2 judges (j; k)" in mixed
    (offline,) = judge_notes(rows(3) + rows(1, decided_by="offline"))
    assert offline.startswith("25% of the verdicts are of the offline judge")


def test_what_labels_cannot_fit_is_told_with_its_remedy(tmp_path: Path) -> None:
    labels = [{"id": "q1", "correct": True}]
    two = [*rows(4), *rows(4, model="n")]
    with pytest.raises(RecordError, match="'q1' fits 2 answers: name the model in the labels"):
        agreement(two, labels)
    same = [{"question": "Who?", "model_answer": text, "correct": True} for text in "ab"]
    with pytest.raises(RecordError, match="fits 2 answers: give each row an id of its own"):
        agreement(same, same)
    (one,), other = rows(1), rows(2)[1]
    paths = [tmp_path / f"{name}.jsonl" for name in ("one", "other", "labels")]
    for path, row in zip(paths, (one, other, one), strict=True):
        path.write_text(json.dumps(row) + "\n")
    command = ["agreement", *map(str, paths[:2]), "--with", str(paths[2])]
    told = CliRunner().invoke(main, command)
    assert told.exit_code == 0 and f"{paths[1]}: none of its answers is judged" in told.stderr
    assert str(paths[0]) not in told.stderr


def test_no_bound_is_less_than_nothing_by_its_sign_alone() -> None:
    shown = plain(pd.DataFrame({"difference_low": [-0.0, -0.0004, -0.001], "p": [-0.0, 0.1, 1.0]}))
    assert shown.split() == [
        "difference_low",
        "p",
        "0.0%",
        "0.000",
        "0.0%",
        "0.100",
        "-0.1%",
        "1.000",
    ]
