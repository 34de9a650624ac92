"""Small releases of invented rows, for tests."""

import dataclasses
import hashlib
from pathlib import Path

from builder.records import Article, Event
from builder.release import About, ModelUse, PromptUse
from tiebe.records import Question, record_id
from tiebe.regions import REGIONS

ABOUT = About(
    as_of="2025-04-30",
    prompts=(PromptUse("generate@1", "ab" * 32),),
    models=(ModelUse("generate", "deepseek-chat", ("deepseek-v3-0324",)),),
    counts={"Brazil": {"events": 50, "references": 60, "articles": 40}},
    stages={"retrieve": {"in": 50, "out": 40, "not_found": 7, "not_article": 3}},
    notes=("A note of the builder.",),
)


def make(
    n: int, regions: tuple[str, ...] = ("Brazil", "the_United_Kingdom", "World")
) -> tuple[list[Question], list[Article]]:
    """Rows of `n` events a region, and their articles."""
    questions, articles = [], []
    for slug in regions:
        region = REGIONS[slug]
        for i in range(n):
            year, month, day = 2015 + i % 11, 1 + i % 12, 1 + i % 28
            event = Event(
                slug,
                year,
                "page",
                region.page_title(year),
                None,
                f"{year}-{month:02}-{day:02}",
                None,
                "day",
                f"Event {i} of {region.phrase}.",
            )
            url = f"https://news.example/{slug}/{i}"
            text = f"A report on event {i}. " * 10
            article = Article(
                event, url, None, f"Report {i}", event.start, text, {"extractor": "trafilatura"}
            )
            articles.append(article)
            row = Question(
                id=record_id(event.id, f"What was event {i}?"),
                event_id=event.id,
                article_id=article.id,
                region=slug,
                language="en",
                year=str(year),
                month=f"{month:02}",
                date=event.start or "",
                end_date=None,
                event_desc=event.text,
                question=f"What was event {i}?",
                answer=f"Answer {i}",
                source_url=url,
                archive_url=None,
                source_title=article.title,
                page_title=event.page_title,
                page_revision=None if i % 2 else 10**10 + i,
                writer="writer",
                prompt="generate@1",
                flags=("near_duplicate",) if i % 5 == 0 else (),
            )
            questions.append(row)
            if region.language:
                questions.append(
                    dataclasses.replace(
                        row, language=region.language_code, question=f"O que foi {i}?"
                    )
                )
    return questions, articles


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
