"""Check: a region's rows get their flags (a gather stage)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from builder import extract
from builder.rules import (
    ARTICLE,
    Pair,
    Translation,
    after_cutoff,
    alike,
    broken,
    plain,
    translation_faults,
    wrong_date,
)
from tiebe.engine import Stage
from tiebe.records import Group, Question

__all__ = ["KEPT", "Source", "check", "groups", "stage"]

KEPT = ("leading_date", "leading_dash", "wrong_date")
"""Flags that an import gives, of what it mended: they cannot be found again and stay."""


class Source(Protocol):
    """An article as far as it is looked at."""

    @property
    def title(self) -> str:
        """Of the document; may be empty."""

    @property
    def url(self) -> str:
        """Of the document."""

    @property
    def text(self) -> str:
        """What the question was written from."""


def groups(rows: Iterable[Question]) -> Iterator[Group]:
    """Yields the rows of each region, with the rows of other regions that ask the same."""
    regions: dict[str, list[Question]] = defaultdict(list)
    asked: dict[str, list[Question]] = defaultdict(list)
    for row in rows:
        regions[row.region].append(row)
        if row.split == "english":
            asked[plain(row.question)].append(row)
    for region, members in sorted(regions.items()):
        words = {plain(row.question) for row in members if row.split == "english"}
        twins = [twin for key in words for twin in asked[key] if twin.region != region]
        together = sorted([*members, *twins], key=lambda row: (row.id, row.language, row.region))
        yield Group(region, tuple(together))


def check(group: Group, *, articles: Mapping[str, Source]) -> Iterable[Any]:
    """Returns a region's rows, English and native, each with the codes of the rules it breaks.

    A native row bears the flags of its English row, whose article and event it shares, and those
    of its translation.

    Args:
        group: Named by the region; its rows, and those elsewhere that ask the same.
        articles: By id; a row whose article is not among them is judged without, and keeps the
            flags that it has of its article.
    """
    english = [row for row in group.members if row.split == "english"]
    flags: dict[str, list[str]] = {row.id: [] for row in english if row.region == group.name}
    own = [row for row in english if row.region == group.name]
    for row, found in zip(own, _text_flags(own, articles), strict=True):
        flags[row.id] += found
    for row in own:
        flags[row.id] += _date_flags(row)
        flags[row.id] += broken(_pair(row, articles))
    for member, code in _twins(english):
        if member in flags and code not in flags[member]:
            flags[member].append(code)
    originals = {row.id: row for row in own}
    return [
        replace(row, flags=tuple(dict.fromkeys(_all_flags(row, originals, flags))))
        for row in group.members
        if row.region == group.name
    ]


def _all_flags(
    row: Question, originals: Mapping[str, Question], flags: Mapping[str, list[str]]
) -> list[str]:
    """The flags of a row: a native one has its English row's and those of its translation."""
    if row.split == "english":
        return flags[row.id]
    original = originals[row.id]
    translation = Translation(
        (original.question, original.answer), (row.question, row.answer), row.language
    )
    return [*flags[row.id], *translation_faults(translation)]


def _text_flags(rows: list[Question], articles: Mapping[str, Source]) -> Iterator[list[str]]:
    """What is wrong with each row's article."""
    known = {row.article_id: articles.get(row.article_id or "") for row in rows}
    citations = [
        extract.Citation(row.event_desc, _words(known[row.article_id]), row.date, row.end_date)
        for row in rows
    ]
    shared = extract.shared_texts(citations)
    for row, citation, elsewhere in zip(rows, citations, shared, strict=True):
        source = known[row.article_id]
        if source is None and row.article_id:  # the release came without texts
            yield [flag for flag in row.flags if flag in ARTICLE]
            continue
        if source is None or not source.text.strip():
            yield ["no_text"]
            continue
        found = list(extract.faults(source.text, title=source.title, url=source.url))
        if elsewhere:
            found.append("text_of_another_event")
        if extract.relevance(citation) < extract.OFF_EVENT:
            found.append("text_off_event")
        yield found


def _words(source: Source | None) -> str:
    return "" if source is None else f"{source.title}\n\n{source.text}".strip()


def _date_flags(row: Question) -> list[str]:
    found = [code for code in KEPT if code in row.flags]
    if wrong_date(row.event_desc, row.date, row.end_date, row.page_title):
        found.append("wrong_date")
    if row.version:
        cutoff = row.version[:7].replace(".", "-")
        if row.date[:7] > cutoff:
            found.append(after_cutoff(cutoff))
    return found


def _pair(row: Question, articles: Mapping[str, Source]) -> Pair:
    source = articles.get(row.article_id or "")
    return Pair(
        row.question,
        row.answer,
        row.region,
        row.date,
        row.end_date or "",
        row.event_desc,
        source.title if source else "",
        source.text if source else "",
    )


def _twins(rows: list[Question]) -> Iterator[tuple[str, str]]:
    """Yields the rows that ask what another one asks: id and code, of both of a pair."""
    for i, j in alike([(row.question, row.answer) for row in rows]):
        same = plain(rows[i].question) == plain(rows[j].question)
        code = "duplicate_question" if same else "near_duplicate"
        yield rows[i].id, code
        yield rows[j].id, code


def stage(articles: Mapping[str, Source]) -> Stage:
    """Returns the gather stage: a region's rows to the same rows with flags."""

    def run(group: Group) -> Iterable[Any]:
        return check(group, articles=articles)

    return Stage("check", 3, run, (Question,))
