"""Records: what stages read and write, and the columns of the published data.

Every record is frozen and has an `id`, the first 16 hex digits of the sha256 of its natural key,
and the ids of its parents, so that a verdict leads back to the question, the article and the page.
"""

import codecs
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from tiebe.errors import RecordError

__all__ = [
    "COLUMNS",
    "VERDICTS",
    "Answer",
    "Drop",
    "Group",
    "Question",
    "Verdict",
    "canonical",
    "dicts",
    "event_id",
    "from_row",
    "read_rows",
    "record_id",
    "to_row",
]

T = TypeVar("T")

VERDICTS = "verdicts.jsonl"
"""The file in a run folder with the last evaluation of each model; its journals keep all."""

_PUNCTUATION = re.compile(r"[^\w]+")


def canonical(value: Any) -> bytes:
    """Returns the one JSON form of a value: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def record_id(*key: str | int | None) -> str:
    """Returns the first 16 hex digits of the sha256 of a natural key."""
    return hashlib.sha256(canonical(key)).hexdigest()[:16]


def event_id(region: str, start: str | None, text: str) -> str:
    """Returns the id of an event: of its region, start and casefolded text without punctuation."""
    return record_id(region, start, _PUNCTUATION.sub(" ", text.casefold()).strip())


@dataclass(frozen=True, slots=True)
class Drop:
    """What a stage leaves out, and why; never silence."""

    stage: str
    record_id: str
    reason: str
    """A short code in snake_case, counted in the manifest."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The records that a gather stage sees at once: an event's candidates, a region's rows."""

    name: str
    members: tuple[Any, ...]

    @property
    def id(self) -> str:
        """The name: what the members have in common."""
        return self.name


@dataclass(frozen=True, slots=True)
class Question:
    """A published row: a question on an event, in English or in the region's native language."""

    id: str
    """The id of the English row; (id, language) is unique."""
    event_id: str
    article_id: str | None
    region: str
    """A slug of `tiebe.regions.REGIONS`."""
    language: str
    """An ISO 639 code."""
    year: str
    month: str
    """Two digits."""
    date: str
    """`YYYY-MM-DD`, or `YYYY-MM` where only the month is known."""
    end_date: str | None
    event_desc: str
    question: str
    answer: str
    source_url: str
    archive_url: str | None
    source_title: str
    page_title: str
    page_revision: int | None
    writer: str
    """The model that wrote the question (translated it, in a native row), as served."""
    prompt: str
    """`name@version` of the prompt that asked for it."""
    flags: tuple[str, ...] = ()
    mini: bool = False
    version: str = ""
    since: str = ""
    replaces: str | None = None

    @property
    def split(self) -> str:
        """`english` or `native`."""
        return "english" if self.language == "en" else "native"


COLUMNS: tuple[str, ...] = tuple(Question.__dataclass_fields__)
"""The published columns, in order."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered to a question."""

    question_id: str
    event_id: str
    region: str
    language: str
    split: str
    year: str
    month: str
    question: str
    answer: str
    """The expected answer."""
    model: str
    model_answer: str
    """The answer without its `Answer:` label; the reply is in `raw`."""
    raw: str
    served_model: str
    prompt: str
    """`name@version`."""
    prompt_sha: str
    finish: str = "stop"
    """Why the model stopped: `stop`, `length` (truncated), `content_filter`."""
    answer_language: str | None = None
    """ISO 639 code of the answer's language as detected; None when it was not looked at."""
    usage: Mapping[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """From the question, its language, the model and the prompt."""
        return record_id(self.question_id, self.language, self.model, self.prompt_sha)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's decision on one answer; `correct` is None where none could be had (unscored)."""

    correct: bool | None
    refusal: bool
    reasoning: str
    confidence: float | None
    """Calibrated probability that the imitated judge says the same, 0.5 to 1; None from an LLM."""
    decided_by: str
    """`offline`, or the model that decided."""
    judge: str
    served_model: str
    prompt: str
    """`name@version`."""
    usage: Mapping[str, int] = field(default_factory=dict)
    raw: str = ""
    settled: bool | None = None
    """In a cascade: what the offline judge says of `correct`, where it is sure enough to settle it;
    a sample of these is decided by the model all the same."""


def to_row(record: Any) -> dict[str, Any]:
    """Returns a record as a dict of JSON values, nested records included."""
    row: dict[str, Any] = msgspec.to_builtins(record)
    return row


def dicts(rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yields rows as dicts, whether they come as a Dataset, a DataFrame, dicts or records.

    Raises:
        RecordError: Something among them is no row.
    """
    table: Any = rows
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # a DataFrame
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            yield dict(row)
        elif is_dataclass(row):
            yield to_row(row)
        else:
            raise RecordError(f"row {number}: expected a dict or a record, got {row!r:.80}")


def from_row(kind: type[T], row: Mapping[str, Any], *, where: str = "") -> T:
    """Returns the record of type `kind` that `row` describes.

    Args:
        kind: One of the record classes.
        row: What `to_row` gave; unknown names are ignored, so that newer files can be read.
        where: `file:line` for the message.

    Raises:
        RecordError: A field is missing or has another type; the message names it.
    """
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        place = f"{where}: " if where else ""
        raise RecordError(f"{place}not a {kind.__name__}: {error}") from error


class Row(TypedDict, total=False):
    """The fields of a line in a file of answers or verdicts, of which any may be missing."""

    id: str | None
    event_id: str | None
    region: str | None
    language: str | None
    split: Literal["english", "native"] | None
    year: str | int | None
    month: str | int | None
    question: str
    answer: str | list[str]
    model: str | None
    model_answer: str | None
    correct: bool | None
    refusal: bool | None


def read_rows(
    path: Path, *required: str, stage: Literal["judge", "answer", "collect", "retrieve"] = "judge"
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a JSONL file, or of the verdicts in a run folder, as they stand.

    Args:
        path: A file with one JSON object a line, or a run folder, whose `verdicts.jsonl` is read,
            or, while there is none, the journal `judge/*.jsonl`.
        required: Names of fields that every row must have.
        stage: Whose records are read in a run folder; `answer` for the answers, judged or not, and
            the builder's for what a release was made of.

    Raises:
        RecordError: The path does not exist or holds no rows; a line is no JSON object, lacks a
            required field or has a field of another type. The message begins `file:line: field`.
    """
    if stage == "judge" and (path / VERDICTS).is_file():
        path = path / VERDICTS
    journal = path.is_dir()
    if journal:
        files = sorted((path / stage).glob("*.jsonl"))
        if not files:
            raise RecordError(f"{path}: no run folder of that kind, {stage}/*.jsonl is missing")
    elif path.is_file():
        files = [path]
    else:
        raise RecordError(f"{path}: no such file or run folder")
    empty = True
    for file in files:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                torn = journal and not line.endswith(b"\n")  # its run is at work, or was killed
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if text.strip() and not torn:
                    yield from _rows_of(text, f"{file}:{number}", required, journal=journal)
                    empty = False
    if empty and not journal:
        raise RecordError(f"{path}: there are no rows in it; expected one JSON object a line")


def _rows_of(
    line: bytes, where: str, required: tuple[str, ...], *, journal: bool
) -> list[dict[str, Any]]:
    """Returns the checked rows of one line."""
    try:
        value = msgspec.json.decode(line)
        rows = value.get("rows", []) if journal and isinstance(value, dict) else [value]
        for row in rows:
            msgspec.convert(row, Row)
    except (msgspec.MsgspecError, RecursionError) as error:
        message, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`") + ": " if place else ""
        remedy = "" if place else "; expected one JSON object a line"
        raise RecordError(f"{where}: {name}{message}{remedy}") from error
    for row in rows:
        for name in required:
            if name not in row:
                known = ", ".join(row)[:200] or "none"
                raise RecordError(f"{where}: {name}: there is no such field, only {known}")
    return list(rows)
