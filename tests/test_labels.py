import csv
import json
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tiebe.cli import main
from tiebe.errors import RecordError
from tiebe.keyboard import Decision
from tiebe.labels import COLUMNS, draw, label_page, read_csv

ROWS = [
    {
        "id": f"q{n}",
        "language": "en",
        "model": model,
        "question": f"Who won race {n}?",
        "answer": "Ann" if n % 2 else ["Ann", "Anna"],
        "model_answer": f"{model} says Ann, or\nBea",
        "correct": True,
    }
    for n in range(60)
    for model in ("m1", "m2", "m3")
]


def test_a_draw_has_one_answer_a_question_and_is_the_same_for_any_order() -> None:
    drawn = draw(ROWS, 30)
    assert len({row["id"] for row in drawn}) == 30
    assert draw(reversed(ROWS), 30) == drawn and draw(ROWS, 30, seed=1) != drawn
    assert draw(ROWS, 10) == drawn[:10] and len(draw(ROWS, 999)) == 60
    models = Counter(row["model"] for row in draw(ROWS, 60))
    assert min(models.values()) >= 10


def test_labels_are_kept_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    drawn = draw(ROWS, 4)
    page = label_page(drawn, path)
    assert [dict(card.fields)["Question"] for card in page.cards] == [r["question"] for r in drawn]
    assert not any("m1" in text for card in page.cards for _, text in card.fields[:2])
    for card, choice in zip(page.cards, ("correct", "incorrect", "refusal", "unsure"), strict=True):
        page.keep(card.id, Decision(choice, 'é, "quoted"\nand more'))
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == COLUMNS
    assert [(line["correct"], line["refusal"]) for line in lines] == [
        ("true", "false"),
        ("false", "false"),
        ("false", "true"),
        ("", ""),
    ]
    again = label_page(drawn, path)
    assert [again.decided[card.id].choice for card in again.cards] == [
        "correct",
        "incorrect",
        "refusal",
        "unsure",
    ]
    again.keep(again.cards[0].id, Decision("incorrect"))
    assert [line["correct"] for line in read_csv(path)] == ["false", "false", "false", ""]


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("id,question,age\nx,y,3\n")
    with pytest.raises(RecordError, match=r"it lacks the columns event_id, region, .*, note$"):
        label_page(draw(ROWS, 2), path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="no CSV file"):
        label_page(draw(ROWS, 2), path)


def test_a_person_judges_a_file_of_another_benchmark_by_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(url: str, body: object) -> None:
        urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10).close()

    def person(address: str) -> int:
        with urllib.request.urlopen(address + "cards", timeout=10) as reply:
            cards = json.load(reply)["cards"]
        for card in cards:
            post(address + "decide", {"id": card["id"], "choice": "correct"})
        post(address + "end", {})
        return 0

    monkeypatch.setattr("click.launch", person)
    path, out = tmp_path / "rows.jsonl", tmp_path / "labels.csv"
    rows = [{"gold" if k == "answer" else k: v for k, v in row.items()} for row in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["judge", str(path), "--annotate", "20", "--column", "answer=gold"]
    result = CliRunner().invoke(main, [*command, "--out", str(out)])
    assert result.exit_code == 0, result.output
    lines = read_csv(out)
    assert len({line["id"] for line in lines}) == 20 and {r["correct"] for r in lines} == {"true"}
    assert {line["answer"] for line in lines} == {"Ann", "Ann\nAnna"}
    result = CliRunner().invoke(main, command[:-2])
    assert result.exit_code == 1 and "rows.jsonl:1: answer: there is no such field" in result.stderr
