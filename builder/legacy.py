"""Legacy: upstream's data of 2025 becomes a release of today's layout.

Every row stays, with its question, answer and text as they were. Ids are derived, the date that
stood before an event's text becomes its date. What is wrong with a row is for `check` to flag.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.records import Article, Event
from builder.release import About, Edition, ModelUse, PromptUse, Statistics, write_release
from tiebe.errors import SettingsError
from tiebe.load import load_tiebe
from tiebe.prompts import load_prompt
from tiebe.records import Question, from_row, record_id

__all__ = ["import_legacy"]

_WRITER = "deepseek-ai/DeepSeek-V3"


def import_legacy(source: str | Path, folder: Path, version: str = "2025.04") -> Statistics:
    """Writes a release out of upstream's layout.

    Args:
        source: A folder of that layout (data/english/*.json, data/translated/*.json), or a repo id
            of the Hub that has it.
        folder: Where the release is to stand.
        version: Its name.

    Raises:
        SettingsError: `source` has today's layout already, or none that is known.
        RecordError: A file is not what it should be; the message names it and the row.
    """
    rows = load_tiebe(language="both", text=True, source=source)
    if set(rows["version"]) - {"legacy"}:
        raise SettingsError(f"{source} has today's layout already: there is nothing to import")
    about = About(
        prompts=tuple(
            PromptUse(prompt.id, prompt.sha256)
            for prompt in (load_prompt("generate", "paper"), load_prompt("translate", "paper"))
        ),
        models=(ModelUse("generate", _WRITER), ModelUse("translate", _WRITER)),
        notes=(
            "The questions of this release were published in May 2025 without ids, days and "
            "sources. They stand here as they were; ids and dates were derived from the rows. "
            "Where the URL of a document is not known, `urn:sha256:` and its text's digest "
            "stand for it.",
        ),
    )
    return write_release(folder, _questions(rows), _articles(rows), Edition(version, about=about))


def _questions(rows: Any) -> Iterator[Question]:
    for row in rows.remove_columns("text"):
        yield replace(from_row(Question, row), since="")


def _articles(rows: Any) -> Iterator[Article]:
    seen: set[str] = set()
    for row in rows:
        member = row["article_id"]
        if member is None or member in seen:
            continue
        seen.add(member)
        event = Event(
            region=row["region"],
            year=int(row["year"]),
            page_id=record_id(row["region"], int(row["year"])),
            page_title=row["page_title"],
            page_revision=None,
            start=row["date"],
            end=row["end_date"],
            precision="day" if len(row["date"]) == 10 else "month",
            text=row["event_desc"],
        )
        yield Article(event, row["source_url"], None, "", None, row["text"])
