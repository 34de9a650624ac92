"""Review: a maintainer decides on the rows of a release, the most flagged first.

Decisions are lines of the release's `decisions.jsonl`, each on disk before the page goes on.
"""

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from builder.audit import cards, page, told
from builder.check import Source
from builder.records import Decision
from tiebe import keyboard
from tiebe.errors import RecordError
from tiebe.keyboard import Choice
from tiebe.records import Question

__all__ = ["CHOICES", "DECISIONS", "kept", "read_decisions", "review", "write_decisions"]

DECISIONS = "decisions.jsonl"
"""The name of the file."""

CHOICES = (
    Choice("k", "keep", "Keep"),
    Choice(
        "f",
        "fix",
        "Fix",
        note=True,
        edits=("english.question", "english.answer", "native.question", "native.answer"),
    ),
    Choice("w", "withdraw", "Withdraw", note=True),
)


def read_decisions(folder: Path) -> list[Decision]:
    """Returns the decisions of a release in the order in which they were made.

    Raises:
        RecordError: A line is no decision; the message begins `file:line`.
    """
    path = folder / DECISIONS
    decisions = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else (), 1):
        try:
            decisions.append(msgspec.json.decode(line, type=Decision))
        except msgspec.MsgspecError as error:
            raise RecordError(f"{path}:{number}: not a decision: {error}") from error
    return decisions


def write_decisions(path: Path, decisions: Iterable[Decision]) -> None:
    """Writes a file of decisions; one that stands there is replaced when it is complete."""
    part = path.with_suffix(".part")
    part.write_bytes(b"".join(msgspec.json.encode(decision) + b"\n" for decision in decisions))
    part.replace(path)


def kept(decisions: Iterable[Decision]) -> set[str]:
    """Returns the ids of the questions that were looked at and are to stay as they are."""
    last = {decision.id: decision.decision for decision in decisions}
    return {member for member, decision in last.items() if decision == "keep"}


def review(folder: Path, rows: Sequence[Question], articles: Mapping[str, Source]) -> keyboard.Page:
    """Returns the page to be served; what is decided on it is appended to `decisions.jsonl`.

    Args:
        folder: The release.
        rows: Of the release, with their flags.
        articles: By id.

    Raises:
        RecordError: A line of `decisions.jsonl` is no decision.
    """
    shown = cards(rows, articles)
    by_split = {(row.id, row.split): row for row in rows}
    title = f"Review of release {rows[0].version if rows else folder.name}"

    def keep(member: str, made: keyboard.Decision) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        _append(folder / DECISIONS, _decisions(member, made, by_split, at))

    return keyboard.Page(
        title,
        shown,
        CHOICES,
        keep,
        _decided(read_decisions(folder)),
        html=page(title),
        more=told(shown),
    )


def _decisions(
    member: str, made: keyboard.Decision, rows: Mapping[tuple[str, str], Question], at: str
) -> list[Decision]:
    """The lines for what was decided on the page: a fix has one for each row that it changes.

    Raises:
        ValueError: A fix that changes nothing.
    """
    reason = " ".join(made.note.split())
    line = {"id": member, "decision": made.choice, "reason": reason, "at": at}
    line["event_id"] = next(row.event_id for (name, _), row in rows.items() if name == member)
    if made.choice != "fix":
        return [msgspec.convert(line, Decision)]
    changed = [
        row
        for split in ("english", "native")
        if (row := rows.get((member, split)))
        and any(name.startswith(split) for name in made.fields)
    ]
    if not changed:
        raise ValueError("nothing was changed: keep the row, or withdraw it")
    return [
        msgspec.convert(
            line
            | {
                "language": row.language,
                "question": made.fields.get(f"{row.split}.question", row.question).strip(),
                "answer": made.fields.get(f"{row.split}.answer", row.answer).strip(),
            },
            Decision,
        )
        for row in changed
    ]


def _decided(decisions: Iterable[Decision]) -> dict[str, keyboard.Decision]:
    """What the page shows of decisions made before."""
    shown: dict[str, keyboard.Decision] = {}
    for decision in decisions:
        fields: dict[str, str] = {}
        if decision.decision == "fix":
            split = "english" if decision.language == "en" else "native"
            earlier = shown.get(decision.id)
            if earlier and earlier.choice == "fix":
                fields |= earlier.fields
            fields |= {f"{split}.question": decision.question, f"{split}.answer": decision.answer}
        shown[decision.id] = keyboard.Decision(decision.decision, decision.reason, fields)
    return shown


def _append(path: Path, decisions: Iterable[Decision]) -> None:
    """Appends lines that are on disk when this returns."""
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(decision) + b"\n" for decision in decisions)
        file.flush()
        os.fsync(file.fileno())
