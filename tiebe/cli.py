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


inputs = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
after = click.option("--after", metavar="MONTH", help="Only events after this month, as 2023-01.")
before = click.option("--before", metavar="MONTH", help="Only events before this month.")
draws = click.option(
    "--draws", default=1000, show_default=True, type=click.IntRange(1), help="Resamples."
)
as_json = click.option("--json", "as_json", is_flag=True, help="A list of objects, shares 0 to 1.")


@main.command("score")
@inputs
@click.option("--by", default=None, help="What to group by, as model,split,region,period.")
@click.option(
    "--average",
    type=click.Choice(["micro", "macro"]),
    default="micro",
    show_default=True,
    help="Every answer counts the same, or every region does.",
)
@after
@before
@draws
@as_json
def score_(
    paths: tuple[Path, ...],
    by: str | None,
    average: Any,
    after: str | None,
    before: str | None,
    draws: int,
    as_json: bool,
) -> None:
    """Prints the scores of run folders or files of verdicts (JSON lines)."""
    from tiebe.scores import Bootstrap, score

    data = read_verdicts(paths, after, before)
    if by is None:
        names = [name for name in ("model", "split") if (data[name] != "").any()]
    else:
        names = [name.strip() for name in by.split(",") if name.strip()]
    show(score(data, names, average=average, bootstrap=Bootstrap(draws=draws)), as_json=as_json)


@main.command("cutoff")
@inputs
@click.option(
    "--split",
    type=click.Choice(["english", "native", "both"]),
    default="english",
    show_default=True,
    help="Which questions to look at.",
)
@draws
@as_json
def cutoff(paths: tuple[Path, ...], split: str, draws: int, as_json: bool) -> None:
    """Measures where each model's knowledge ends: the first month of lower accuracy."""
    from tiebe.scores import Bootstrap, cutoffs

    data = read_verdicts(paths)
    if split != "both":
        data = data[data["split"].isin([split, ""])].reset_index(drop=True)
    show(cutoffs(data, bootstrap=Bootstrap(draws=draws)), as_json=as_json)


def read_verdicts(
    paths: tuple[Path, ...], after: str | None = None, before: str | None = None
) -> Any:
    """Returns the verdicts of all paths between two months as `tiebe.scores.frame` has them."""
    from tiebe.records import read_rows
    from tiebe.scores import between, frame

    return between(
        frame(row for path in paths for row in read_rows(path, "correct")), after, before
    )


def show(table: Any, *, as_json: bool) -> None:
    """Prints a table: as JSON, or as text with shares in percent."""
    if as_json:
        click.echo(table.to_json(orient="records", force_ascii=False, indent=2))
        return
    shares = [name for name in table.columns if table[name].dtype.kind == "f" and name != "p"]
    shown = table.assign(
        **{name: table[name].map("{:.1%}".format).replace("nan%", "–") for name in shares}
    )
    if "p" in shown:
        shown["p"] = shown["p"].map("{:.3f}".format)
    if "small" in shown:
        shown["small"] = shown["small"].map({True: "n < 30", False: ""})
    click.echo(shown.to_string(index=False))


if __name__ == "__main__":
    main()
