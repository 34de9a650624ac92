from dataclasses import replace

from builder.records import Article, Candidate, Drop, Event
from builder.select import select
from tiebe.records import Group, Question, record_id

EVENT = Event(
    "Brazil", 2019, "p" * 16, "2019 in Brazil", 7, "2019-01-25", None, "day", "A dam breaks."
)
TEXT = "The Brumadinho dam broke on 25 January 2019. Vale owned it; 270 people died."
ARTICLE = Article(EVENT, "https://news.example/dam", None, "Dam breaks", None, TEXT)
GOOD = Candidate(
    EVENT,
    ARTICLE.id,
    ARTICLE.url,
    None,
    ARTICLE.title,
    "Which company owned the Brumadinho dam that broke in January 2019?",
    "Vale",
    "m-1",
    "generate@1",
)


def pick(*candidates: Candidate, count: int = 1) -> list[Question | Drop]:
    group = Group(EVENT.id, candidates)
    return list(select(group, articles={ARTICLE.id: ARTICLE}, count=count, version="2025.04"))


def test_the_best_candidate_becomes_the_question() -> None:
    worse = replace(GOOD, question="Who is the owner of it, in January 2019?")
    (row,) = pick(worse, GOOD)
    assert isinstance(row, Question)
    assert row.question == GOOD.question and row.flags == ()
    assert row.id == record_id(EVENT.id, GOOD.question)
    assert (row.year, row.month, row.date, row.region) == ("2019", "01", "2019-01-25", "Brazil")
    assert (row.page_revision, row.since, row.version) == (7, "2025.04", "2025.04")


def test_more_are_picked_on_demand() -> None:
    other = replace(GOOD, question="How many died at Brumadinho in January 2019?", answer="270")
    assert len(pick(GOOD, other, count=2)) == 2


def test_an_answer_that_the_article_does_not_give_is_not_picked() -> None:
    (drop,) = pick(replace(GOOD, answer="Petrobras"), replace(GOOD, answer="300 people"))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.record_id) == ("no_good_question", EVENT.id)


def test_the_order_of_the_candidates_does_not_matter() -> None:
    twins = [replace(GOOD, question=f"Which firm number {n} owned it in 2019?") for n in range(5)]
    assert pick(*twins) == pick(*reversed(twins))
