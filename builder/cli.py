"""`tiebe-build`: makes releases. The only module of the builder that prints."""

import logging
import os
import sys

import click

from tiebe.errors import TiebeError


class Commands(click.Group):
    """A group whose own errors are one line on stderr and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        """Runs the verb; `TIEBE_DEBUG=1` lets the traceback through."""
        try:
            return super().invoke(ctx)
        except TiebeError as error:
            if os.environ.get("TIEBE_DEBUG"):
                raise
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiebe")
def main() -> None:
    """Builds a release of TiEBe: pages, events, articles, questions, translations, a Hub commit."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


if __name__ == "__main__":
    main()
