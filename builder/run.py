"""A run: a folder with a run.toml, a journal per stage, a manifest and the release.

`Run.upto("select")` runs the stages in order as far as that one; what is journaled is skipped, so
that a run that was stopped or killed goes on where it was.
"""

import fcntl
import importlib.metadata
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from builder import check, collect, generate, retrieve, select, translate
from builder.audit import write_audit
from builder.matching import match_events
from builder.plan import Base, Estimator, Outlook, Plan, in_turn, make_plan, waves
from builder.records import Article, Event, RegionYear
from builder.release import About, Edition, ModelUse, PromptUse, read_questions, write_release
from builder.settings import GenerateSettings, TranslateSettings, read_settings
from builder.web import Web
from tiebe.batches import batched
from tiebe.engine import Outcome, Stage, Workers, run_stage
from tiebe.errors import BudgetError, SettingsError
from tiebe.journal import Entry, Journal
from tiebe.llm import Budget, Model
from tiebe.prompts import Prompt, load_prompt
from tiebe.records import Drop, Question, from_row, record_id
from tiebe.regions import REGIONS

__all__ = ["PAID", "STAGES", "Run"]

log = logging.getLogger(__name__)
T = TypeVar("T")

STAGES = ("collect", "retrieve", "generate", "select", "translate", "check", "release")
"""In their order; each has a module, a verb and, but for the last, a journal of its name."""

PAID = ("generate", "select", "translate")
"""Done wave by wave under a budget: what is selected is translated before more is written."""


class Run:
    """A run folder, opened and locked.

    Args:
        folder: Holds `run.toml`.
        progress: Whether progress bars go to stderr.
        workers: Threads that ask models.

    Raises:
        SettingsError: `run.toml` is missing or wrong, or another process works on this run.
        RecordError: A journal is damaged; the message names the line.
    """

    def __init__(self, folder: Path, *, progress: bool = True, workers: int = 16) -> None:
        self.folder = folder
        self.settings = read_settings(folder / "run.toml")
        self.progress = progress
        self.workers = workers
        self.outcomes: dict[str, Outcome] = {}
        self.ended = ""
        """How the budget ended the run, and how to go on; empty when it did not."""
        self._journals: dict[str, Journal] = {}
        self._models: dict[str, Model] = {}
        self._stack = ExitStack()
        self._lock()

    def _lock(self) -> None:
        """Keeps a second process off: two would pay for the same work."""
        file = self._stack.enter_context((self.folder / ".lock").open("w"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._stack.close()
            raise SettingsError(
                f"another process is working on {self.folder}: wait for it, or stop it"
            ) from error

    def close(self) -> None:
        """Lets go of files and processes."""
        self._stack.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _journal(self, name: str, *, fsync: bool = False) -> Journal:
        if name not in self._journals:
            journal = Journal(self.folder / name, fsync=fsync)
            self._journals[name] = self._stack.enter_context(journal)
        return self._journals[name]

    def _run(self, stage: Stage, records: Iterable[Any], workers: int) -> Outcome:
        """Runs a stage; what is known of it is kept, also when the budget ends it."""
        journal = self._journal(stage.name, fsync=stage.paid)
        inputs = list(records)
        try:
            outcome = run_stage(stage, inputs, journal, workers=workers, progress=self.progress)
        except BudgetError:
            keys = {stage.key(record): record.id for record in inputs}
            self.outcomes[stage.name] = Outcome(stage, journal, keys, {})
            raise
        self.outcomes[stage.name] = outcome
        return outcome

    # ---- what the stages need

    @cached_property
    def _workers(self) -> Workers:
        modules = ("builder.wikitext", "builder.extract")
        return self._stack.enter_context(Workers(preload=modules))

    @cached_property
    def _replies(self) -> Journal:
        """Every reply that was paid for, whatever becomes of the record it was for."""
        return self._journal("replies", fsync=True)

    @cached_property
    def _budget(self) -> Budget:
        budget = self.settings.make_budget()
        for entry in self._replies:
            budget.add(str(entry.rows[0]["asked"]), entry.usage or {})
        return budget

    def _paid(self, stage: str) -> GenerateSettings | TranslateSettings:
        return self.settings.generate if stage == "generate" else self.settings.translate

    def _model_name(self, stage: str) -> str:
        name = self._paid(stage).model or self.settings.generate.model
        if not name:
            raise SettingsError(
                f"{self.folder / 'run.toml'}: no model under [generate]: name one, such as "
                "'deepseek:deepseek-chat', or 'replay:FILE' for recorded replies"
            )
        return name

    def _open(self, name: str) -> Model:
        """Opens a model, once."""
        if name not in self._models:
            model = self.settings.open_model(name, replies=self._replies, budget=self._budget)
            if name in self.settings.models and self.settings.models[name].batch:
                model = batched(model, self.folder / "batches" / record_id(name))
            self._models[name] = model
        return self._models[name]

    def _prompt(self, stage: str) -> Prompt:
        return load_prompt(stage, self._paid(stage).prompt or None)

    @cached_property
    def articles(self) -> Mapping[str, Article]:
        """The articles by id, read from the journal when they are asked for."""
        return self.retrieve.index(Article)

    def _base(self, events: Iterable[Event]) -> Base | None:
        """What the base says of the events' priorities; None without one at hand."""
        folder = Path(self.settings.release.base)
        if not self.settings.release.base or not folder.is_dir():
            return None
        rows = list(read_questions(folder, splits=["english"]))
        flagged = {row.event_id for row in rows if row.flags}
        known = {
            match.event_id: match.base_event_id in flagged for match in match_events(rows, events)
        }
        cutoff = max((row.version[:7].replace(".", "-") for row in rows), default="")
        return Base(cutoff, known)

    def _writing(self, open_: Callable[[str], Model]) -> generate.Writing:
        """Who writes, and who checks; `open_` opens a model by its name."""
        own = self.settings.generate
        ground = None
        if own.ground:
            ground = generate.Grounding(open_(own.ground), load_prompt("ground"))
        model, prompt = open_(self._model_name("generate")), self._prompt("generate")
        return generate.Writing(model, prompt, own.candidates, own.article_tokens, ground)

    # ---- the stages

    def upto(self, name: str) -> None:
        """Runs the stages as far as `name` and writes the manifest.

        Raises:
            TiebeError: What ends a run; the work done until then is kept.
        """
        for paid in ("generate", "translate"):
            if STAGES.index(name) >= STAGES.index(paid):
                self._open(self._model_name(paid))  # a missing key shows now, not after hours
        try:
            getattr(self, name)
        finally:
            self.write_manifest()

    @cached_property
    def collect(self) -> Outcome:
        """Region-years to pages and their events."""
        pages = self.settings.pages
        first, last = pages.years
        wanted = [RegionYear(r, y) for r in self.settings.regions() for y in range(first, last + 1)]
        source = collect.open_source(pages, wanted)
        return self._run(collect.stage(source, self._workers), wanted, 4)

    @cached_property
    def retrieve(self) -> Outcome:
        """Events to articles."""
        events = [e for e in self.collect.records() if isinstance(e, Event)]
        web = self._stack.enter_context(Web(self.settings.web))
        stage = retrieve.stage(web, self._workers, self.settings.release.cutoff)
        outcome = self._run(stage, events, self.settings.web.workers)
        retrieve.shifts(events, outcome, web, self._workers)
        return outcome

    @property
    def generate(self) -> Outcome:
        """Articles to candidates."""
        return self._paid_work("generate")

    @property
    def select(self) -> Outcome:
        """An event's candidates to its question."""
        return self._paid_work("select")

    @property
    def translate(self) -> Outcome:
        """Questions of regions with a native language to their native rows."""
        return self._paid_work("translate")

    def _paid_work(self, last: str) -> Outcome:
        """Runs the paid stages as far as `last`, wave by wave, until the budget ends it."""
        if last in self.outcomes:
            return self.outcomes[last]
        found = list(self.retrieve.records())
        articles = in_turn(found, self._base(article.event for article in found))
        writing = self._writing(self._open)
        stage = generate.stage(writing)
        journal = self._journal("generate", fsync=True)
        translator = self._open(self._model_name("translate"))
        estimator = Estimator(writing, translator, self._prompt("translate"), self._budget)
        admitted: list[Article] = []
        try:
            for wave in waves(articles, estimator, paid=lambda a: stage.key(a) in journal):
                admitted += wave
                self._wave(stage, admitted, last)
                if self._budget.limited:
                    self._learn(estimator, wave)
        except BudgetError as error:
            self.ended = str(error)
        for name in PAID[: PAID.index(last) + 1]:
            if name not in self.outcomes:  # nothing was admitted
                self._wave(stage, admitted, name)
        missing = {stage.key(a): a.id for a in articles[len(admitted) :]}
        self.outcomes["generate"].inputs.update(missing)
        if missing and not self.ended:
            self.ended = (
                f"the budget of {self._budget.limits} has no room for more than {len(admitted):,} "
                f"of {len(articles):,} articles: raise it under [budget] and run again to go on; "
                "what was paid for is kept"
            )
        if self.ended:
            log.warning("%s", self.ended)
        return self.outcomes[last]

    def _wave(self, stage: Stage, articles: Sequence[Article], last: str) -> None:
        """Generates, selects and translates as far as `last`; what is done is not done again."""
        self._run(stage, articles, self.workers)
        if last == "generate":
            return
        own = self.settings
        count, version = own.generate.questions_per_event, own.release.version
        candidates = self.outcomes["generate"].records()
        self._run(select.stage(self.articles, count, version), select.groups(candidates), 1)
        if last == "select":
            return
        questions = [q for q in self.outcomes["select"].records() if REGIONS[q.region].language]
        translator = self._open(self._model_name("translate"))
        self._run(translate.stage(translator, self._prompt("translate")), questions, self.workers)

    def _learn(self, estimator: Estimator, articles: Iterable[Article]) -> None:
        """Corrects the estimate by what a wave has really used."""
        events = set()
        writing = self.outcomes["generate"]
        for article in articles:
            entry = writing.journal.get(writing.stage.key(article))
            if entry is not None:
                estimator.learn_writing(article, entry.usage or {})
                events.add(article.event.id)
        if "select" not in self.outcomes:
            return
        questions = [q for q in self.outcomes["select"].records() if q.event_id in events]
        estimator.learn_selection(len(events), len(questions))
        translating = self.outcomes.get("translate")
        for question in questions if translating else ():
            assert translating is not None
            entry = translating.journal.get(translating.stage.key(question))
            if entry is not None:
                estimator.learn_translation(question, entry.usage or {})

    @cached_property
    def check(self) -> Outcome:
        """A region's rows to the same rows with flags.

        A question whose translation was not paid any more is held back until it is.
        """
        native = self.translate
        held = {
            member
            for key, member in native.inputs.items()
            if key not in native.journal and key not in native.failed
        }
        english = (row for row in self.outcomes["select"].records() if row.id not in held)
        rows = [*english, *native.records()]
        outcome = self._run(check.stage(self.articles), check.groups(rows), 1)
        flagged = list(outcome.records())
        title = f"Audit of release {self.settings.release.version}"
        write_audit(self.folder, flagged, self.articles, title=title)
        return outcome

    @cached_property
    def release(self) -> Path:
        """Writes the release and returns its folder."""
        rows = self.check
        own = self.settings.release
        folder = self.folder / "release"
        edition = Edition(own.version, own.texts, self._about())
        write_release(folder, rows.records(), self.retrieve.records(), edition)
        return folder

    # ---- the plan

    def plan(self, *, max_cost: float | None = None) -> Plan:
        """Returns what there is still to be paid; nothing is fetched, asked or changed.

        Args:
            max_cost: A budget in dollars in place of the one in run.toml.
        """
        budget = self._budget
        if max_cost is not None:
            budget = Budget(0, max_cost, budget.prices, budget.tokens, budget.cost)

        def closed(name: str) -> Model:
            return self.settings.planned_model(name, budget)

        writing = self._writing(closed)
        translator = closed(self._model_name("translate"))
        prompt = self._prompt("translate")
        estimator = Estimator(writing, translator, prompt, budget)
        outlook = self._outlook(
            generate.stage(writing), translate.stage(translator, prompt), estimator
        )
        events = [*outlook.events, *(article.event for article in outlook.articles)]
        return make_plan(outlook, estimator, self._base(events))

    def _outlook(self, writing: Stage, translating: Stage, estimator: Estimator) -> Outlook:
        """What is left to be worked on, as the journals tell; the estimate is corrected by them."""
        pages = self.settings.pages
        first, last = pages.years
        unread = {(r, y) for r in self.settings.regions() for y in range(first, last + 1)}
        drops = {record_id(region, year): (region, year) for region, year in unread}
        events: dict[str, Event] = {}
        for entry in self._journal("collect"):
            unread.discard(drops.get(_dropped(entry), ("", 0)))
            for event in _records(entry, Event):
                unread.discard((event.region, event.year))
                if event.region in self.settings.regions() and first <= event.year <= last:
                    events[event.id] = event
        articles: dict[str, Article] = {}
        for entry in self._journal("retrieve"):
            events.pop(_dropped(entry), None)
            for article in _records(entry, Article):
                if events.pop(article.event.id, None):
                    articles[article.id] = article
        cutoff = self.settings.release.cutoff
        awaited = [e for e in events.values() if e.start and e.start[:7] <= cutoff]
        unwritten = []
        for article in articles.values():
            done = self._journal("generate", fsync=True).get(writing.key(article))
            if done is None:
                unwritten.append(article)
            else:
                estimator.learn_writing(article, done.usage or {})
        untranslated = []
        selected: dict[str, list[Question]] = {}  # of an event the last line counts
        for entry in self._journal("select"):
            found = list(_records(entry, Question))
            selected |= {question.event_id: found for question in found}
        questions = [question for found in selected.values() for question in found]
        for question in questions:
            if REGIONS[question.region].language is None:
                continue
            done = self._journal("translate", fsync=True).get(translating.key(question))
            if done is None:
                untranslated.append(question)
            else:
                estimator.learn_translation(question, done.usage or {})
        if selected:
            estimator.learn_selection(len(articles) - len(unwritten), len(questions))
        return Outlook(sorted(unread), awaited, unwritten, untranslated)

    # ---- what is told about it

    def _about(self) -> About:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for record in self.collect.records():
            if isinstance(record, Event):
                counts[record.region]["events"] += 1
                counts[record.region]["references"] += len(record.references)
        for article in self.retrieve.records():
            counts[article.event.region]["articles"] += 1
        prompts, models = [], []
        for name in ("generate", "translate"):
            prompt = self._prompt(name)
            prompts.append(PromptUse(prompt.id, prompt.sha256))
            outcome = self.outcomes[name]
            served = sorted({record.writer for record in outcome.records()})
            models.append(ModelUse(name, self._model_name(name), tuple(served)))
        stages = {
            name: {"in": c["in"], "out": c["out"], **c["dropped"]}
            for name, c in self.counts().items()
        }
        return About(
            as_of=self.settings.pages.as_of,
            prompts=tuple(prompts),
            models=tuple(models),
            counts=counts,
            stages=stages,
        )

    def counts(self) -> dict[str, Any]:
        """Returns the counts of the stages that were run, by name."""
        return {name: self.outcomes[name].counts() for name in STAGES if name in self.outcomes}

    def write_manifest(self) -> None:
        """Writes `manifest.json`: versions, prompts, models, counts, tokens and cost."""
        budget = self._budget
        manifest = {
            "tiebe": importlib.metadata.version("tiebe"),
            "release": self.settings.release.version,
            "prompts": {n: self._prompt(n).id for n in ("generate", "translate")},
            "sha256": {n: self._prompt(n).sha256 for n in ("generate", "translate")},
            "stages": self.counts(),
            "tokens": budget.tokens,
            "cost": round(budget.cost, 6),
            "ended": self.ended,
        }
        if "retrieve" in self.outcomes:
            events = (e for e in self.collect.records() if isinstance(e, Event))
            articles = self.outcomes["retrieve"]
            rows = retrieve.statistics(events, articles.records(), articles.drops())
            manifest["articles"] = rows
        path = self.folder / "manifest.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8")
        part.replace(path)


def _records(entry: Entry, kind: type[T]) -> Iterator[T]:
    """The records of a kind in a line of a journal."""
    for row in entry.rows:
        if row["record"] == kind.__name__:
            yield from_row(kind, row)


def _dropped(entry: Entry) -> str:
    """The id of what a line of a journal says was left out."""
    return from_row(Drop, entry.drop).record_id if entry.drop else ""
