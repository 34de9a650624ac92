"""`tiebe`: asks models, judges, scores and reports. The only module here that prints."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

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
    """The Timely Events Benchmark: asks a model, judges its answers, scores them, reports."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


def read_verdicts(paths: tuple[Path, ...], after: str | None, before: str | None) -> Any:
    """Returns the verdicts of all paths between two months as `tiebe.scores.frame` has them."""
    from tiebe.records import read_rows
    from tiebe.scores import between, frame

    return between(
        frame(row for path in paths for row in read_rows(path, "correct")), after, before
    )


inputs = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
after = click.option("--after", metavar="MONTH", help="Only events after this month, as 2023-01.")
before = click.option("--before", metavar="MONTH", help="Only events before this month.")


@main.command("score")
@inputs
@click.option("--by", default=None, help="What to group by, as model,split,region,period.")
@after
@before
@click.option("--draws", default=1000, show_default=True, help="Resamples of the intervals.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects; accuracy 0 to 1.")
def score_(
    paths: tuple[Path, ...],
    by: str | None,
    after: str | None,
    before: str | None,
    draws: int,
    as_json: bool,
) -> None:
    """Prints the scores of run folders or files of verdicts (JSON lines)."""
    from tiebe.scores import score

    data = read_verdicts(paths, after, before)
    if by is None:
        names = [name for name in ("model", "split") if (data[name] != "").any()]
    else:
        names = [name.strip() for name in by.split(",") if name.strip()]
    table = score(data, names, draws=draws)
    click.echo(table.to_json(orient="records", force_ascii=False) if as_json else plain(table))


def plain(table: Any) -> str:
    """Returns a table of scores as text, shares in percent."""
    shares = [c for c in table.columns if table[c].dtype.kind == "f"]
    shown = table.assign(**{c: table[c].map("{:.1%}".format).replace("nan%", "–") for c in shares})
    if "small" in shown:
        shown["small"] = shown["small"].map({True: "small", False: ""})
    text: str = shown.to_string(index=False)
    return text


if __name__ == "__main__":
    main()
