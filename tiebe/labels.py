"""People's verdicts: which answers they judge, the page on which they do, the file they make."""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tiebe.errors import RecordError
from tiebe.keyboard import Card, Choice, Decision, Page
from tiebe.records import canonical, csv_lines, record_id, text_of

__all__ = ["COLUMNS", "draw", "label_page", "read_csv"]

COLUMNS = (
    *("id", "event_id", "region", "language", "split", "year", "month", "model"),
    *("question", "answer", "model_answer", "correct", "refusal", "note"),
)
"""Of the file that a person's labels are in; `correct` is true, false, or empty (cannot tell)."""

_YES = ("true", "yes", "1")

CHOICES = (
    Choice("y", "correct", "correct"),
    Choice("n", "incorrect", "incorrect"),
    Choice("r", "refusal", "refuses to answer"),
    Choice("u", "unsure", "cannot tell"),
)


def draw(rows: Iterable[Mapping[str, Any]], n: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Returns `n` questions at random, each with the answer of one model at random (§3.4).

    The same rows and seed give the same draw, in whatever order the rows come.

    Args:
        rows: Answers, of one or more models: `question`, `answer` and `model_answer` in each.
        n: How many; all questions when there are not more.
        seed: Another one gives another draw.
    """

    def chance(*key: Any) -> str:
        return hashlib.sha256(canonical([seed, *key])).hexdigest()

    drawn: dict[str, dict[str, Any]] = {}
    for row in rows:
        question = _question(row)
        held = drawn.get(question)
        if held is None or chance(question, _answer(row)) < chance(question, _answer(held)):
            drawn[question] = dict(row)
    return [drawn[question] for question in sorted(drawn, key=chance)[:n]]


def _question(row: Mapping[str, Any]) -> str:
    return record_id(text_of(row, "id"), text_of(row, "language"), row["question"])


def _answer(row: Mapping[str, Any]) -> str:
    return record_id(text_of(row, "model"), row["model_answer"])


def _card(row: Mapping[str, Any]) -> Card:
    expected = row["answer"] if isinstance(row["answer"], str) else "\n".join(row["answer"])
    key = record_id(_question(row), _answer(row))
    texts = (row["question"], expected, row["model_answer"] or "(nothing)")
    return Card(key, tuple(zip(("Question", "Expected answer", "Answer"), texts, strict=True)))


def label_page(rows: Iterable[Mapping[str, Any]], path: Path) -> Page:
    """Returns the page on which a person labels answers; neither model nor judge is named there.

    Every decision is in the file at once; what it holds already is decided already.

    Args:
        rows: The answers, see `draw`.
        path: A CSV file with `COLUMNS`, made when it is not there.

    Raises:
        RecordError: The file is there and is no such file.
    """
    given = list(rows)
    cards = {(card := _card(row)).id: (card, row) for row in given}
    lines = {_card(line).id: line for line in read_csv(path)} if path.exists() else {}
    known = {key: _decision(line) for key, line in lines.items()}

    def keep(key: str, decision: Decision) -> None:
        card, row = cards[key]
        line = {name: text_of(row, name) for name in COLUMNS}
        sure = decision.choice != "unsure"
        lines[key] = line | {
            "answer": dict(card.fields)["Expected answer"],
            "correct": str(decision.choice == "correct").lower() if sure else "",
            "refusal": str(decision.choice == "refusal").lower() if sure else "",
            "note": decision.note,
        }
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines.values())
        new = path.with_name(path.name + ".new")
        new.write_bytes(out.getvalue().encode("utf-8", "replace"))
        new.replace(path)

    shown = [card for card, _ in cards.values()]
    return Page("Is the answer correct?", shown, CHOICES, keep, known)


def _decision(line: Mapping[str, str]) -> Decision:
    correct, refusal = (line[name].strip().casefold() for name in ("correct", "refusal"))
    if not correct:
        return Decision("unsure", line["note"])
    if correct in _YES:
        return Decision("correct", line["note"])
    return Decision("refusal" if refusal in _YES else "incorrect", line["note"])


def read_csv(path: Path) -> list[dict[str, str]]:
    """Returns the lines of a file of labels.

    Raises:
        RecordError: It cannot be read, or lacks a column.
    """
    lines = [line for _, line in csv_lines(path)]
    if missing := [name for name in COLUMNS if name not in lines[0]]:
        raise RecordError(f"{path}: no file of labels: it lacks the columns {', '.join(missing)}")
    return lines
