"""Matching: which events of a page are those of an earlier release, and what goes on of it.

Pages are edited all the time: a line is reworded, a date corrected, a reference added. Its question
stays, so the event has to be known again, before anything is fetched or paid.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rapidfuzz import fuzz

from builder.records import Decision, Event
from builder.rules import TRANSLATION, plain, same_question, stands_for
from tiebe.records import Question, record_id
from tiebe.regions import REGIONS

__all__ = [
    "MAINTAINER",
    "Carried",
    "Match",
    "Rulings",
    "carry_on",
    "flaws",
    "match_events",
    "similarity",
    "untranslated",
]

SIMILAR = 0.9
"""So similar are two texts of one event, where no reference tells."""
SHARED = 0.5
"""So much at least do the words of two texts have in common that share a reference: one article
may be cited for several events."""

_ARCHIVE = re.compile(r"https?://(?:web\.)?archive\.\w+/(?:web/)?(?:\d{4,14}\w*/)?(?=https?:)")
_SCHEME = re.compile(r"https?://(?:www\.|m\.)?")


@dataclass(frozen=True, slots=True)
class Match:
    """An event of now and that of the base."""

    event_id: str
    base_event_id: str
    how: Literal["same", "reference", "text"]
    """`same`: the ids are equal, so text and date are; else what told."""
    similarity: float
    """Of the texts, 0 to 1."""


def match_events(base: Iterable[Question], events: Iterable[Event]) -> list[Match]:
    """Returns the events that are in the base, one of now for one of then at most.

    Only events of one region are compared, and only those of the same or the next month. Equal ids
    go first; then, the most similar first, texts that share a reference or are `SIMILAR`.

    Args:
        base: Rows of the earlier release; several of one event count as one.
        events: Of the pages as they are now.
    """
    old = {row.event_id: row for row in base}
    new = {event.id: event for event in events}
    matches = [Match(member, member, "same", 1.0) for member in new.keys() & old.keys()]
    near = defaultdict(list)
    for row in old.values():
        if row.event_id not in new:
            for month in _months(row.date):
                near[row.region, month].append(row)
    found: dict[tuple[str, str], Match] = {}
    for event in new.values():
        if event.id in old or event.start is None:
            continue
        urls = {_url(url) for r in event.references for url in (r.url, r.archive_url) if url}
        for row in near[event.region, _number(event.start)]:
            alike = similarity(event.text, row.event_desc)
            how: Literal["reference", "text"] | None = "text" if alike >= SIMILAR else None
            if urls & {_url(url) for url in (row.source_url, row.archive_url) if url}:
                words = fuzz.token_set_ratio(_plain(event.text), _plain(row.event_desc)) / 100
                how = "reference" if words >= SHARED else how
            if how:
                found[event.id, row.event_id] = Match(event.id, row.event_id, how, alike)
    taken: set[str] = set()
    for match in sorted(found.values(), key=_likeliest):
        if not {match.event_id, match.base_event_id} & taken:
            taken |= {match.event_id, match.base_event_id}
            matches.append(match)
    return sorted(matches, key=lambda match: match.event_id)


def similarity(one: str, other: str) -> float:
    """Returns how alike two texts are, 0 to 1, whatever their case, spaces and punctuation."""
    return fuzz.ratio(_plain(one), _plain(other)) / 100


def _likeliest(match: Match) -> tuple[float, bool, str, str]:
    return -match.similarity, match.how != "reference", match.event_id, match.base_event_id


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _number(date: str) -> int:
    """Returns the number of a date's month, counted from year 0."""
    return int(date[:4]) * 12 + int(date[5:7])


def _months(date: str) -> Iterator[int]:
    """Yields the months in which an event may stand after a correction of its date."""
    number = _number(date)
    yield from (number - 1, number, number + 1)


def _url(url: str) -> str:
    """Returns what tells a document: its URL without archive, scheme, www, fragment and slash."""
    live = _ARCHIVE.sub("", url)
    return _SCHEME.sub("", live).partition("#")[0].rstrip("/").casefold()


# ---- decisions

MAINTAINER = "maintainer"
"""The writer of what was written by hand."""


class Rulings:
    """What maintainers decided, by question; of several decisions the last counts.

    Args:
        decisions: In the order in which they were made.
    """

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._last: dict[str, Decision] = {}
        self._fixes: dict[str, dict[str, Decision]] = defaultdict(dict)
        for decision in decisions:
            if decision.decision != "fix":
                self._fixes.pop(decision.id, None)
            else:
                self._fixes[decision.id][decision.language or "en"] = decision
            self._last[decision.id] = decision

    def settled(self, row: Question) -> bool:
        """Whether a row is to stay whatever its flags: it is kept, or was written by hand."""
        fixed = self._fixes.keys() & {row.id, row.replaces}
        return bool(fixed) or self._is(row.id, "keep")

    def withdrawn(self, row: Question) -> str:
        """Returns why a row was withdrawn; empty when it was not."""
        return (self._last[row.id].reason or "withdrawn") if self._is(row.id, "withdraw") else ""

    def closed(self) -> set[str]:
        """Returns the ids of the events whose question was withdrawn: none is asked again."""
        return {d.event_id for d in self._last.values() if d.decision == "withdraw"} - {""}

    def fixed(self, row: Question, *, version: str) -> Question:
        """Returns an English row with the words that it was given, or as it is.

        A row with new words is a new question; that of an earlier release is named in `replaces`.
        """
        fix = self._fixes.get(row.id, {}).get("en")
        if fix is None or (fix.question, fix.answer) == (row.question, row.answer):
            return row
        replaces = row.replaces if row.since == version else row.id
        row = replace(row, question=fix.question, answer=fix.answer)
        row = replace(row, writer=MAINTAINER, prompt="", flags=(), since=version)
        return _renamed(row, replaces)

    def native(self, member: str, english: Question) -> Question | None:
        """Returns the native row of a question as it was written by hand, if it was.

        Args:
            member: The question's id before it was fixed.
            english: The English row as it is to be.
        """
        code = REGIONS[english.region].language_code
        fix = self._fixes.get(member, {}).get(code) if code != "en" else None
        if fix is None:
            return None
        row = replace(english, language=code, question=fix.question, answer=fix.answer)
        return replace(row, writer=MAINTAINER, prompt="")

    def reason(self, member: str) -> str:
        """Returns the reason for the last decision on a question."""
        return self._last[member].reason or self._last[member].decision

    def _is(self, member: str, decision: str) -> bool:
        return member in self._last and self._last[member].decision == decision


def _renamed(row: Question, replaces: str | None) -> Question:
    """Returns a new row with its id: one that replaces another has its own, whatever its words."""
    key = (row.event_id, row.question, *([replaces] if replaces else ()))
    return replace(row, id=record_id(*key), replaces=replaces)


# ---- what goes on

_NOTES = frozenset("leading_date leading_dash wrong_date question_no_year too_long".split())
"""Flags that a question written anew would bear as well, or that are no fault of its."""
_TWINS = frozenset(("duplicate_question", "near_duplicate"))

Recheck = Callable[[Sequence[Question]], Iterable[Question]]
"""Gives rows their flags anew."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What goes on of the release before, as it was decided before anything is fetched."""

    rows: tuple[Question, ...] = ()
    """English and native rows that stay; those that a maintainer fixed among them."""
    anew: Mapping[str, tuple[Question, ...]] = field(default_factory=dict)
    """By the id of an event of now: the English rows that are to be replaced."""
    settled: Container[str] = frozenset()
    """Ids of the events of now that nothing is asked about any more."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a question is gone, or goes when another replaces it, by its id."""
    gone: frozenset[str] = frozenset()
    """Ids of the questions that are withdrawn."""
    fallbacks: tuple[Question, ...] = ()
    """Rows that stay while what is to replace them could not be paid."""
    rulings: Rulings = field(default_factory=Rulings)
    version: str = ""
    """Of the release that is built."""

    def counts(self) -> dict[str, int]:
        """Returns how many questions stay, are written anew, and are withdrawn for which reason."""
        anew = sum(map(len, self.anew.values()))
        counts = Counter(self.reasons[member] for member in self.gone)
        return {"stay": sum(row.split == "english" for row in self.rows), "anew": anew, **counts}

    def with_new(self, selected: Iterable[Question]) -> list[Question]:
        """Returns the rows that stay and the new ones, as far as they want no translation.

        Of a new question on an event with a row to be replaced, `replaces` names that row.

        Args:
            selected: New English rows.
        """
        rows = list(self.rows)
        olds = {event: list(members) for event, members in self.anew.items()}
        for row in selected:
            if olds.get(row.event_id):
                row = _renamed(row, olds[row.event_id].pop(0).id)
            if self.rulings.withdrawn(row):
                continue
            english = self.rulings.fixed(row, version=self.version)
            native = self.rulings.native(row.id, english)
            rows += [english, native] if native else [english]
        return rows

    def complete(self, rows: Iterable[Question], tried: Container[str]) -> list[Question]:
        """Returns all rows of the new release.

        A row that was to be replaced, and nothing better came of its event, is withdrawn; it stays
        when that could not be tried, because the budget was spent or a server did not answer.

        Args:
            rows: Those that stay and the new ones.
            tried: Ids of the events, and of the questions to be translated, that nothing came of.
        """
        rows = list(rows)
        past = {row.replaces for row in rows}
        past |= {old.id for event, olds in self.anew.items() if event in tried for old in olds}
        rows += [row for row in self.fallbacks if row.split == "english" and row.id not in past]
        english = {row.id for row in rows if row.split == "english"}
        past = {row.id for row in rows if row.split == "native"}
        rows += [
            row
            for row in self.fallbacks
            if row.split == "native" and row.id in english - past and row.id not in tried
        ]
        return rows


def flaws(row: Question) -> list[str]:
    """Returns the flags of an English row for which its question is written anew."""
    return [
        flag
        for flag in row.flags
        if flag not in _NOTES | TRANSLATION and not stands_for("after_cutoff", flag)
    ]


def untranslated(rows: Iterable[Question]) -> list[Question]:
    """Returns the English rows that want a native one beside them and have none."""
    rows = list(rows)
    native = {row.id for row in rows if row.split == "native"}
    return [
        row
        for row in rows
        if row.split == "english" and REGIONS[row.region].language and row.id not in native
    ]


def carry_on(
    base: Iterable[Question],
    events: Iterable[Event],
    rulings: Rulings,
    version: str,
    recheck: Recheck,
) -> Carried:
    """Decides what goes on of the release before.

    - A row whose event is on its page as it was stays as it is, and so does a row whose page was
      not read.
    - A row whose event was edited stays with the event's new text and date, unless `recheck` finds
      that it does not fit them.
    - A row with a fault (`flaws`) is written anew, once: one that replaces another already is left
      to the maintainers. Of rows that ask the same, the first stays.
    - A row whose event is gone from its page is withdrawn (`event_removed`), and so is one whose
      event is later than the new release's last month (`after_cutoff`).
    - What maintainers decided goes before all that, but for the last month.

    Args:
        base: English and native rows of the release before.
        events: Those of the pages that were read.
        rulings: What maintainers decided.
        version: Of the new release.
        recheck: Gives rows their flags anew; called for those whose event was edited.
    """
    rows = [replace(row, version=version) for row in base]
    english = {row.id: row for row in rows if row.split == "english"}
    now = {event.id: event for event in events}
    pages = {(event.region, event.year) for event in now.values()}
    matches = {match.base_event_id: match for match in match_events(english.values(), now.values())}
    found = {
        row.id: now[match.event_id]
        for row in english.values()
        if (match := matches.get(row.event_id))
    }
    edited = {row.id for row in rows if row.id in found and found[row.id].id != row.event_id}
    rows = [_moved(row, found[row.id]) if row.id in edited else row for row in rows]
    natives = {row.id: row for row in rows if row.split == "native"}
    rechecked = recheck([row for row in rows if row.id in edited])
    misfits = {row.id: flaws(row) for row in rechecked if row.split == "english"}

    def withdrawn(row: Question) -> str:
        if why := rulings.withdrawn(row):
            return why
        if row.date[:7] > version[:7].replace(".", "-"):
            return "after_cutoff"
        removed = row.id not in found and _page(row) in pages
        return "event_removed" if removed and not rulings.settled(row) else ""

    def wrong(row: Question) -> list[str]:
        if rulings.settled(row) or row.id not in found:
            return []
        codes = misfits.get(row.id) or ([] if row.replaces else flaws(row))
        return [] if set(codes) <= _TWINS and not asked.before(row) else codes

    stay: list[Question] = []
    anew: dict[str, list[Question]] = defaultdict(list)
    reasons: dict[str, str] = {}
    gone: set[str] = set()
    fallbacks: list[Question] = []
    asked = _Asked()
    closed = rulings.closed() | {found[m].id for m in found if rulings.withdrawn(english[m])}
    ordered = (row for row in rows if row.split == "english")
    for row in sorted(ordered, key=lambda row: (not rulings.settled(row), row.since, row.id)):
        native = natives.get(row.id)
        if why := withdrawn(row):
            reasons[row.id] = why
            gone.add(row.id)
        elif codes := wrong(row):
            reasons[row.id] = codes[0]
            if (event := found[row.id].id) in closed:
                gone.add(row.id)
            else:
                anew[event].append(row)
                fallbacks += [row, native] if native else [row]
        else:
            asked.add(row)
            fixed = rulings.fixed(row, version=version)
            by_hand = rulings.native(row.id, fixed)
            faults = sorted(TRANSLATION.intersection(native.flags)) if native else []
            if fixed is not row:
                fallbacks += [row, native] if native else [row]
                native = None
            elif native and faults and not rulings.settled(row):
                reasons[row.id] = faults[0]
                fallbacks.append(native)
                native = None
            if by_hand or fixed is not row:
                reasons[row.id] = rulings.reason(row.id)
            stay += [fixed, *filter(None, [by_hand or native])]
    return Carried(
        tuple(stay),
        {event: tuple(members) for event, members in anew.items()},
        frozenset(closed | {event.id for event in found.values()} - anew.keys()),
        reasons,
        frozenset(gone),
        tuple(fallbacks),
        rulings,
        version,
    )


class _Asked:
    """What is asked by the rows that stay, as far as they were found to ask the same."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._words: set[str] = set()

    def add(self, row: Question) -> None:
        if _TWINS & set(row.flags):
            self._pairs[row.region].append((row.question, row.answer))
            self._words.add(plain(row.question))

    def before(self, row: Question) -> bool:
        """Whether a row that stays asks the same: in its region, or in the very words."""
        pair = row.question, row.answer
        return plain(row.question) in self._words or any(
            same_question(pair, other) for other in self._pairs[row.region]
        )


def _moved(row: Question, event: Event) -> Question:
    """Returns a row with its event as it stands on the page now."""
    start = event.start or row.date
    return replace(
        row,
        event_id=event.id,
        year=start[:4],
        month=start[5:7],
        date=start,
        end_date=event.end,
        event_desc=event.text,
        page_title=event.page_title,
        page_revision=event.page_revision,
    )


def _page(row: Question) -> tuple[str, int]:
    """Returns region and year of the page on which a row's event was found."""
    year = re.search(r"\d{4}", row.page_title)
    return row.region, int(year[0] if year else row.year)
