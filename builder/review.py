"""Review: a maintainer decides on the rows of a release, the flagged ones first.

Decisions are lines of the release's `decisions.jsonl`, each on disk before the page goes on.
"""

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from builder.audit import FACETS, cards
from builder.check import Source
from builder.records import Decision
from builder.rules import says
from tiebe.errors import RecordError
from tiebe.records import Question
from tiebe.review import Choice, Made, Review, serve

__all__ = ["DECISIONS", "kept", "read_decisions", "review"]

DECISIONS = "decisions.jsonl"
"""The name of the file."""

_EDITS = ("english.question", "english.answer", "native.question", "native.answer")
CHOICES = (
    Choice("k", "keep", "Keep"),
    Choice("f", "fix", "Fix", reason=True, edits=_EDITS),
    Choice("w", "withdraw", "Withdraw", reason=True),
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


def kept(decisions: Iterable[Decision]) -> set[str]:
    """Returns the ids of the questions that were looked at and are to stay as they are."""
    last = {decision.id: decision.decision for decision in decisions}
    return {member for member, decision in last.items() if decision == "keep"}


def review(
    folder: Path, rows: Sequence[Question], articles: Mapping[str, Source], *, port: int = 0
) -> AbstractContextManager[str]:
    """Serves the review page on 127.0.0.1 while the block runs; yields its address.

    Args:
        folder: The release, whose `decisions.jsonl` is read and appended to.
        rows: Of the release, with their flags.
        articles: By id.
        port: Any free one by default.

    Raises:
        RecordError: A line of `decisions.jsonl` is no decision.
    """
    shown = cards(rows, articles)
    flags = {flag for card in shown for flag in card.flags}
    by_split = {(row.id, row.split): row for row in rows}
    before = {made.id: made for made in _made(read_decisions(folder))}
    page = Review(
        f"Review of {folder.name}",
        shown,
        FACETS,
        {flag: says(flag) for flag in sorted(flags)},
        choices=CHOICES,
        decisions=before,
    )

    def decided(made: Made) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        _append(folder / DECISIONS, _decisions(made, by_split, at))

    return serve(page, decided, port=port)


def _decisions(made: Made, rows: Mapping[tuple[str, str], Question], at: str) -> list[Decision]:
    """The lines for what was decided on the page: a fix has one for each row that it changes.

    Raises:
        ValueError: A fix that changes nothing.
    """
    reason = " ".join(made.reason.split())
    line = {"id": made.id, "decision": made.choice, "reason": reason, "at": at}
    if made.choice != "fix":
        return [msgspec.convert(line, Decision)]
    changed = [
        row
        for split in ("english", "native")
        if (row := rows.get((made.id, split))) and any(f.startswith(split) for f in made.fields)
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


def _made(decisions: Iterable[Decision]) -> list[Made]:
    """What the page shows of decisions made before."""
    shown: dict[str, Made] = {}
    for decision in decisions:
        fields: dict[str, str] = {}
        if decision.decision == "fix":
            split = "english" if decision.language == "en" else "native"
            earlier = shown.get(decision.id)
            if earlier and earlier.choice == "fix":
                fields |= earlier.fields
            fields |= {f"{split}.question": decision.question, f"{split}.answer": decision.answer}
        shown[decision.id] = Made(decision.id, decision.decision, decision.reason, fields)
    return list(shown.values())


def _append(path: Path, decisions: Iterable[Decision]) -> None:
    """Appends lines that are on disk when this returns."""
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(decision) + b"\n" for decision in decisions)
        file.flush()
        os.fsync(file.fileno())
