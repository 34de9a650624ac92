"""A run: a folder with a run.toml, a journal per stage, a manifest and the release.

`Run.upto("select")` runs the stages in order as far as that one; what is journaled is skipped, so
that a run that was stopped or killed goes on where it was.
"""

import fcntl
import importlib.metadata
import json
import logging
import re
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from builder import check, collect, generate, retrieve, select, translate
from builder.audit import Stored, read_sources, write_audit
from builder.matching import MAINTAINER, Carried, Rulings, carry_on, untranslated
from builder.plan import Base, Estimator, Outlook, Plan, in_turn, make_plan, waves
from builder.records import Article, Decision, Event, RegionYear
from builder.release import (
    About,
    Edition,
    ModelUse,
    PromptUse,
    read_about,
    read_articles,
    read_questions,
    write_release,
)
from builder.review import DECISIONS, read_decisions, write_decisions
from builder.settings import GenerateSettings, TranslateSettings, read_settings
from builder.web import Web
from tiebe.batches import batched
from tiebe.engine import Engine, Outcome, Stage, Workers, run_stage
from tiebe.errors import BudgetError, SettingsError
from tiebe.journal import Entry, Journal
from tiebe.llm import Budget, Model
from tiebe.load import HUB, download_release, version_key
from tiebe.prompts import Prompt, load_prompt
from tiebe.records import Drop, Question, from_row, record_id

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
        engine: What runs the stages.

    Raises:
        SettingsError: `run.toml` is missing or wrong, or another process works on this run.
        RecordError: A journal is damaged; the message names the line.
    """

    def __init__(
        self,
        folder: Path,
        *,
        progress: bool = True,
        workers: int = 16,
        engine: Engine = run_stage,
    ) -> None:
        self.folder = folder
        self.settings = read_settings(folder / "run.toml")
        self.progress = progress
        self.workers = workers
        self._engine = engine
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
        journal = self._journal(stage.name, fsync=stage.paid)
        outcome = self._engine(stage, records, journal, workers=workers, progress=self.progress)
        self.outcomes[stage.name] = outcome
        return outcome

    def _tell(self, stage: Stage, records: Iterable[Any], workers: int) -> Outcome:
        """Returns what is known of a stage without running it."""
        keys = {stage.key(record): record.id for record in records}
        outcome = Outcome(stage, self._journal(stage.name, fsync=stage.paid), keys, {})
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

    # ---- the release before

    @cached_property
    def base(self) -> Path | None:
        """The folder of the release that this one goes on from; one of the Hub is downloaded.

        Raises:
            SettingsError: It is no release, or none before this one.
            VersionError: The Hub has no such release, or cannot be reached.
        """
        name, own = self.settings.release.base, self.settings.release.version
        if not name:
            return None
        folder = Path(name)
        if not folder.is_dir():
            repo, _, tag = name.rpartition("@")
            if not re.fullmatch(r"v?20\d\d\.\d\d(\.\d+)?", tag):
                raise SettingsError(
                    f"{self.folder / 'run.toml'}: release.base {name!r} is neither a folder nor a "
                    f"tag such as 'v2025.03' (of {HUB}) or 'owner/name@v2025.03'"
                )
            folder = download_release(repo or HUB, tag)
        versions = sorted({row.version for row in read_questions(folder, splits=["english"])})
        if len(versions) != 1 or version_key(versions[0]) >= version_key(own):
            raise SettingsError(
                f"{self.folder / 'run.toml'}: release.base {name!r} holds "
                f"{' and '.join(versions) or 'no rows'}: expected one release before {own}"
            )
        return folder

    @cached_property
    def decisions(self) -> list[Decision]:
        """What maintainers decided: on the base, and on this run's own release as it stands."""
        places = [self.folder, self.folder / "release"]
        found = [d for place in [self.base, *places] if place for d in read_decisions(place)]
        rows = read_questions(self.base, splits=["english"]) if self.base and found else ()
        events = {row.id: row.event_id for row in rows}
        located = (replace(d, event_id=d.event_id or events.get(d.id, "")) for d in found)
        return list(dict.fromkeys(located))

    @cached_property
    def carried(self) -> Carried:
        """What goes on of the base, decided before anything is fetched or paid."""
        if self.base is None:
            return self._carry(())
        carried = self._carry(e for e in self.collect.records() if isinstance(e, Event))
        counts = ", ".join(f"{n:,} {name}" for name, n in carried.counts().items())
        log.info("base %s: %s", self.settings.release.base, counts)
        return carried

    def _carry(self, events: Iterable[Event]) -> Carried:
        rows = read_questions(self.base) if self.base else ()
        rulings, version = Rulings(self.decisions), self.settings.release.version
        return carry_on(rows, events, rulings, version, self._recheck)

    def _recheck(self, rows: Sequence[Question]) -> Iterator[Question]:
        for group in check.groups(rows):
            yield from check.check(group, articles=self._base_sources)

    @cached_property
    def _base_sources(self) -> Mapping[str, Stored]:
        return read_sources(self.base) if self.base else {}

    @cached_property
    def sources(self) -> Mapping[str, check.Source]:
        """The articles of all rows by id: those of this run, then those of the base."""
        return ChainMap(self.articles, self._base_sources)  # type: ignore[arg-type]

    def _priorities(self, carried: Carried) -> Base | None:
        """What is to be paid first."""
        if self.base is None:
            return None
        version = next(row.version for row in read_questions(self.base, splits=["english"]))
        return Base(version[:7].replace(".", "-"), dict.fromkeys(carried.anew, True))

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
    def wanted(self) -> list[Event]:
        """The events that a question is still to be asked about."""
        settled = self.carried.settled
        return [e for e in self.collect.records() if isinstance(e, Event) and e.id not in settled]

    @cached_property
    def retrieve(self) -> Outcome:
        """Events to articles."""
        # Wikimedia and the newspapers are told the same operator, unless run.toml names another.
        contact = self.settings.web.contact or self.settings.pages.contact
        web = self._stack.enter_context(Web(replace(self.settings.web, contact=contact)))
        stage = retrieve.stage(web, self._workers, self.settings.release.cutoff)
        outcome = self._run(stage, self.wanted, self.settings.web.workers)
        retrieve.shifts(self.wanted, outcome, web, self._workers)
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
        articles = in_turn(found, self._priorities(self.carried))
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
        if self.ended or not admitted:
            self._wave(stage, admitted, last, pay=False)
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

    def _wave(
        self, stage: Stage, articles: Sequence[Article], last: str, *, pay: bool = True
    ) -> None:
        """Generates, selects and translates as far as `last`; what is done is not done again.

        Without `pay`, what is not paid for yet stays pending.
        """
        run = self._run if pay else self._tell
        run(stage, articles, self.workers)
        if last == "generate":
            return
        own = self.settings
        count, version = own.generate.questions_per_event, own.release.version
        candidates = self.outcomes["generate"].records()
        stay = [row for row in self.carried.rows if row.split == "english"]
        groups = select.groups(candidates, stay)
        self._run(select.stage(self.articles, count, version), groups, 1)
        if last == "select":
            return
        rows = self.carried.with_new(self.outcomes["select"].records())
        questions = untranslated(rows)
        translator = self._open(self._model_name("translate"))
        run(translate.stage(translator, self._prompt("translate")), questions, self.workers)

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
        rows = self.carried.with_new(self.outcomes["select"].records())
        questions = [q for q in rows if q.split == "english" and q.event_id in events]
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
        native, version = self.translate, self.settings.release.version
        held = {
            member
            for key, member in native.inputs.items()
            if key not in native.journal and key not in native.failed
        }
        new = self.carried.with_new(self.outcomes["select"].records())
        rows = [row for row in new if not (row.id in held and row.since == version)]
        rows = self.carried.complete([*rows, *native.records()], self._tried())
        outcome = self._run(check.stage(self.sources), check.groups(rows), 1)
        flagged = list(outcome.records())
        title = f"Audit of release {self.settings.release.version}"
        write_audit(self.folder, flagged, self.sources, title=title)
        return outcome

    def _tried(self) -> set[str]:
        """Ids of the events and questions of which the journals tell that nothing came of them."""
        names = ("retrieve", *PAID)
        outcomes = [self.outcomes[name] for name in names]
        lost = {d.record_id for o in outcomes for d in o.drops() if d.reason != "failed"}
        return lost | {a.event.id for a in self.retrieve.records() if a.id in lost}

    @cached_property
    def release(self) -> Path:
        """Writes the release and returns its folder.

        Raises:
            SettingsError: There is not one question.
        """
        rows = list(self.check.records())
        if not rows:
            raise SettingsError(
                f"{self.folder}: there is no question to release; `tiebe-build status` tells what "
                f"was left out, and why{': ' + self.ended if self.ended else ''}"
            )
        own = self.settings.release
        folder, decided = self.folder / "release", self.folder / DECISIONS
        if self.decisions:
            write_decisions(decided, self.decisions)
        edition = Edition(
            own.version,
            own.texts,
            self._about(rows),
            base=self.base,
            reasons=self.carried.reasons,
            decisions=decided if self.decisions else None,
        )
        write_release(folder, rows, self._texts(), edition)
        return folder

    def _texts(self) -> Iterator[Article | dict[str, Any]]:
        """The articles of this run, then those that rows of the base were written from."""
        yield from self.retrieve.records()
        rows = (*self.carried.rows, *self.carried.fallbacks)
        events = {row.article_id: row.event_id for row in rows}
        for row in read_articles(self.base) if self.base else ():
            member = row["article_id"]
            if member not in self.articles:
                yield row | {"event_id": events.get(member, row["event_id"])}

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
        stages = generate.stage(writing), translate.stage(translator, prompt)
        outlook, carried = self._outlook(*stages, estimator)
        return make_plan(outlook, estimator, self._priorities(carried))

    def _outlook(
        self, writing: Stage, translating: Stage, estimator: Estimator
    ) -> tuple[Outlook, Carried]:
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
        carried = self._carry(events.values())
        events = {member: e for member, e in events.items() if member not in carried.settled}
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
        wanting = []
        selected: dict[str, list[Question]] = {}  # of an event the last line counts
        for entry in self._journal("select"):
            found = list(_records(entry, Question))
            selected |= {question.event_id: found for question in found}
        questions = [question for found in selected.values() for question in found]
        for question in untranslated(carried.with_new(questions)):
            done = self._journal("translate", fsync=True).get(translating.key(question))
            if done is None:
                wanting.append(question)
            else:
                estimator.learn_translation(question, done.usage or {})
        if selected:
            estimator.learn_selection(len(articles) - len(unwritten), len(questions))
        return Outlook(sorted(unread), awaited, unwritten, wanting), carried

    # ---- what is told about it

    def _about(self, rows: Iterable[Question]) -> About:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for record in self.collect.records():
            if isinstance(record, Event):
                counts[record.region]["events"] += 1
                counts[record.region]["references"] += len(record.references)
        for article in self.retrieve.records():
            counts[article.event.region]["articles"] += 1
        writers: dict[str, set[str]] = {"generate": set(), "translate": set()}
        used = set()
        for row in rows:
            used.add(row.prompt)
            if row.writer != MAINTAINER:
                writers["generate" if row.split == "english" else "translate"].add(row.writer)
            if row.split == "english" and row.article_id and row.article_id not in self.articles:
                counts[row.region]["articles"] += 1
        prompts, models = [], []
        for name, served in writers.items():
            prompt = self._prompt(name)
            prompts.append(PromptUse(prompt.id, prompt.sha256))
            models.append(ModelUse(name, self._model_name(name), tuple(sorted(served))))
        for use in read_about(self.base).prompts if self.base else ():
            if use not in prompts and use.name in used:
                prompts.append(use)
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
            articles = self.outcomes["retrieve"]
            rows = retrieve.statistics(self.wanted, articles.records(), articles.drops())
            manifest["articles"] = rows
            if self.base:
                manifest["base"] = self.carried.counts()
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
