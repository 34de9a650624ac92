"""`tiebe-build`: makes releases. The only module of the builder that prints."""

import logging
import sys
from pathlib import Path

import click

from tiebe.cli import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiebe")
def main() -> None:
    """Builds a release of TiEBe: pages, events, articles, questions, translations, a Hub commit."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


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


if __name__ == "__main__":
    main()
