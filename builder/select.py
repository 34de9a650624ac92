"""Select: of an event's candidates the best becomes the question (a gather stage)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from builder.records import Article, Candidate, Drop
from builder.rules import HARD, Pair, alike, broken, rank, same_question
from tiebe.engine import Stage
from tiebe.records import Group, Question, record_id

__all__ = ["groups", "select", "stage"]

_TWICE = "duplicate_question"


def groups(candidates: Iterable[Candidate], stay: Iterable[Question] = ()) -> Iterator[Group]:
    """Yields the candidates of each event, with those of other events that may be in its way.

    No question may be asked twice within a region. Events choose in turn, the newest first; what
    an event may choose depends on those before it that have a candidate like one of its own, and
    on those in their way. So a group holds these too, is a whole input by itself, and does not
    change when older events come later.

    Args:
        candidates: Of all events.
        stay: Questions of the release before that stay: what they ask is not asked again.
    """
    regions: dict[str, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for candidate in candidates:
        regions[candidate.event.region][candidate.event.id].append(candidate)
    known: dict[str, list[Question]] = defaultdict(list)
    for question in stay:
        known[question.region].append(question)
    for region, events in regions.items():
        members: list[Candidate | Question] = [one for event in events.values() for one in event]
        members += known[region]
        rivals: dict[str, set[str]] = defaultdict(set)
        taken: dict[str, dict[str, Question]] = defaultdict(dict)
        for i, j in alike([(one.question, one.answer) for one in members]):
            a, b = members[i], members[j]
            if isinstance(a, Question) or isinstance(b, Question):
                for one, other in ((a, b), (b, a)):
                    if isinstance(one, Candidate) and isinstance(other, Question):
                        taken[one.event.id][other.id] = other
            elif a.event.id != b.event.id:
                earlier, later = sorted((a, b), key=_turn, reverse=True)
                rivals[later.event.id].add(earlier.event.id)
        for event in events:
            names = _in_the_way(event, rivals)
            together: dict[str, Candidate | Question] = {}
            for name in names:
                together |= taken[name] | {one.id: one for one in events[name]}
            yield Group(event, tuple(together[member] for member in sorted(together)))


def _turn(candidate: Candidate) -> tuple[str, str]:
    """Orders candidates by when their events choose; to be sorted in reverse."""
    return candidate.event.start or "", candidate.article_id


def _in_the_way(event: str, rivals: Mapping[str, set[str]]) -> set[str]:
    """An event and all that choose before it and matter to it."""
    found: set[str] = set()
    open_ = [event]
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_.extend(rivals.get(name, ()))
    return found


def select(
    group: Group, *, articles: Mapping[str, Article], count: int, version: str
) -> Iterable[Any]:
    """Returns an event's best questions by `builder.rules`, or why it has none.

    Args:
        group: Named by the event; its candidates, those of events that choose before it, and
            questions that stay and may ask the same.
        articles: By id; the articles that the candidates were written from.
        count: How many questions an event may have.
        version: The release's.
    """
    events: dict[str, list[Candidate]] = defaultdict(list)
    members = [one for one in group.members if isinstance(one, Candidate)]
    for candidate in sorted(members, key=_turn, reverse=True):
        events[candidate.event.id].append(candidate)
    asked = [(one.question, one.answer) for one in group.members if isinstance(one, Question)]
    for name, candidates in events.items():
        reasons: Counter[str] = Counter()
        chosen: list[tuple[Candidate, tuple[str, ...]]] = []
        for candidate, faults in _ranked(candidates, articles, reasons):
            pair = candidate.question, candidate.answer
            if any(same_question(pair, other) for other in asked):
                reasons[_TWICE] += 1
            elif len(chosen) < count:
                asked.append(pair)
                chosen.append((candidate, faults))
        if name == group.name:
            if chosen:
                return [_question(candidate, faults, version) for candidate, faults in chosen]
            only = set(reasons) == {"duplicate_question"}
            detail = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
            return [
                Drop("select", name, "duplicate_question" if only else "no_good_question", detail)
            ]
    raise ValueError(f"group {group.name} holds no candidate of its event")


def _ranked(
    candidates: Iterable[Candidate], articles: Mapping[str, Article], reasons: Counter[str]
) -> list[tuple[Candidate, tuple[str, ...]]]:
    """The candidates that break no hard rule, the best first, each with the others it breaks.

    Args:
        candidates: Of one event.
        articles: By id.
        reasons: Gets the hard rules that the others break.
    """
    good = []
    for candidate in candidates:
        article = articles[candidate.article_id]
        event = candidate.event
        pair = Pair(
            candidate.question,
            candidate.answer,
            event.region,
            event.start or str(event.year),
            event.end or "",
            event.text,
            article.title,
            article.text,
        )
        faults = broken(pair)
        hard = [fault for fault in faults if fault in HARD]
        if candidate.supported is False:
            hard.append("not_supported")
        reasons.update(hard)
        if not hard:
            good.append((rank(pair, faults), candidate.id, candidate, faults))
    good.sort(key=lambda item: item[:2])
    return [(candidate, faults) for _, _, candidate, faults in good]


def _question(candidate: Candidate, faults: tuple[str, ...], version: str) -> Question:
    event = candidate.event
    start = event.start or str(event.year)
    return Question(
        id=record_id(event.id, candidate.question),
        event_id=event.id,
        article_id=candidate.article_id,
        region=event.region,
        language="en",
        year=start[:4],
        month=start[5:7],
        date=start,
        end_date=event.end,
        event_desc=event.text,
        question=candidate.question,
        answer=candidate.answer,
        source_url=candidate.source_url,
        archive_url=candidate.archive_url,
        source_title=candidate.source_title,
        page_title=event.page_title,
        page_revision=event.page_revision,
        writer=candidate.writer,
        prompt=candidate.prompt,
        flags=faults,
        version=version,
        since=version,
    )


def stage(articles: Mapping[str, Article], count: int, version: str) -> Stage:
    """Returns the gather stage: an event's Candidates to its Questions."""

    def run(group: Group) -> Iterable[Any]:
        return select(group, articles=articles, count=count, version=version)

    return Stage("select", 2, run, (Question,), {"count": count, "version": version})
