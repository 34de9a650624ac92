"""Plan: what a run's paid work costs before it is paid, in which order and waves it is done.

Tokens are estimated from characters by script (`tiebe.llm.count_tokens`) and corrected by the usage
that servers have reported so far; no tokenizer's vocabulary is fetched.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from builder import generate, translate
from builder.records import Article, Event
from tiebe.llm import Budget, Model, count_tokens
from tiebe.prompts import Prompt
from tiebe.records import Question
from tiebe.regions import REGIONS

__all__ = [
    "TIERS",
    "Base",
    "Estimator",
    "Item",
    "Outlook",
    "Plan",
    "Usage",
    "in_turn",
    "make_plan",
    "tier",
    "waves",
]

EVENTS = 89
"""Events of a page, before it has been read, and the share of them that keep an article, before
their references have been fetched: the paper has 21,087 on 237 pages, and 17,370 articles."""
KEPT = 0.82
ARTICLE = 900
"""Tokens of an article, before any has been fetched."""
PAIR = 50
"""Tokens of a question with its answer in English, and the JSON around them."""
FRAME = 10
"""Those of the JSON alone."""
VERDICT = 60
"""Tokens of a reply that tells whether an answer is grounded."""
_GROWTH = {"Latn": 1.3, "Cyrl": 1.7, "Hans": 1.25, "Deva": 3.3, "Ethi": 3.8}
"""Tokens of a translation for each of the original, by script; measured on published rows."""
WAVE = 0.05
"""The share of the articles that is worked off at once under a budget."""

TIERS = ("new events", "flagged rows", "backfill")
"""What a budget is spent on, in this order."""


# ---- the order


@dataclass(frozen=True, slots=True)
class Base:
    """The release that a run goes on from, as far as it sets priorities."""

    cutoff: str
    """Its last month, `YYYY-MM`."""
    flagged: Mapping[str, bool] = field(default_factory=dict)
    """By event id: whether a question on it bears a flag."""


def tier(event: Event, base: Base | None) -> int:
    """Returns the position in `TIERS` of what a question on this event would be."""
    if base is None or (event.start or "")[:7] > base.cutoff:
        return 0
    return 1 if base.flagged.get(event.id) else 2


class Work(Protocol):
    """Something that is to be paid for."""

    @property
    def id(self) -> str:
        """Settles the order of equals."""

    @property
    def event(self) -> Event:
        """What it is on."""


W = TypeVar("W", bound=Work)


def in_turn(works: Iterable[W], base: Base | None = None) -> list[W]:
    """Returns work tier by tier, and in each region by region in turn, newest events first.

    Any first part of it has the same share of each region, so that a run which its budget stops is
    balanced.
    """
    groups: dict[tuple[int, str], list[W]] = defaultdict(list)
    for work in works:
        groups[tier(work.event, base), work.event.region].append(work)
    ranked = []
    for (priority, region), members in groups.items():
        members.sort(key=lambda work: (work.event.start or "", work.id), reverse=True)
        ranked += [
            (priority, (rank + 0.5) / len(members), region, work)
            for rank, work in enumerate(members)
        ]
    ranked.sort(key=lambda item: item[:3])
    return [work for *_, work in ranked]


# ---- what it costs


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, tokens and dollars; of an estimate they need not be whole."""

    calls: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )

    def __mul__(self, factor: float) -> "Usage":
        return Usage(
            self.calls * factor,
            self.prompt_tokens * factor,
            self.completion_tokens * factor,
            self.cost * factor,
        )

    @property
    def tokens(self) -> float:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass
class _Seen:
    """What was used where so much had been expected."""

    count: int = 0
    expected: float = 0.0
    prompt: float = 0.0
    completion: float = 0.0
    calls: float = 0.0

    def add(self, expected: float, usage: Mapping[str, int]) -> None:
        self.count += 1
        self.expected += expected
        self.prompt += usage.get("prompt_tokens", 0)
        self.completion += usage.get("completion_tokens", 0)
        self.calls += usage.get("calls", 1)


@dataclass
class Estimator:
    """Estimates what questions and translations cost, the better the more it has seen.

    Attributes:
        writing: Who writes, and how.
        translator: Who translates.
        prompt: The translator's.
        budget: For the prices.
    """

    writing: generate.Writing
    translator: Model
    prompt: Prompt
    budget: Budget
    _writings: _Seen = field(default_factory=_Seen)
    _translations: dict[str, _Seen] = field(default_factory=lambda: defaultdict(_Seen))
    _questions: int = 0
    _articles: int = 0

    @property
    def seen(self) -> int:
        """The number of results that correct the estimate."""
        return self._writings.count + sum(seen.count for seen in self._translations.values())

    def write(self, article: Article) -> Usage:
        """Returns what the candidates of an article cost."""
        prompt, completion, calls = self._expected(article)
        return self._usage(self.writing.model, self._writings, prompt, completion, calls)

    def translate(self, question: Question) -> Usage:
        """Returns what a translation costs; nothing where the region has no native language."""
        language = REGIONS[question.region].language
        if language is None:
            return Usage()
        seen = self._translations[language.code]
        if not seen.count and any(s.count for s in self._translations.values()):
            seen = _total(self._translations.values(), _translated(question, language.script))
        completion = _translated(question, language.script)
        return self._usage(self.translator, seen, self._asked(question), completion, 1.0)

    def whole(self, article: Article) -> Usage:
        """Returns what an article costs until its question is there in both languages."""
        share = self._questions / self._articles if self._articles else 1.0
        return self.write(article) + self.translate(_typical_question(article.event)) * share

    def learn_writing(self, article: Article, usage: Mapping[str, int]) -> None:
        """Takes in what an article's candidates were paid."""
        self._writings.add(self._expected(article)[0], usage)

    def learn_selection(self, articles: int, questions: int) -> None:
        """Takes in how many questions came of so many articles."""
        self._articles += articles
        self._questions += questions

    def learn_translation(self, question: Question, usage: Mapping[str, int]) -> None:
        """Takes in what a translation was paid."""
        self._translations[REGIONS[question.region].language_code].add(self._asked(question), usage)

    def _expected(self, article: Article) -> tuple[float, float, float]:
        """Prompt tokens, completion tokens and calls for an article, not corrected."""
        writing = self.writing
        prompt: float = _tokens(generate.messages_for(article, writing))
        completion, calls = float(PAIR * writing.count), 1.0
        if writing.grounding:
            prompt += writing.count * prompt
            completion += writing.count * VERDICT
            calls += writing.count
        return prompt, completion, calls

    def _asked(self, question: Question) -> float:
        return _tokens(translate.messages_for(question, self.prompt))

    def _usage(
        self, model: Model, seen: _Seen, prompt: float, completion: float, calls: float
    ) -> Usage:
        if seen.count:
            prompt *= seen.prompt / max(1.0, seen.expected)
            completion = seen.completion / seen.count
            calls = seen.calls / seen.count
        usage = {"prompt_tokens": round(prompt), "completion_tokens": round(completion)}
        return Usage(calls, prompt, completion, self.budget.price(model.name, usage))

    def worst(self, articles: Iterable[Article]) -> Usage:
        """Returns what one call may cost at the most, as `Budget.reserved` holds it back."""
        longest = max(
            (_tokens(generate.messages_for(a, self.writing)) for a in articles), default=0
        )
        found = []
        for model, prompt in ((self.writing.model, longest), (self.translator, 500)):
            usage = {"prompt_tokens": prompt * 3 // 2, "completion_tokens": model.max_tokens}
            cost = self.budget.price(model.name, usage)
            found.append(Usage(1, usage["prompt_tokens"], usage["completion_tokens"], cost))
        return max(found, key=lambda one: (one.cost, one.tokens))


def _tokens(messages: Sequence[Mapping[str, str]]) -> int:
    return sum(count_tokens(message["content"]) for message in messages)


def _translated(question: Question, script: str) -> float:
    """Tokens of a translation, with the JSON around it."""
    return FRAME + _GROWTH[script] * count_tokens(f"{question.question} {question.answer}")


def _total(parts: Iterable[_Seen], completion: float) -> _Seen:
    """What was seen of other languages, with replies as long as this one's."""
    total = _Seen()
    for seen in parts:
        total.count += seen.count
        total.expected += seen.expected
        total.prompt += seen.prompt
        total.calls += seen.calls
    total.completion = total.count * completion
    return total


def _typical_question(event: Event) -> Question:
    """A question of the usual length on an event."""
    start = event.start or str(event.year)
    return Question(
        id="",
        event_id="",
        article_id=None,
        region=event.region,
        language="en",
        year=start[:4],
        month=start[5:7],
        date=start,
        end_date=None,
        event_desc="",
        question="word " * 20,
        answer="word " * 5,
        source_url="",
        archive_url=None,
        source_title="",
        page_title="",
        page_revision=None,
        writer="",
        prompt="",
    )


def _typical_article(event: Event) -> Article:
    """An article of the usual length on an event."""
    return Article(event, "", None, "word " * 10, None, "some " * round(ARTICLE * 4 / 5))


# ---- waves


def waves(
    articles: Sequence[Article],
    estimator: Estimator,
    *,
    paid: Callable[[Article], bool],
) -> Iterator[list[Article]]:
    """Yields the articles that are worked off next, until the budget has no room for more.

    Without a budget that is all of them. Under one it is a small part at a time, so that each
    question gets its translation before the next one is paid for; the last part is cut to what is
    left. What one call may cost at the most stays in reserve, since no call is made that could pass
    the budget.

    Args:
        articles: In the order of `in_turn`.
        estimator: Corrected between two waves.
        paid: Whether an article's candidates are there already.
    """
    if not estimator.budget.limited:
        if articles:
            yield list(articles)
        return
    size = max(1, round(len(articles) * WAVE))
    at = 0
    while at < len(articles):
        wave = _fitting(articles[at : at + size], estimator, paid)
        if not wave:
            return
        yield wave
        at += len(wave)


def _fitting(
    articles: Sequence[Article], estimator: Estimator, paid: Callable[[Article], bool]
) -> list[Article]:
    """The first of some articles that the rest of the budget is enough for."""
    needed = estimator.worst(article for article in articles if not paid(article))
    wave = []
    for article in articles:
        if not paid(article):
            needed += estimator.whole(article)
            if not estimator.budget.fits(round(needed.tokens), needed.cost):
                break
        wave.append(article)
    return wave


# ---- the plan


@dataclass(frozen=True, slots=True)
class Item:
    """A question that may come, with what it still costs."""

    event: Event
    weight: float
    """How surely it comes, 0 to 1."""
    write: Usage
    translate: Usage

    @property
    def id(self) -> str:
        """The event's."""
        return self.event.id

    @property
    def usage(self) -> Usage:
        """What it is expected to cost."""
        return (self.write + self.translate) * self.weight


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run has to work on, as far as it is known."""

    pages: Sequence[tuple[str, int]] = ()
    """Region and year of those that are not read yet."""
    events: Sequence[Event] = ()
    """Those whose references are not fetched yet."""
    articles: Sequence[Article] = ()
    """Those that no question has been written from yet."""
    questions: Sequence[Question] = ()
    """Those that are not translated yet."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be paid, and what a budget buys of it."""

    items: Sequence[Item]
    """In the order in which they are paid for."""
    translate: Usage
    """For questions that are there and only want their translation."""
    budget: Budget
    base: Base | None
    fetches: Sequence[tuple[str, int]]
    """Hosts with the number of documents to fetch, the most first."""
    how: Sequence[str]
    """How it was estimated."""

    @property
    def usage(self) -> Usage:
        """Of all that is to be paid."""
        return sum((item.usage for item in self.items), self.translate)

    def stages(self) -> dict[str, Usage]:
        """Returns the usage by paid stage."""
        write = sum((item.write * item.weight for item in self.items), Usage())
        rest = sum((item.translate * item.weight for item in self.items), self.translate)
        return {"generate": write, "translate": rest}

    def bought(self) -> list[Item]:
        """Returns the first items that the rest of the budget is enough for."""
        needed, bought = self.translate, []
        for item in self.items:
            needed += item.usage
            if not self.budget.fits(round(needed.tokens), needed.cost):
                break
            bought.append(item)
        return bought

    def shares(self) -> dict[str, tuple[float, float]]:
        """Returns per region the questions to come and those that the budget buys."""
        total: Counter[str] = Counter()
        bought: Counter[str] = Counter()
        for counter, items in ((total, self.items), (bought, self.bought())):
            for item in items:
                counter[item.event.region] += item.weight  # type: ignore[assignment]
        return {region: (total[region], bought[region]) for region in sorted(total)}

    def tiers(self) -> dict[str, tuple[float, float]]:
        """Returns the same per tier, for a run that goes on from a base."""
        total = [0.0] * len(TIERS)
        bought = [0.0] * len(TIERS)
        for counter, items in ((total, self.items), (bought, self.bought())):
            for item in items:
                counter[tier(item.event, self.base)] += item.weight
        return {name: (of, part) for name, of, part in zip(TIERS, total, bought, strict=True) if of}

    def lines(self, delay: float) -> Iterator[str]:
        """Yields the plan as text.

        Args:
            delay: Seconds between two documents of a host.
        """
        yield f"{'':<12} {'calls':>9} {'tokens in':>13} {'tokens out':>12} {'dollars':>9}"
        for name, usage in {**self.stages(), "both": self.usage}.items():
            yield (
                f"{name:<12} {usage.calls:>9,.0f} {usage.prompt_tokens:>13,.0f} "
                f"{usage.completion_tokens:>12,.0f} {usage.cost:>9,.2f}"
            )
        spent = self.budget
        if spent.tokens:
            yield f"paid so far: {spent.tokens:,} tokens, {spent.cost:,.2f} dollars"
        shares = self.shares()
        total = sum(of for of, _ in shares.values())
        bought = sum(part for _, part in shares.values())
        yield ""
        yield f"questions to come: {total:,.0f}"
        if spent.limited and total:
            yield f"a budget of {spent.limits} buys {bought:,.0f} of them, {bought / total:.0%}"
            if self.base is not None:
                for name, (of, part) in self.tiers().items():
                    yield f"  {name}: {part:,.0f} of {of:,.0f}"
            for region, (of, part) in shares.items():
                yield f"  {REGIONS[region].name:<34} {part:>7,.0f} of {of:>7,.0f} {part / of:>5.0%}"
        elif total:
            for region, (of, _) in shares.items():
                yield f"  {REGIONS[region].name:<34} {of:>7,.0f}"
        if self.fetches:
            documents = sum(count for _, count in self.fetches)
            hours = delay * self.fetches[0][1] / 3600
            yield ""
            yield f"documents to fetch: {documents:,}, {hours:,.1f} hours or more, by host:"
            for host, count in self.fetches[:5]:
                yield f"  {host:<34} {count:>7,} {delay * count / 3600:>7,.1f} h"
        yield ""
        yield "How this is estimated:"
        yield from (f"  - {sentence}" for sentence in self.how)


def make_plan(outlook: Outlook, estimator: Estimator, base: Base | None = None) -> Plan:
    """Returns the plan of a run's paid work.

    Args:
        outlook: What there is to work on.
        estimator: Its budget says what is spent, and what may be.
        base: The release that the run goes on from.
    """
    awaited = [event for event in outlook.events if event.references]
    unread = [
        _typical_event(region, year, number)
        for region, year in outlook.pages
        for number in range(EVENTS)
    ]
    items = [
        Item(article.event, 1.0, estimator.write(article), estimator.translate(question))
        for article in outlook.articles
        for question in [_typical_question(article.event)]
    ]
    typical: dict[str, tuple[Usage, Usage]] = {}
    for event in (*awaited, *unread):
        if event.region not in typical:
            article, question = _typical_article(event), _typical_question(event)
            typical[event.region] = estimator.write(article), estimator.translate(question)
        items.append(Item(event, KEPT, *typical[event.region]))
    pending = sum((estimator.translate(question) for question in outlook.questions), Usage())
    hosts = Counter(
        urlsplit(reference.url).hostname or "?"
        for event in awaited
        for reference in event.references
    )
    return Plan(
        in_turn(items, base),
        pending,
        estimator.budget,
        base,
        hosts.most_common(),
        list(_how(outlook, awaited, estimator)),
    )


def _how(outlook: Outlook, awaited: Sequence[Event], estimator: Estimator) -> Iterator[str]:
    if outlook.pages:
        yield (
            f"{len(outlook.pages):,} pages are not read yet: each is taken to list {EVENTS} "
            "events, as in the paper; `tiebe-build collect` makes this exact"
        )
    if outlook.pages or awaited:
        events = f"{len(awaited):,} events are" if awaited else "their references are"
        yield (
            f"{events} not fetched yet: {KEPT:.0%} are taken to keep an article, as in the paper, "
            f"of {ARTICLE:,} tokens; `tiebe-build retrieve` makes this exact"
        )
    if estimator.seen:
        yield (
            f"tokens are counted from characters by script and corrected by what servers reported "
            f"of {estimator.seen:,} results"
        )
    else:
        yield (
            "tokens are counted from characters by script; no server has reported its usage yet, "
            "so a tenth more or less is to be expected, and more of a model that thinks aloud"
        )
    prices = estimator.budget.prices
    for name in dict.fromkeys((estimator.writing.model.name, estimator.translator.name)):
        if name not in prices:
            yield f'{name} has no price: give it in run.toml, [models."{name}"] price'


def _typical_event(region: str, year: int, number: int) -> Event:
    month = 12 - number * 12 // EVENTS
    return Event(
        region,
        year,
        "",
        "",
        None,
        f"{year:04}-{month:02}",
        None,
        "month",
        f"An event {number} " + "word " * 20,
    )
