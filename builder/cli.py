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


if __name__ == "__main__":
    main()
