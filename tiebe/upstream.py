"""Upstream's layout of 2025: its rows become Questions.

A row had `year, month, event_desc, text, question, answer, region` and nothing else: no id, no day,
no source. Row i of a region's English file and row i of its translated one are the same question.
"""

import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from tiebe.errors import RecordError
from tiebe.records import Question, event_id, from_row, record_id
from tiebe.regions import REGIONS

__all__ = ["DatedText", "OldRow", "dated_text", "parse", "questions"]

_MONTHS = (
    "January February March April May June July August September October November December"
).split()

_MONTH = f"(?:{'|'.join(_MONTHS)})"
# "4 January", "4 6 January" (a range whose dash was lost), "46 January" (its spaces too),
# "30 January 2 February", then what stood between the date and the text.
_DATE = re.compile(
    r"[-–—\s]*"
    r"(?P<days>\d{1,2}(?:(?:\s+|\s*[-–—]\s*)\d{1,2})?|\d{3,4})\s*(?P<month>MONTH)"
    r"(?:\s*[-–—]?\s*(?P<end_day>\d{1,2})\s*(?P<end_month>MONTH))?"
    r"(?:\s*,?\s*(?P<year>\d{4})\s*(?=[-–—:]))?"
    r"(?=\W|$|[A-Z])[-–—:,\s]*".replace("MONTH", _MONTH)
)


class OldRow(msgspec.Struct, frozen=True):
    """A row of upstream's files."""

    year: str | int
    month: str | int
    event_desc: str
    question: str
    answer: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class DatedText:
    """An event's text without the date that stood before it."""

    text: str
    start: str
    """`YYYY-MM-DD`, or `YYYY-MM` where no day is known."""
    end: str | None = None


def dated_text(text: str, year: int, month: int) -> DatedText:
    """Splits the date off an event's text.

    The day, and the month where it differs from the row's, are those that the text begins with:
    upstream let a line inherit the month of the one before.

    Args:
        text: As upstream published it: `4 January  A bridge opens.`
        year: Of the row.
        month: Of the row, 1 to 12.
    """
    undated = DatedText(" ".join(text.split()).lstrip("-–— ") or text, f"{year:04}-{month:02}")
    match = _DATE.match(text)
    if not match or (match["year"] and int(match["year"]) != year):
        return undated
    rest = " ".join(text[match.end() :].split())
    days = _days(match["days"])
    first = _date(year, match["month"], days[0]) if days else None
    if not rest or first is None:
        return undated
    last: dt.date | None = None
    if match["end_day"]:
        last = _date(year, match["end_month"], int(match["end_day"]))
        if last and last < first:
            last = _date(year + 1, match["end_month"], int(match["end_day"]))
    elif len(days) == 2:
        last = _date(year, match["month"], days[1])
    end = last.isoformat() if last and last > first else None
    return DatedText(rest, first.isoformat(), end)


def _days(digits: str) -> list[int]:
    """Returns one day, or the two of a range; `714` is the 7th to the 14th."""
    if not digits.isdecimal():
        return [int(day) for day in re.findall(r"\d+", digits)]
    if int(digits) <= 31:
        return [int(digits)]
    pairs = ((digits[:i], digits[i:]) for i in range(1, len(digits)))
    return next(([int(a), int(b)] for a, b in pairs if b[0] != "0" and int(a) < int(b) <= 31), [])


def _date(year: int, month: str, day: int) -> dt.date | None:
    try:
        return dt.date(year, _MONTHS.index(month) + 1, day)
    except ValueError:
        return None


def parse(raw: bytes, *, where: str) -> list[OldRow]:
    """Returns the rows of a file: a JSON list, or one JSON object a line.

    Raises:
        RecordError: The file is something else; the message names it and the row.
    """
    try:
        if raw.lstrip()[:1] == b"[":
            rows = msgspec.json.decode(raw)
        else:
            rows = [msgspec.json.decode(line) for line in raw.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise RecordError(f"{where}: not JSON: {error}") from error
    return [from_row(OldRow, row, where=f"{where}: row {i}") for i, row in enumerate(rows)]


def questions(
    region: str,
    english: Sequence[OldRow],
    native: Sequence[OldRow] | None = None,
    *,
    version: str = "",
) -> list[tuple[Question, str]]:
    """Returns the rows of a region as Questions, each with the article text that it brought.

    Args:
        region: Its slug: the name of the file.
        english: The rows of the English file.
        native: The rows of the translated file, in the same order; None where there is none.
        version: What the rows are to bear as `version` and `since`.

    Raises:
        RecordError: The two files do not have the same number of rows, or a date is none.
    """
    if native is not None and len(native) != len(english):
        raise RecordError(
            f"{region}: {len(native)} translated rows for {len(english)} English ones; they are "
            "paired by position, so there must be as many"
        )
    known = REGIONS.get(region)
    seen: Counter[str] = Counter()
    result = []
    for i, old in enumerate(english):
        try:
            year, month = int(old.year), int(old.month)
            dated = dated_text(old.event_desc, year, dt.date(year, month, 1).month)
        except ValueError as error:
            raise RecordError(
                f"{region}: row {i}: no month of a year: {old.year!r}, {old.month!r}"
            ) from error
        event = event_id(region, dated.start, dated.text)
        member = record_id(event, old.question)
        source = _source(old.text)
        seen[member] += 1
        if seen[member] > 1:  # every row stays, so a twin needs an id of its own
            member = record_id(event, old.question, seen[member])
        row = Question(
            id=member,
            event_id=event,
            article_id=record_id(event, source) if source else None,
            region=region,
            language="en",
            year=dated.start[:4],
            month=dated.start[5:7],
            date=dated.start,
            end_date=dated.end,
            event_desc=dated.text,
            question=old.question,
            answer=old.answer,
            source_url=source,
            archive_url=None,
            source_title="",
            page_title=known.page_title(year) if known else "",
            page_revision=None,
            writer="deepseek-ai/DeepSeek-V3",
            prompt="generate@paper",
            flags=_flags(old.event_desc, dated, f"{year:04}-{month:02}"),
            version=version,
            since=version,
        )
        result.append((row, old.text))
        if native is not None:
            result.append(
                (_translated(row, native[i], known.language_code if known else ""), old.text)
            )
    return result


def _flags(text: str, dated: DatedText, month: str) -> tuple[str, ...]:
    """What was wrong with an event's text and date, and is mended in its row."""
    found = {
        "leading_date": bool(_DATE.match(text)),
        "leading_dash": text.lstrip()[:1] in ("-", "–", "—"),
        "wrong_date": dated.start[:7] != month,
    }
    return tuple(code for code, there in found.items() if there)


def _translated(row: Question, old: OldRow, language: str) -> Question:
    return replace(
        row,
        language=language,
        question=old.question,
        answer=old.answer,
        prompt="translate@paper",
    )


def _source(text: str) -> str:
    """Returns what stands for the URL of a document, which is not known: the digest of its text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"urn:sha256:{digest}" if text.strip() else ""
