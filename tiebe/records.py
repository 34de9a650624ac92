"""Records: what stages read and write, and the columns of the published data.

Every record is frozen and has an `id`, the first 16 hex digits of the sha256 of its natural key,
and the ids of its parents, so that a verdict leads back to the question, the article and the page.
"""

import codecs
import csv
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from tiebe.errors import RecordError, UnjudgedError

__all__ = [
    "COLUMNS",
    "VERDICTS",
    "Answer",
    "Drop",
    "Group",
    "Question",
    "Verdict",
    "canonical",
    "csv_lines",
    "dicts",
    "event_id",
    "from_row",
    "read_rows",
    "record_id",
    "text_of",
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
    settled_as: bool | None = None
    """In a cascade: as what the offline judge settles `correct`, true or false; None where it is
    not sure enough to settle it, and without a cascade. A sample of what is settled is decided by
    the model all the same, as `decided_by` tells."""


def to_row(record: Any) -> dict[str, Any]:
    """Returns a record as a dict of JSON values, nested records included."""
    row: dict[str, Any] = msgspec.to_builtins(record)
    return row


def dicts(rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yields rows as dicts, whether they come as a Dataset, a DataFrame, dicts or records.

    What pandas has for a missing value (NaN, NA, NaT) becomes None.

    Raises:
        RecordError: Something among them is no row.
    """
    table: Any = rows
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # a DataFrame
        rows = table.astype(object).to_dict("records")
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            yield {name: None if _missing(value) else value for name, value in row.items()}
        elif is_dataclass(row):
            yield to_row(row)
        else:
            raise RecordError(f"row {number}: expected a dict or a record, got {row!r:.80}")


def _missing(value: object) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")  # pandas' own, which need not be there


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Returns a field as a text, empty where it is null or absent; ids may be numbers."""
    value = row.get(name)
    if isinstance(value, float) and value.is_integer():  # what pandas makes of ids with gaps
        value = int(value)
    return "" if value is None else str(value)


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

    id: str | int | None
    event_id: str | int | None
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
    """Yields the rows of a file, or of the verdicts in a run folder, as they stand.

    Args:
        path: A file with one JSON object a line, a `.csv` file, of whose cells all are texts but
            true and false as verdicts, or a run folder, whose `verdicts.jsonl` is read, or, while
            there is none, the journal `judge/*.jsonl`.
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
            raise _nothing(path, stage)
    elif path.is_file():
        files = [path]
    else:
        raise RecordError(f"{path}: no such file or run folder")
    if path.suffix.casefold() == ".csv":
        for number, cells in csv_lines(path):
            row = _with_truth(cells)
            _check(row, f"{path}:{number}", required)
            yield row
        return
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
    if empty and stage == "judge":
        raise _nothing(path, stage)


def _nothing(run: Path, stage: str) -> RecordError:
    """The error of a run folder that holds nothing of a stage."""
    kind = UnjudgedError if stage == "judge" else RecordError
    if stage == "judge" and any((run / "answer").glob("*.jsonl")):
        answers = sum(1 for _ in read_rows(run, stage="answer"))
        return kind(
            f"{run}: nothing is judged yet, {answers:,} answers are there: run `tiebe evaluate` on "
            "it again, which goes on where it was"
        )
    return kind(f"{run}: no run folder of that kind, there is nothing in {stage}/*.jsonl")


def csv_lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the lines of a CSV file with a header: the number of each and its cells by column.

    Raises:
        RecordError: It cannot be read, has no lines, or a line has more or fewer cells than the
            header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            empty = True
            for line in reader:
                if None in line or None in line.values():
                    raise RecordError(
                        f"{path}:{reader.line_num}: expected {len(reader.fieldnames or ())} cells "
                        "as in the header; a text with commas or line breaks stands in quotes"
                    )
                yield reader.line_num, {name: cell for name, cell in line.items() if name}
                empty = False
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordError(f"{path}: no CSV file that can be read: {error}") from error
    if empty:
        raise RecordError(f"{path}: there are no rows in it; expected a header and lines")


def _with_truth(cells: Mapping[str, str]) -> dict[str, Any]:
    """A line of a CSV file with its verdicts, if there are any, as true, false and null."""
    truth = {"true": True, "false": False, "": None}
    return {
        name: truth.get(cell.strip().casefold(), cell) if name in ("correct", "refusal") else cell
        for name, cell in cells.items()
    }


def _rows_of(
    line: bytes, where: str, required: tuple[str, ...], *, journal: bool
) -> list[dict[str, Any]]:
    """Returns the checked rows of one line."""
    try:
        value = _decoded(line)
        rows = value.get("rows", []) if journal and isinstance(value, dict) else [value]
        for row in rows:
            _check(row, where, required)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordError(f"{where}: {error}{_REMEDY}") from error
    return list(rows)


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        if b"NaN" not in line:
            raise
        try:  # Python writes NaN, which is not JSON, where there is no number
            return json.loads(line, parse_constant=lambda name: None)
        except ValueError:
            raise error from None


_REMEDY = "; expected one JSON object a line, or a .csv file"


def _check(row: Any, where: str, required: tuple[str, ...]) -> None:
    """Raises an error that names the field of a row that is missing or of another type."""
    try:
        msgspec.convert(row, Row)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`") + ": " if place else ""
        raise RecordError(f"{where}: {name}{message}{'' if place else _REMEDY}") from error
    for name in required:
        if name not in row:
            known = ", ".join(row)[:200] or "none"
            raise RecordError(f"{where}: {name}: there is no such field, only {known}")
