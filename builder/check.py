"""Check: a region's rows get their flags (a gather stage)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from builder.records import Article
from builder.rules import Pair, broken, translation_faults
from tiebe.engine import Stage
from tiebe.records import Group, Question
from tiebe.regions import LANGUAGES

__all__ = ["check", "stage"]


def check(group: Group, *, articles: Mapping[str, Article]) -> Iterable[Any]:
    """Returns a region's rows, English and native, each with the codes of the rules it breaks."""
    english = {row.id: row for row in group.members if row.language == "en"}
    twins = Counter(_plain(row.question) for row in english.values())
    rows = []
    for row in group.members:
        if row.language == "en":
            article = articles.get(row.article_id or "")
            flags = broken(
                Pair(row.question, row.answer, row.date, article.text if article else "")
            )
            if twins[_plain(row.question)] > 1:
                flags += ("duplicate_question",)
        else:
            script = LANGUAGES[row.language].script
            original = english[row.id]
            flags = translation_faults(original.question, row.question, script)
        rows.append(replace(row, flags=flags))
    return rows


def _plain(question: str) -> str:
    return " ".join(question.casefold().split())


def stage(articles: Mapping[str, Article]) -> Stage:
    """Returns the gather stage: a region's rows to the same rows with flags."""

    def run(group: Group) -> Iterable[Any]:
        return check(group, articles=articles)

    return Stage("check", 1, run, (Question,))
