"""The best candidate is picked, and no question is asked twice in a region."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.records import Article, Candidate, Drop, Event
from builder.rules import HARD, Pair, broken, same_question
from builder.select import groups, select
from tiebe.records import Group, Question, record_id

EVENT = Event(
    "Brazil", 2019, "p" * 16, "2019 in Brazil", 7, "2019-01-25", None, "day",
    "The dam of Vale at Brumado breaks.",
)  # fmt: skip
TEXT = "The Brumado dam broke on 25 January 2019. Vale owned it; 270 people died."
ARTICLE = Article(EVENT, "https://news.example/dam", None, "Dam breaks", None, TEXT)
GOOD = Candidate(
    EVENT,
    ARTICLE.id,
    ARTICLE.url,
    None,
    ARTICLE.title,
    "Which company owned the Brumado dam that broke in January 2019?",
    "Vale",
    "m-1",
    "generate@1",
)
DEAD = replace(GOOD, question="How many died at Brumado in January 2019?", answer="270")


def pick(*candidates: Candidate, count: int = 1) -> list[Question | Drop]:
    group = Group(EVENT.id, candidates)
    return list(select(group, articles={ARTICLE.id: ARTICLE}, count=count, version="2025.04"))


def test_the_best_candidate_becomes_the_question() -> None:
    worse = replace(GOOD, question="Which company was the owner of the Brumado dam that broke?")
    bad = replace(GOOD, question="Who is the owner of it, in January 2019?")
    (row,) = pick(worse, bad, GOOD)
    assert isinstance(row, Question)
    assert row.question == GOOD.question and row.flags == ()
    assert row.id == record_id(EVENT.id, GOOD.question)
    assert (row.year, row.month, row.date, row.region) == ("2019", "01", "2019-01-25", "Brazil")
    assert (row.page_revision, row.since, row.version) == (7, "2025.04", "2025.04")


def test_more_are_picked_on_demand_and_none_twice() -> None:
    assert len(pick(GOOD, DEAD, count=2)) == 2
    again = replace(GOOD, question="Which firm owned the Brumado dam that broke in January 2019?")
    assert len(pick(GOOD, again, count=2)) == 1


def test_what_is_dropped_says_which_rules_were_broken() -> None:
    (drop,) = pick(
        replace(GOOD, answer="Petrobras"),
        replace(GOOD, answer="300 people"),
        replace(GOOD, question="Did Vale own the dam of Brumado in January 2019?"),
    )
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.record_id) == ("no_good_question", EVENT.id)
    assert drop.detail == "not_grounded 2, yes_no 1, answer_in_question 1"


def test_an_unsupported_answer_is_not_picked() -> None:
    (row,) = pick(replace(GOOD, supported=False), replace(DEAD, supported=True))
    assert isinstance(row, Question) and row.answer == "270"
    (drop,) = pick(replace(GOOD, supported=False))
    assert isinstance(drop, Drop) and drop.detail == "not_supported 1"


def test_the_order_of_the_candidates_does_not_matter() -> None:
    twins = [replace(GOOD, question=f"{GOOD.question[:-1]} of {w}?") for w in ("A", "Bc", "Def")]
    assert pick(*twins) == pick(*reversed(twins))


# ---- events of a region

WORDS = "bridge tower museum harbour school theatre".split()
TOWNS = "Aurel Brumado Cresta Dornach Elvas".split()


def region(seed: int, size: int) -> tuple[list[Candidate], dict[str, Article]]:
    """Candidates on events that resemble one another, some of them bad, and their articles."""
    draw = random.Random(seed)
    candidates, articles = [], {}
    for number in range(size):
        town, what = draw.choice(TOWNS), draw.choice(WORDS)
        month, cost = draw.randint(1, 3), draw.randint(2, 40)
        start = f"2021-0{month}-{draw.randint(1, 28):02}"
        text = f"The {what} of {town} opens, event {number}."
        event = Event("Brazil", 2021, "p", "2021 in Brazil", None, start, None, "day", text)
        article = Article(
            event, f"https://x.example/{number}", None, "", None,
            f"{text} It was built by Ilse Tarrant and cost {cost} million.",
        )  # fmt: skip
        articles[article.id] = article
        name = ("January", "February", "March")[month - 1]
        asked = [
            (f"Who built the {what} of {town} that opened in {name} 2021?", "Ilse Tarrant"),
            (f"What did the {what} at {town} opened in {name} 2021 cost?", f"{cost} million"),
            (f"Did the {what} of {town} open in {name} 2021?", "Yes"),
            (f"What was built in {town} in May 2020?", f"A {what}"),
            (f"Which {what} opened in {name} 2021 according to the article?", town),
        ]
        for question, answer in draw.sample(asked, draw.randint(1, 4)):
            one = replace(GOOD, event=event, article_id=article.id)
            candidates.append(replace(one, question=question, answer=answer))
    return candidates, articles


def outputs(candidates: Iterable[Candidate], articles: dict[str, Article]) -> Iterator[Any]:
    for group in groups(candidates):
        made = list(select(group, articles=articles, count=1, version="2025.04"))
        assert len(made) == 1
        yield group, made[0]


@given(st.integers(0, 10**6), st.integers(1, 25))
@settings(deadline=None, max_examples=40)
def test_no_selected_question_breaks_a_rule_it_was_selected_by(seed: int, size: int) -> None:
    candidates, articles = region(seed, size)
    made = list(outputs(candidates, articles))
    assert sorted(group.name for group, _ in made) == sorted({c.event.id for c in candidates})
    rows = [row for _, row in made if isinstance(row, Question)]
    for row in rows:
        article = articles[row.article_id or ""]
        pair = Pair(row.question, row.answer, row.region, row.date, "", row.event_desc,
                    article.title, article.text)  # fmt: skip
        assert not HARD & set(broken(pair)), row.question
    asked = [(row.question, row.answer) for row in rows]
    twins = [(a, b) for i, a in enumerate(asked) for b in asked[:i] if same_question(a, b)]
    assert not twins
    for _, drop in made:
        assert isinstance(drop, Question) or drop.reason in ("no_good_question", _TWICE)


_TWICE = "duplicate_question"


@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(1, 24))
@settings(deadline=None, max_examples=30)
def test_older_events_change_nothing_of_what_was_chosen(seed: int, size: int, first: int) -> None:
    candidates, articles = region(seed, size)

    def turn(candidate: Candidate) -> tuple[str, str]:
        return candidate.event.start or "", candidate.article_id

    ordered = sorted({turn(c) for c in candidates}, reverse=True)
    newest = set(ordered[:first])
    early = dict(outputs([c for c in candidates if turn(c) in newest], articles))
    late = dict(outputs(candidates, articles))
    assert early.items() <= late.items()


def test_an_event_takes_its_second_best_where_the_best_was_asked() -> None:
    earlier = replace(
        EVENT, start="2019-01-26", text="The dam of Vale at Brumado is seen to break."
    )
    twin = Article(earlier, "https://news.example/2", None, "", None, TEXT)
    same = replace(GOOD, event=earlier, article_id=twin.id)
    articles = {ARTICLE.id: ARTICLE, twin.id: twin}
    made = {group.name: row for group, row in outputs([GOOD, DEAD, same], articles)}
    assert made[earlier.id].question == GOOD.question
    assert made[EVENT.id].question == DEAD.question
    made = {group.name: row for group, row in outputs([GOOD, same], articles)}
    assert (made[EVENT.id].reason, made[EVENT.id].detail) == (_TWICE, f"{_TWICE} 1")


def test_regions_do_not_mind_each_other() -> None:
    abroad = replace(EVENT, region="World")
    other = replace(GOOD, event=abroad)
    assert all(len(group.members) == 1 for group in groups([GOOD, other]))
