"""A run: a folder with a run.toml, a journal per stage, a manifest and the release.

`Run.upto("select")` runs the stages in order as far as that one; what is journaled is skipped, so
that a run that was stopped or killed goes on where it was.
"""

import fcntl
import importlib.metadata
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from builder import check, collect, generate, retrieve, select, translate
from builder.records import Article, Event, RegionYear
from builder.release import About, Edition, ModelUse, PromptUse, write_release
from builder.settings import GenerateSettings, TranslateSettings, read_settings
from builder.web import Web
from tiebe.engine import Outcome, Stage, Workers, run_stage
from tiebe.errors import SettingsError
from tiebe.journal import Journal
from tiebe.llm import Model
from tiebe.prompts import Prompt, load_prompt
from tiebe.records import Group
from tiebe.regions import REGIONS

__all__ = ["STAGES", "Run", "in_turn"]

STAGES = ("collect", "retrieve", "generate", "select", "translate", "check", "release")
"""In their order; each has a module, a verb and, but for the last, a journal of its name."""


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
        return self._stack.enter_context(Journal(self.folder / name, fsync=fsync))

    def _run(self, stage: Stage, records: Iterable[Any], workers: int) -> Outcome:
        journal = self._journal(stage.name, fsync=stage.paid)
        outcome = run_stage(stage, records, journal, workers=workers, progress=self.progress)
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
    def _budget(self) -> Any:
        budget = self.settings.make_budget()
        for entry in self._replies:
            budget.add(str(entry.rows[0]["asked"]), entry.usage or {})
        return budget

    def _paid(self, stage: str) -> GenerateSettings | TranslateSettings:
        return self.settings.generate if stage == "generate" else self.settings.translate

    def _model(self, stage: str) -> Model:
        name = self._paid(stage).model or self.settings.generate.model
        if not name:
            raise SettingsError(
                f"{self.folder / 'run.toml'}: no model under [generate]: name one, such as "
                "'deepseek:deepseek-chat', or 'replay:FILE' for recorded replies"
            )
        return self.settings.open_model(name, replies=self._replies, budget=self._budget)

    def _prompt(self, stage: str) -> Prompt:
        return load_prompt(stage, self._paid(stage).prompt or None)

    @cached_property
    def articles(self) -> Mapping[str, Article]:
        """The articles by id, read from the journal when they are asked for."""
        return self.retrieve.index(Article)

    # ---- the stages

    def upto(self, name: str) -> None:
        """Runs the stages as far as `name` and writes the manifest.

        Raises:
            TiebeError: What ends a run; the work done until then is kept.
        """
        for paid in ("generate", "translate"):
            if STAGES.index(name) >= STAGES.index(paid):
                self._model(paid)  # a missing key shows now, not after hours of fetching
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

    @cached_property
    def generate(self) -> Outcome:
        """Articles to candidates."""
        own = self.settings.generate
        articles = in_turn(self.retrieve.records())
        stage = generate.stage(self._model("generate"), self._prompt("generate"), own.candidates)
        return self._run(stage, articles, self.workers)

    @cached_property
    def select(self) -> Outcome:
        """An event's candidates to its question."""
        groups: dict[str, list[Any]] = defaultdict(list)
        for candidate in self.generate.records():
            groups[candidate.event.id].append(candidate)
        count = self.settings.generate.questions_per_event
        stage = select.stage(self.articles, count, self.settings.release.version)
        return self._run(stage, _gathered(groups), 1)

    @cached_property
    def translate(self) -> Outcome:
        """Questions of regions with a native language to their native rows."""
        questions = [q for q in self.select.records() if REGIONS[q.region].language]
        stage = translate.stage(self._model("translate"), self._prompt("translate"))
        return self._run(stage, questions, self.workers)

    @cached_property
    def check(self) -> Outcome:
        """A region's rows to the same rows with flags."""
        groups: dict[str, list[Any]] = defaultdict(list)
        for outcome in (self.select, self.translate):
            for row in outcome.records():
                groups[row.region].append(row)
        return self._run(check.stage(self.articles), _gathered(groups), 1)

    @cached_property
    def release(self) -> Path:
        """Writes the release and returns its folder."""
        rows = self.check
        own = self.settings.release
        folder = self.folder / "release"
        edition = Edition(own.version, own.texts, self._about())
        write_release(folder, rows.records(), self.retrieve.records(), edition)
        return folder

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
            models.append(ModelUse(name, self._model(name).name, tuple(served)))
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


def _gathered(groups: Mapping[str, list[Any]]) -> Iterator[Group]:
    """Groups by name, their members by id, whatever order they came in."""
    for name in sorted(groups):
        yield Group(name, tuple(sorted(groups[name], key=_by_id)))


def _by_id(record: Any) -> tuple[str, str]:
    return record.id, getattr(record, "language", "")


def in_turn(articles: Iterable[Article]) -> list[Article]:
    """Returns articles region by region in turn, newest events first.

    A run that its budget stops has then as much of each region as of any other.
    """
    by_region: dict[str, list[Article]] = defaultdict(list)
    for article in articles:
        by_region[article.event.region].append(article)
    ranked = []
    for region, members in by_region.items():
        members.sort(key=lambda a: (a.event.start or "", a.id), reverse=True)
        ranked += [(rank / len(members), region, article) for rank, article in enumerate(members)]
    ranked.sort(key=lambda item: item[:2])
    return [article for _, _, article in ranked]
