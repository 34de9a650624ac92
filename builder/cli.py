"""`tiebe-build`: makes releases. The only module of the builder that prints."""

import logging
import sys

import click

from tiebe.cli import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiebe")
def main() -> None:
    """Builds a release of TiEBe: pages, events, articles, questions, translations, a Hub commit."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


if __name__ == "__main__":
    main()
