"""`tiebe-build`: makes releases. The only module of the builder that prints."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tiebe.cli import Commands, engine_of, engine_options, start_logging


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiebe")
def main() -> None:
    """Builds a release of TiEBe: pages, events, articles, questions, translations, a Hub commit."""
    start_logging()


@main.command("import-legacy")
@click.argument("source", metavar="FOLDER")
@click.argument("release", type=click.Path(file_okay=False, path_type=Path))
@click.option("--version", default="2025.04", show_default=True, help="Name of the release.")
def import_legacy(source: str, release: Path, version: str) -> None:
    """Turns upstream's data of 2025 into a release.

    FOLDER holds data/english/*.json and data/translated/*.json; a repo id of the Hub will do too.
    Every row stays: ids are derived, dates split off the events' texts. `tiebe-build check` then
    flags what is wrong with them.
    """
    from builder import legacy

    statistics = legacy.import_legacy(source, release, version)
    english, native = statistics.total(split="english"), statistics.total(split="native")
    click.echo(
        f"{release}: {english:,} English and {native:,} native questions on "
        f"{len(statistics.regions)} regions, {sum(statistics.articles.values()):,} articles"
    )


@main.command("publish")
@click.argument("release", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("repo", metavar="OWNER/NAME")
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--pr", "pull_request", is_flag=True, help="Open a pull request.")
@click.option("--private", is_flag=True, help="A repo that is created is private.")
def publish(release: Path, repo: str, dry_run: bool, pull_request: bool, private: bool) -> None:
    """Puts a release on the Hub: one commit, then its tag.

    Run it again whenever it broke off: it does what is left to do, or nothing. HF_TOKEN must hold a
    token that may write. A head without a tag is tagged legacy-<date> first. With --pr, run it
    again after the merge to set the tag.
    """
    from builder import publish as stage

    plan = stage.publish(release, repo, dry_run=dry_run, pull_request=pull_request, private=private)
    for line in plan.lines():
        click.echo(line)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--region", required=True, help="Slug, name, alias or ISO code of the page's region.")
@click.option("--year", required=True, type=click.IntRange(1000, 9999), help="The page's year.")
@click.option("--all", "undated", is_flag=True, help="Also what has no date (start is null).")
def events(file: str, region: str, year: int, *, undated: bool) -> None:
    """Prints the events of a retrospective page's wikitext, one JSON object a line.

    What was skipped, warnings and templates that could not be rendered go to stderr.
    """
    from builder import collect
    from builder.records import Page
    from tiebe.engine import Workers
    from tiebe.errors import RecordError
    from tiebe.records import Drop, to_row
    from tiebe.regions import find_regions

    (found, *others) = find_regions(region)
    if others:
        raise click.UsageError(f"{region!r} is several regions; name one")
    with click.open_file(file, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    page = Page(found.slug, year, found.page_title(year), None, None, text)
    with Workers(1, preload=("builder.wikitext",)) as workers:
        parsed = collect.read(page, workers)
    if isinstance(parsed, Drop):
        raise RecordError(f"{file}: not read ({parsed.reason}): {parsed.detail}")
    lines = [*parsed.events, *(s.event for s in parsed.skipped if s.event and undated)]
    for event in lines:
        shown = ("start", "end", "precision", "text", "references")
        row = {name: value for name, value in to_row(event).items() if name in shown}
        click.echo(json.dumps(row, ensure_ascii=False))
    for skipped in parsed.skipped:
        click.echo(f"skipped ({skipped.reason}): {skipped.text}", err=True)
    for warning in parsed.warnings:
        click.echo(f"warning: {warning}", err=True)
    for month in collect.early_ends(parsed.events):
        click.echo(f"warning: no event after {month}-15: is a list missing?", err=True)
    for name, count in parsed.unknown_templates.items():
        click.echo(f"template whose text is lost: {name} ({count})", err=True)
    reasons = Counter(skipped.reason for skipped in parsed.skipped)
    told = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    click.echo(f"{len(parsed.events)} events, {len(parsed.skipped)} skipped ({told})", err=True)


@main.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--language", default=None, help="ISO 639 code to expect where a page tells none.")
@click.option(
    "--urls",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON object: the URL of each file's name.",
)
def article(files: tuple[Path, ...], language: str | None, urls: Path | None) -> None:
    """Prints the article of each page and whether it is one, as JSON objects, one a line.

    FILES are pages (.html, .html.gz), or texts (.txt) that are only classified.
    """
    from concurrent.futures import ThreadPoolExecutor

    from babel import Locale

    from builder import extract
    from tiebe.engine import Workers
    from tiebe.errors import RecordError, SettingsError

    for file in files:
        if not file.name.endswith((".html", ".html.gz", ".txt")):
            raise SettingsError(f"{file}: expected a name that ends in .html, .html.gz or .txt")
    if language is not None and language not in Locale("en").languages:
        raise SettingsError(
            f"unknown language {language!r}; expected an ISO 639 code, as pt or tpi"
        )
    known: object = {}
    if urls is not None:
        try:
            known = json.loads(urls.read_bytes())
        except ValueError as error:
            raise RecordError(f"{urls}: not JSON: {error}") from error
    if not isinstance(known, dict) or not all(isinstance(url, str) for url in known.values()):
        raise RecordError(f"{urls}: expected a JSON object of file names and URLs")
    with Workers(preload=extract.PRELOAD) as workers, ThreadPoolExecutor() as threads:

        def read(file: Path) -> extract.Text:
            return extract.from_file(
                file, str(known.get(file.name, "")), workers=workers, language=language
            )

        for file, text in zip(files, threads.map(read, files), strict=True):
            row = {"page": file.name} | {
                name: getattr(text, name)
                for name in (
                    "text",
                    "title",
                    "date",
                    "article",
                    "reasons",
                    "extractor",
                    "agreement",
                )
            }
            click.echo(json.dumps(row, ensure_ascii=False))


@main.command()
@click.option("--countries", default="all", show_default=True, help="Names or ISO codes, or all.")
@click.option("--years", required=True, metavar="A-B", help="First and last year, as 2015-2025.")
@click.option("--source", default=None, help="A MediaWiki API's URL, or folder:PATH.")
@click.option("--contact", default="", help="Your address, which an API's operator asks for.")
@click.option("--as-of", default="", help="The date at which a revision is to be the current one.")
@click.option("--by-year", is_flag=True, help="Events and references per country and year instead.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def survey(
    countries: str,
    years: str,
    source: str | None,
    contact: str,
    as_of: str,
    *,
    by_year: bool,
    as_json: bool,
) -> None:
    """Counts the events that the retrospective pages of countries list.

    Tells which tier a country is in, and which have too few events to be a region. Asks no model.
    """
    import dataclasses
    import re

    from builder import collect
    from builder import survey as counting
    from builder.records import Event, RegionYear
    from tiebe.engine import Workers, run_stage
    from tiebe.journal import Journal

    span = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", years)
    if span is None or int(span[1]) > int(span[2] or span[1]):
        raise click.BadParameter(f"{years!r} is not A-B, as 2015-2025", param_hint="--years")
    first, last = int(span[1]), int(span[2] or span[1])
    settings = collect.PagesSettings(years=(first, last), contact=contact, as_of=as_of)
    if source is not None:
        settings = dataclasses.replace(settings, source=source)
    chosen = counting.find_countries(countries)
    wanted = [
        RegionYear(country.slug, year) for country in chosen for year in range(first, last + 1)
    ]
    opened = collect.open_source(settings, wanted)
    with Workers(preload=("builder.wikitext",)) as workers:
        outcome = run_stage(collect.stage(opened, workers), wanted, Journal(None), workers=2)
        records = list(outcome.records())
    rows: list[tuple[object, ...]]
    if by_year:
        rows = [*collect.statistics(record for record in records if isinstance(record, Event))]
        names: tuple[str, ...] = collect.Statistics._fields
    else:
        counted = counting.survey(chosen, records)
        rows, names = [*counted], counting.Row._fields
        for name, count in counting.tiers(counted).items():
            click.echo(f"{count} countries with {name} events", err=True)
    for row in rows if as_json else ():
        click.echo(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
    if not as_json:
        click.echo(_columns([names, *rows]))


def _columns(rows: list[tuple[object, ...]]) -> str:
    """Returns rows as text in columns, numbers to the right."""
    texts = [
        [
            str(cell) if name == "year" or not isinstance(cell, int) else f"{cell:,}"
            for name, cell in named
        ]
        for named in (zip(rows[0], row, strict=True) for row in rows)
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(isinstance(row[i], int) for row in rows[1:]) for i in range(len(widths))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    )


# Each verb imports what it needs when it is called: `tiebe-build --help` must not take seconds.

run_folder = click.argument("run", type=click.Path(path_type=Path))
workers = click.option(
    "--workers",
    default=16,
    show_default=True,
    type=click.IntRange(1),
    help="Calls to models at once.",
)

dry_run = click.option(
    "--dry-run", is_flag=True, help="Print the plan; fetch, ask and write nothing."
)

_STAGES = {
    "collect": "Reads the retrospective pages and their events.",
    "retrieve": "Fetches and reads the articles that the events cite.",
    "generate": "Has a model write candidate questions from the articles.",
    "select": "Picks each event's question among its candidates.",
    "translate": "Has a model translate the questions into the native languages.",
    "release": "Writes the release folder.",
}


def _upto(folder: Path, stage: str, workers: int, engine: str, address: str | None) -> None:
    from builder.run import Run

    with engine_of(engine, address) as runs, Run(folder, workers=workers, engine=runs) as run:
        run.upto(stage)
        click.echo(_table(run.counts()))
        if stage == "release":
            click.echo(f"\nrelease: {run.release}")
        if run.ended:
            click.echo(f"\n{run.ended}")


def _table(stages: Mapping[str, Any]) -> str:
    """The counts of stages as text: in = parents + dropped, and why."""
    lines = [f"{'stage':<10} {'in':>8} {'parents':>8} {'dropped':>8} {'out':>8}  reasons"]
    for name, c in stages.items():
        dropped = sum(c["dropped"].values())
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in c["dropped"].items())
        row = f"{name:<10} {c['in']:>8,} {c['parents']:>8,} {dropped:>8,} {c['out']:>8,}  {reasons}"
        lines.append(row.rstrip())
    return "\n".join(lines)


def _show_plan(folder: Path, max_cost: float | None = None) -> None:
    from builder.run import Run

    with Run(folder, progress=False) as run:
        for line in run.plan(max_cost=max_cost).lines(run.settings.web.delay):
            click.echo(line)


@main.command("run")
@run_folder
@workers
@engine_options
@dry_run
def run_(run: Path, workers: int, engine: str, address: str | None, *, dry_run: bool) -> None:
    """Builds the release that RUN/run.toml describes, from pages to parquet.

    What is journaled is not done again: a run that was stopped goes on where it was. One that its
    budget ended has written what is complete, in both languages and of each region the same share.
    """
    if dry_run:
        _show_plan(run)
    else:
        _upto(run, "release", workers, engine, address)


@main.command()
@run_folder
@click.option("--budget", type=click.FloatRange(min=0), help="Dollars; run.toml's by default.")
def plan(run: Path, budget: float | None) -> None:
    """Tells what a run still costs: calls, tokens, dollars, hours; and what a budget buys of it.

    Nothing is fetched or asked. The estimate is corrected by what servers have reported so far.
    """
    _show_plan(run, budget)


@main.command("check")
@click.argument("folder", metavar="RELEASE|RUN", type=click.Path(path_type=Path))
@workers
@engine_options
@click.option("--strict", is_flag=True, help="Exit 1 when a share is passed.")
@click.option(
    "--max-share",
    multiple=True,
    metavar="FLAG=SHARE",
    help="Beside those of run.toml, [check] max_share; repeatable.",
)
@dry_run
def check_(
    folder: Path,
    workers: int,
    engine: str,
    address: str | None,
    max_share: tuple[str, ...],
    *,
    strict: bool,
    dry_run: bool,
) -> None:
    """Flags the rows that break a rule, counts them by region, and writes audit.jsonl and a page.

    Of a RUN, the stages before are run as far as they are not done. Into a RELEASE the flags are
    written. Rows that a decision keeps do not count for the shares.
    """
    from builder import audit, review
    from builder.settings import read_settings, read_shares

    is_run = (folder / "run.toml").is_file()
    home = folder if is_run else folder.parent
    shares = (
        dict(read_settings(home / "run.toml").check.max_share)
        if (home / "run.toml").is_file()
        else {}
    )
    shares |= read_shares(max_share)
    if dry_run:
        _show_plan(home)
        return
    if is_run:
        from builder.run import Run

        with engine_of(engine, address) as runs, Run(folder, workers=workers, engine=runs) as run:
            run.upto("check")
            rows = list(run.check.records())
            ended = run.ended
    else:
        rows, ended = audit.audit_release(folder), ""
    click.echo(audit.tally_table(audit.tally(rows)))
    click.echo(f"\nrows: {folder / audit.ROWS}\npage: {folder / audit.PAGE}")
    if ended:
        click.echo(f"\n{ended}")
    kept = review.kept(review.read_decisions(folder))
    passed = audit.beyond(rows, shares, kept)
    for sentence in passed:
        click.echo(f"passed: {sentence}", err=True)
    if strict and passed:
        raise SystemExit(1)


@main.command("review")
@click.argument("release", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--port", default=0, help="Any free one by default.")
def review_(release: Path, port: int) -> None:
    """Serves a page on 127.0.0.1 on which to keep, fix or withdraw questions, by keyboard.

    The most flagged come first. Each decision is a line of RELEASE/decisions.jsonl.
    """
    from builder import audit, review
    from tiebe.keyboard import serving

    page = review.review(release, audit.read_rows(release), audit.read_sources(release))
    with serving(page, port) as address:
        click.echo(f"{address}\nopen this page; Ctrl-C here ends it")
        click.launch(address)
        try:
            page.ended.wait()
        except KeyboardInterrupt:
            click.echo()
    decided = len({decision.id for decision in review.read_decisions(release)})
    click.echo(f"{decided:,} questions are decided on: {release / review.DECISIONS}")


@main.command()
@click.argument("folder", default="tiebe-demo", type=click.Path(path_type=Path))
def demo(folder: Path) -> None:
    """Builds a small release from bundled inputs, asks the local model, judges and scores.

    It needs no key and no network. Everything is kept in FOLDER; called again, it goes on there.
    """
    from builder.demo import demonstrate

    for paragraph in demonstrate(folder):
        click.echo(f"{paragraph}\n")


def _add_stage(name: str, text: str) -> None:
    @main.command(name, help=f"{text}\n\nThe stages before it are run as far as they are not done.")
    @run_folder
    @workers
    @engine_options
    @dry_run
    def verb(run: Path, workers: int, engine: str, address: str | None, *, dry_run: bool) -> None:
        if dry_run:
            _show_plan(run)
        else:
            _upto(run, name, workers, engine, address)


for _name, _text in _STAGES.items():
    _add_stage(_name, _text)


@main.command()
@run_folder
def status(run: Path) -> None:
    """Tells how far a run is, from its manifest and its journals; changes nothing."""
    from builder.run import STAGES
    from builder.settings import read_settings

    settings = read_settings(run / "run.toml")
    manifest = run / "manifest.json"
    if manifest.exists():
        told = json.loads(manifest.read_text("utf-8"))
        click.echo(_table(told["stages"]))
        click.echo(f"\ntokens {told['tokens']:,}, cost {told['cost']:.2f} dollars")
    for name in STAGES:
        parts = list((run / name).glob("*.jsonl")) if name != "release" else []
        if parts:
            lines = sum(part.read_bytes().count(b"\n") for part in parts)
            click.echo(f"{name}: {lines:,} journaled")
    release = run / "release"
    click.echo(f"release {settings.release.version}: {release if release.exists() else 'not yet'}")


@main.command("compact")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
def compact_(run: Path) -> None:
    """Rewrites the journals of a run that many processes wrote: each key once, in few parts.

    RUN may also be a folder of verdicts under TIEBE_HOME. No run may be writing meanwhile.
    """
    from tiebe.errors import RecordError
    from tiebe.journal import compact

    folders = sorted({path.parent for path in run.rglob("[0-9]*.jsonl")})
    if not folders:
        raise RecordError(f"{run}: there is no journal in it: name a run folder")
    for folder in folders:
        done = compact(folder)
        parts, size = done.parts, done.size
        name = folder.relative_to(run) if folder != run else folder.name
        click.echo(f"{name}: {parts[0]} -> {parts[1]} parts, {size[0]:,} -> {size[1]:,} bytes")


if __name__ == "__main__":
    main()
