"""Select: of an event's candidates the best becomes the question (a gather stage)."""

from collections.abc import Iterable, Mapping
from typing import Any

from builder.records import Article, Candidate, Drop
from builder.rules import HARD, Pair, broken
from tiebe.engine import Stage
from tiebe.records import Group, Question, record_id

__all__ = ["select", "stage"]


def select(
    group: Group, *, articles: Mapping[str, Article], count: int, version: str
) -> Iterable[Any]:
    """Returns an event's best questions by `builder.rules`, or why it has none.

    Args:
        group: The event's candidates.
        articles: By id; the articles that the candidates were written from.
        count: How many questions an event may have.
        version: The release's.
    """
    ranked = []
    for candidate in group.members:
        faults = broken(
            Pair(
                candidate.question,
                candidate.answer,
                candidate.event.start or "",
                articles[candidate.article_id].text,
            )
        )
        if not HARD.intersection(faults):
            ranked.append((len(faults), candidate.id, candidate, faults))
    if not ranked:
        detail = f"{len(group.members)} candidates, each breaks a rule"
        return [Drop("select", group.id, "no_good_question", detail)]
    ranked.sort(key=lambda item: item[:2])
    return [_question(candidate, faults, version) for _, _, candidate, faults in ranked[:count]]


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

    return Stage("select", 1, run, (Question,), {"count": count, "version": version})
