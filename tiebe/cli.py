"""`tiebe`: asks models, judges, scores and reports. The only module here that prints."""

import contextlib
import itertools
import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from tiebe.errors import RecordError, TiebeError

COMMANDLINE = click.core.ParameterSource.COMMANDLINE


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
        except OSError as error:  # a disk that is full, a folder that nobody may write to
            if error.filename is None or os.environ.get("TIEBE_DEBUG"):
                raise
            click.echo(
                f"error: {error.filename}: {error.strerror}; name a path that can be read and "
                "written",
                err=True,
            )
            ctx.exit(1)


def start_logging() -> None:
    """Shows this project's log lines on stderr, and other people's from warnings on."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    for name in ("tiebe", "builder"):
        logging.getLogger(name).setLevel(logging.INFO)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiebe")
def main() -> None:
    """The Timely Events Benchmark: asks a model, judges its answers, scores them, reports."""
    start_logging()


inputs = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
after = click.option("--after", metavar="MONTH", help="Only events after this month, as 2023-01.")
before = click.option("--before", metavar="MONTH", help="Only events before this month.")
draws = click.option(
    "--draws", default=1000, show_default=True, type=click.IntRange(1, 100_000), help="Resamples."
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
@click.option("--latex", "as_latex", is_flag=True, help="A LaTeX table, with booktabs' rules.")
@click.option("--table", "named", metavar="NAME", help="A table of the report by name, or `all`.")
@click.option(
    "--eval-results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Writes the Hub's .eval_results file of each model into this folder as well.",
)
def score_(
    paths: tuple[Path, ...],
    by: str | None,
    average: Any,
    after: str | None,
    before: str | None,
    draws: int,
    as_json: bool,
    as_latex: bool,
    named: str | None,
    eval_results: Path | None,
) -> None:
    """Prints the scores of run folders or files of verdicts (JSON lines)."""
    from tiebe.scores import Bootstrap, judge_notes, score

    data = read_verdicts(paths, after, before)
    bootstrap = Bootstrap(draws=draws)
    if named is not None:
        tables = named_tables(data, named, bootstrap)
    else:
        if by is None:
            names = [name for name in ("model", "split") if (data[name] != "").any()]
        else:
            names = [name.strip() for name in by.split(",") if name.strip()]
        tables = {"": score(data, names, average=average, bootstrap=bootstrap)}
    show(tables, as_json=as_json, as_latex=as_latex)
    for note in judge_notes(data):
        click.echo(note, err=True)
    if eval_results is not None:
        from tiebe.reports.eval_results import eval_results as results

        eval_results.mkdir(parents=True, exist_ok=True)
        for model, text in results(data).items():
            (eval_results / f"{safe_name(model)}.yaml").write_text(text, encoding="utf-8")


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
def cutoff_(paths: tuple[Path, ...], split: str, draws: int, as_json: bool) -> None:
    """Measures where each model's knowledge ends: the first month of lower accuracy."""
    from tiebe.scores import Bootstrap, cutoffs

    data = read_verdicts(paths)
    if split != "both":
        data = data[data["split"].isin([split, ""])].reset_index(drop=True)
    show({"": cutoffs(data, bootstrap=Bootstrap(draws=draws))}, as_json=as_json)


@main.command("report")
@inputs
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="A folder."
)
@click.option(
    "--release",
    metavar="REPO|FOLDER",
    help="The release that was asked, or the run that built it, for what it covers.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="People's verdicts (`tiebe judge --annotate`), CSV.",
)
@click.option(
    "--survey", type=click.Path(path_type=Path), help="What `tiebe-build survey --json` printed."
)
@after
@before
def report_(
    paths: tuple[Path, ...],
    out: Path,
    release: str | None,
    labels: Path | None,
    survey: Path | None,
    after: str | None,
    before: str | None,
) -> None:
    """Writes a report: a page that needs no network, index.html, and its tables as CSV."""
    from tiebe.reports import report

    page = report(
        read_verdicts(paths, after, before),
        out,
        release=release,
        labels=None if labels is None else read_labels(labels),
        survey=None if survey is None else read_survey(survey),
    )
    click.echo(page)


@main.command("compare")
@inputs
@click.option("--flips", type=click.Path(path_type=Path), help="A CSV file of what flipped.")
@draws
@as_json
def compare_(paths: tuple[Path, ...], flips: Path | None, draws: int, as_json: bool) -> None:
    """Compares runs (or files of verdicts) in order, or releases: what changed, is it noise."""
    import pandas as pd

    from tiebe.errors import SettingsError
    from tiebe.reports.comparison import compare_releases, compare_runs
    from tiebe.reports.tables import write_csv
    from tiebe.scores import Bootstrap, judge_notes

    for path in paths:
        if sum(path.resolve() == other.resolve() for other in paths) > 1:
            raise SettingsError(f"{path} is named twice: a run is compared with another one")
    names = run_names(paths)
    releases = [path.is_dir() and (path / "data").is_dir() for path in paths]
    if any(releases) and not all(releases):
        raise SettingsError("runs can be compared with runs, and releases with releases")
    if all(releases):
        from tiebe.load import load_tiebe

        found = compare_releases(
            {n: load_tiebe(language="both", source=p) for n, p in zip(names, paths, strict=True)}
        )
    else:
        runs = {n: read_verdicts((p,)) for n, p in zip(names, paths, strict=True)}
        found = compare_runs(runs, bootstrap=Bootstrap(draws=draws))
        for note in judge_notes(pd.concat(runs.values(), ignore_index=True)):
            click.echo(note, err=True)
    if flips is not None:
        write_csv(found.flips, flips)
    show({name: table.data for name, table in found.tables.items()}, as_json=as_json)


@main.command("reproduce")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="People's verdicts, for Table 2.")
@as_json
def reproduce_(folder: Path, labels: Path | None, as_json: bool) -> None:
    """Prints every number of the paper beside ours, computed from upstream's data in FOLDER."""
    from tiebe.reports.reproduction import reproduce

    table = reproduce(folder, None if labels is None else read_labels(labels))
    show({"": table}, as_json=as_json)
    found = table["status"].value_counts()
    click.echo("; ".join(f"{status}: {n}" for status, n in found.items()), err=True)


def named_tables(data: Any, name: str, bootstrap: Any) -> dict[str, Any]:
    """Returns a table of the report, or all of them, by title."""
    from tiebe.errors import SettingsError, nearest
    from tiebe.reports.tables import TABLES, Inputs, make_tables

    if name != "all" and name not in TABLES:
        raise SettingsError(
            f"there is no table '{name}', expected all or one of {', '.join(TABLES)}"
            + nearest(name, TABLES)
        )
    made = make_tables(Inputs(data, bootstrap=bootstrap), *([] if name == "all" else [name]))
    return {table.name: table.data for table in made.values()}


def safe_name(model: str) -> str:
    """Returns a model's name as a file name."""
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in model).lstrip(".") or "model"


def run_names(paths: tuple[Path, ...]) -> list[str]:
    """Returns what runs are called: by their folder or file, with its path where two are alike."""
    short = [path.stem for path in paths]
    pairs = zip(short, paths, strict=True)
    return [name if short.count(name) == 1 else str(path) for name, path in pairs]


def read_verdicts(
    paths: tuple[Path, ...], after: str | None = None, before: str | None = None
) -> Any:
    """Returns the verdicts of all paths between two months as `tiebe.scores.frame` has them.

    Folders in which nothing is judged yet are left out and named, unless all are such.
    """
    from tiebe.errors import UnjudgedError
    from tiebe.results import apart
    from tiebe.results import read_verdicts as read
    from tiebe.scores import between, frame

    runs, unjudged = {}, []
    for name, path in zip(run_names(paths), paths, strict=True):
        rows = read(path)
        try:
            runs[name] = itertools.chain([next(rows)], rows)
        except UnjudgedError as error:
            unjudged.append(error)
    if not runs:
        raise unjudged[0]
    for why in unjudged:
        click.echo(f"warning: left out {why}", err=True)
    return between(frame(apart(runs)), after, before)


def read_labels(path: Path) -> Any:
    """Returns a person's verdicts: a JSONL file, or a CSV as of `tiebe judge --annotate`."""
    from tiebe.labels import read_csv
    from tiebe.records import read_rows

    if path.suffix != ".csv":
        return list(read_rows(path, "correct"))
    yes = {"true": True, "yes": True, "1": True, "": None}
    return [
        {**line, **{name: yes.get(line[name].strip().casefold(), False) for name in told}}
        for line in read_csv(path)
        for told in [("correct", "refusal")]
    ]


def read_survey(path: Path) -> Any:
    """Returns the events by country that `tiebe-build survey --json` printed."""
    import pandas as pd

    from tiebe.records import read_rows

    return pd.DataFrame(list(read_rows(path, "country", "events", "tier")))


def show(tables: Mapping[str, Any], *, as_json: bool, as_latex: bool = False) -> None:
    """Prints tables: as JSON (one is a list, several an object by name), as LaTeX, or as text."""
    from tiebe.reports.tables import latex, plain

    if as_json:
        texts = {n: t.to_json(orient="records", force_ascii=False) for n, t in tables.items()}
        only = list(texts) == [""]
        parts = (f'"{name}": {text}' for name, text in texts.items())
        click.echo(texts[""] if only else "{" + ",\n".join(parts) + "}")
        return
    for number, (name, table) in enumerate(tables.items()):
        if number:
            click.echo()
        if as_latex:
            click.echo(latex(table, name.replace("_", " ")))
        else:
            click.echo((f"{name}\n" if name else "") + plain(table))


Command = TypeVar("Command", bound=Callable[..., Any])


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Returns one decorator that adds several options, in the order given."""

    def add(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


class Dollars(click.ParamType[float]):
    """An amount of money, 0 or more; `positive`: more than 0."""

    name = "dollars"

    def __init__(self, *, positive: bool = False) -> None:
        self.positive = positive

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the amount; a usage error where it is none."""
        amount = float(click.FLOAT.convert(value, param, ctx))
        if not math.isfinite(amount) or amount < 0 or (self.positive and not amount):
            least = "more than 0" if self.positive else "0 or more"
            self.fail(f"{value} is no amount of dollars: expected {least}", param, ctx)
        return amount


def priced(name: str) -> Callable[[Command], Command]:
    """Returns the option that tells a model's price."""
    usage = "Dollars per million tokens."
    return click.option(name, nargs=2, type=Dollars(), metavar="IN OUT", help=usage)


server_options = options(
    click.option("--base-url", metavar="URL", help="An OpenAI-compatible server."),
    click.option("--key", metavar="VARIABLE", help="Environment variable with the server's key."),
    click.option(
        "--max-tokens",
        default=1024,
        show_default=True,
        type=click.IntRange(1),
        help="Limit of each reply; one that is cut off is asked for once more, with more room.",
    ),
    click.option("--extra-body", metavar="JSON", help="Sent along, as what turns thinking off."),
    priced("--price"),
    click.option(
        "--max-cost",
        type=Dollars(positive=True),
        metavar="DOLLARS",
        help="Stop before it is passed.",
    ),
    click.option(
        "--max-total-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Stop before all take more than that.",
    ),
    click.option(
        "--batch", is_flag=True, help="Ask in files: within a day, mostly at half the price."
    ),
)
completion = click.option(
    "--completion", is_flag=True, help="A base model, which goes on with a text."
)
model_option = click.option(
    "--model", metavar="NAME", help="provider:name, a model of the paper, local, replay:FILE."
)
question_options = options(
    click.option("--region", multiple=True, help="A region, alias or macro-region; repeatable."),
    click.option(
        "--split",
        type=click.Choice(["english", "native", "both"]),
        default="english",
        show_default=True,
        help="Which questions.",
    ),
    after,
    before,
    click.option("--sample", metavar="mini|N", help="The fixed thousand, or N, stratified."),
    click.option("--source", metavar="REPO|FOLDER", help="A Hub repo id or a release folder."),
    click.option("--release", metavar="VERSION", help="As 2025.04; the newest by default."),
)
concurrency = click.option(
    "--concurrency",
    default=16,
    show_default=True,
    type=click.IntRange(1),
    help="Requests in flight.",
)


dry_run = click.option("--dry-run", is_flag=True, help="Only tell what it would ask and cost.")


engine_options = options(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Where stages run: this process, or Ray's workers (tiebe[ray]).",
    ),
    click.option(
        "--address", metavar="HOST:PORT", help="A Ray cluster's; else one starts on this machine."
    ),
)


@contextlib.contextmanager
def engine_of(engine: str, address: str | None) -> Iterator[Any]:
    """Opens what runs the stages, for the length of the block."""
    from tiebe.engine import run_stage
    from tiebe.errors import SettingsError

    if engine == "ray":
        from tiebe.ray_engine import RayEngine

        with RayEngine(address) as opened:
            yield opened
    elif address is not None:
        raise SettingsError("--address is a Ray cluster's: give --engine ray as well")
    else:
        yield run_stage


def opened(
    given: dict[str, Any], budget: Any, role: str, *, prefix: str = "", run: Path | None = None
) -> Any:
    """Takes the options of a model, each after `prefix`, and returns the model.

    Args:
        given: A command's options; those of the model are taken out.
        budget: What may be spent; gets the model's price.
        role: `answer` or `judge`: questions in files lie in a folder for each.
        prefix: As in `judge_price`.
        run: The run folder, if there is one.
    """
    from tiebe.batches import batched
    from tiebe.errors import SettingsError
    from tiebe.llm import open_model
    from tiebe.records import record_id
    from tiebe.resources import home

    name = given.pop(f"{prefix}model")
    price = given.pop(f"{prefix}price")
    options = {key: given.pop(f"{prefix}{key}") for key in ("base_url", "key", "max_tokens")}
    options["extra_body"] = as_object(given.pop(f"{prefix}extra_body"))
    options["completion"] = given.pop(f"{prefix}completion", False)
    if not name:
        raise SettingsError("no model is named: give --model provider:name, local or replay:FILE")
    if price:
        half = 0.5 if given.get("batch") else 1.0
        budget.prices = {**budget.prices, name: (price[0] * half, price[1] * half)}
    model = open_model(name, budget=budget, **options)
    if given.get("batch"):
        folder = record_id(name, options["base_url"])
        model = batched(model, (run or home()) / "batches" / role / folder)
    return model


def need_prices(given: Mapping[str, Any], budget: Any, *prefixes: str) -> None:
    """Refuses a limit in dollars where the price of a model is not told."""
    from tiebe.errors import SettingsError

    missing = [f"--{p.replace('_', '-')}price IN OUT" for p in prefixes if not given[f"{p}price"]]
    if budget.max_cost and missing:
        raise SettingsError(
            f"--max-cost needs {' and '.join(missing)}, in dollars per million tokens"
        )


def budget_of(given: dict[str, Any]) -> Any:
    """Takes the options of what may be spent and returns the budget, without prices yet."""
    from tiebe.llm import Budget

    tokens, cost = given.pop("max_total_tokens"), given.pop("max_cost")
    return Budget(max_tokens=tokens or 0, max_cost=cost or 0.0)


def as_object(text: str | None) -> dict[str, Any]:
    """Returns the JSON object in an option, empty where there is none."""
    import json

    from tiebe.errors import SettingsError

    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise SettingsError(f"--extra-body {text!r} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise SettingsError(f"--extra-body {text!r} is no JSON object")
    return value


def spent(budget: Any, model: Any, usage: Mapping[str, int]) -> str:
    """Returns what a usage came to, in words: what was paid now, and what before.

    Args:
        budget: Knows the prices.
        model: What was asked now; None where no model was.
        usage: Of all results, those that were known already among them.
    """
    from tiebe.llm import dollars

    if model is None or not usage:
        return "nothing paid"

    def words(usage: Mapping[str, int]) -> str:
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        said = f"{usage.get('calls', 0):,} calls, {tokens:,} tokens"
        if model.name not in budget.prices:
            return said
        return f"{said}, {dollars(budget.price(model.name, usage))}"

    before = Counter(usage) - model.paid
    if not before:
        return words(model.paid)
    now = f"{words(model.paid)} now" if model.paid else "nothing paid now"
    return f"{now}; {words(before)} before"


def selected(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `load_tiebe` that the `question_options` give."""
    sample = given["sample"]
    chosen = {
        "region": list(given["region"]) or None,
        "language": given["split"],
        "after": given["after"],
        "before": given["before"],
        "sample": int(sample) if sample and sample.isdecimal() else sample,
        "source": given["source"],
        "version": given["release"],
    }
    return {name: value for name, value in chosen.items() if value is not None}


@contextlib.contextmanager
def of_file(path: Path | None) -> Iterator[None]:
    """Names the file in an error that names only the row."""
    try:
        yield
    except RecordError as error:
        if path is None or not str(error).startswith("row "):
            raise
        raise RecordError(f"{path}: {error}") from error


def write_rows(rows: Any, out: Path | None) -> None:
    """Writes rows as JSON lines, to a file in one go or to stdout."""
    import json

    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    if out is None:
        for line in lines:
            click.echo(line)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    new = out.with_name(out.name + ".new")
    with new.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(line + "\n" for line in lines)
    new.replace(out)


out = click.option("--out", type=click.Path(path_type=Path), help="A JSONL file; else stdout.")


@main.command("answer")
@click.argument("rows", required=False, type=click.Path(path_type=Path))
@model_option
@server_options
@completion
@click.option("--prompt", metavar="VERSION|FILE", help="Of the answer; the paper's by default.")
@question_options
@concurrency
@engine_options
@out
def answer_(
    rows: Path | None,
    prompt: str | None,
    concurrency: int,
    out: Path | None,
    engine: str,
    address: str | None,
    **given: Any,
) -> None:
    """Asks a model the questions of a release, or of a file ROWS (question, answer).

    Answers are kept: a call that was stopped goes on where it was.
    """
    from tiebe.answers import answer, flat
    from tiebe.load import load_tiebe
    from tiebe.records import read_rows

    budget = budget_of(given)
    need_prices(given, budget, "")
    model = opened(given, budget, "answer")
    if rows is None:
        questions: Any = load_tiebe(**selected(given))
    else:
        questions = read_rows(rows, "question", "answer")
    with engine_of(engine, address) as runs, of_file(rows):
        answers = answer(questions, model, prompt=prompt, concurrency=concurrency, engine=runs)
    write_rows(map(flat, answers), out)


judge_options = options(
    server_options,
    click.option("--prompt", metavar="VERSION|FILE", help="1, event-1, paper, or an own template."),
    click.option(
        "--prompt-language",
        type=click.Choice(["english", "native"]),
        default="english",
        show_default=True,
        help="Of the judge's prompt for native questions.",
    ),
    concurrency,
)


def refuse(*names: str) -> None:
    """Refuses options that were given and that the offline judge cannot heed."""
    from tiebe.errors import SettingsError

    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is COMMANDLINE:
            raise SettingsError(
                f"{option.opts[0]} is given, and the judge 'offline' asks no model: leave it out, "
                "or name a language model as the judge"
            )


cascade_option = click.option(
    "--cascade",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    metavar="AGREEMENT",
    help="As 0.99: the offline judge settles what it is so sure of, the model judges the rest.",
)


def judge_of(given: dict[str, Any], budget: Any, **options: Any) -> Any:
    """Takes the `judge_options` and returns the judge."""
    from tiebe.judges import OFFLINE, Judge

    given["model"] = given["model"] or os.environ.get("TIEBE_JUDGE") or None
    chosen = given["model"] not in (None, OFFLINE)
    if given["model"] == OFFLINE:
        refuse(*("base_url", "key", "max_tokens", "extra_body", "price", "max_cost"))
        refuse(*("max_total_tokens", "batch", "prompt", "prompt_language"))
    if chosen:
        need_prices(given, budget, "")
    names = ("prompt", "prompt_language", "concurrency")
    options |= {name: given.pop(name) for name in names}
    return Judge(opened(given, budget, "judge") if chosen else given["model"], **options)


@main.command("judge")
@click.argument("rows", type=click.Path(path_type=Path))
@model_option
@judge_options
@engine_options
@click.option("--unanswerable", metavar="TEXT", help="Expected answer where there is none.")
@cascade_option
@click.option(
    "--calibrate",
    type=click.IntRange(1),
    metavar="N",
    help="Measure the cascade on N of the rows first, as it must be on others than TiEBe's.",
)
@click.option(
    "--column",
    multiple=True,
    metavar="OURS=THEIRS",
    help="As answer=gold, model=system; repeatable.",
)
@click.option(
    "--annotate",
    type=click.IntRange(1),
    metavar="N",
    help="Judge N yourself, on a page; see below.",
)
@dry_run
@out
def judge_(
    rows: Path,
    unanswerable: str | None,
    cascade: float | None,
    calibrate: int | None,
    column: tuple[str, ...],
    annotate: int | None,
    dry_run: bool,
    out: Path | None,
    engine: str,
    address: str | None,
    **given: Any,
) -> None:
    """Judges a file or run folder of answers: question, answer, model_answer in each row.

    Each row is written with its verdict (correct, refusal, reasoning, confidence, decided_by,
    judge, prompt); its other fields pass through. Model `offline` needs no key. Verdicts are
    kept: a call that was stopped goes on where it was.

    With --annotate N a page opens on which you judge N questions, each with the answer of one
    model, both drawn at random; --out names the CSV file that your labels are kept in.
    """
    from tiebe.evaluation import plan_judging
    from tiebe.judges import OFFLINE, usage_of, verdict_fields
    from tiebe.results import read_answers

    columns = columns_of(column)
    texts = {name: columns.pop(name, name) for name in TEXTS}

    def read(renamed: Mapping[str, str]) -> list[dict[str, Any]]:
        return [
            row | {ours: row.get(theirs) for ours, theirs in renamed.items()}
            for row in read_answers(rows, *texts.values(), *columns.values())
        ]

    if annotate:
        label(read(texts | columns), annotate, out or Path("labels.csv"))
        return
    own = {ours: theirs for ours, theirs in texts.items() if ours != theirs}
    budget = budget_of(given)
    if given["model"] == OFFLINE:
        refuse("cascade", "calibrate")
    judge = judge_of(given, budget, columns=own, unanswerable=unanswerable, cascade=cascade)
    given_rows = read(columns)
    if dry_run:
        with of_file(rows):
            click.echo(plan_judging(judge, given_rows, calibrate=bool(calibrate), budget=budget))
        return
    with engine_of(engine, address) as runs, of_file(rows):
        if calibrate:
            click.echo(str(judge.calibrate(given_rows, calibrate)), err=True)
        cases = judge.cases(given_rows)
        verdicts = judge.verdicts(cases, engine=runs)
    unscored = sum(verdict.correct is None for verdict in verdicts)
    if unscored:
        click.echo(f"{unscored} of {len(verdicts)} are unscored: see their reasoning", err=True)
    usage = usage_of(cases, verdicts)
    click.echo(f"judged by {judge.name}: {spent(budget, judge.asked, usage)}", err=True)
    write_rows(
        ({**row, **verdict_fields(v)} for row, v in zip(given_rows, verdicts, strict=True)), out
    )


TEXTS = ("question", "answer", "model_answer")
"""What is judged of a row."""
KEYS = ("id", "event_id", "region", "language", "split", "year", "month", "model")
"""What verdicts are told apart and grouped by."""


def columns_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Returns the fields that `--column` renames, by our names."""
    from tiebe.errors import SettingsError, nearest

    known = TEXTS + KEYS
    columns = dict(pair.partition("=")[::2] for pair in pairs)
    for ours, theirs in columns.items():
        if not theirs:
            raise SettingsError("--column is written OURS=THEIRS, as answer=gold")
        if ours not in known:
            raise SettingsError(
                f"--column names '{ours}', expected one of {', '.join(known)}"
                + nearest(ours, known)
            )
    return columns


def label(rows: list[dict[str, Any]], n: int, out: Path) -> None:
    """Lets a person label answers; returns when the person ends it, or on Ctrl-C."""
    from tiebe.keyboard import serving
    from tiebe.labels import draw, label_page

    page = label_page(draw(rows, n), out)
    with serving(page) as address:
        click.echo(f"{address}\nopen this page, judge by keyboard, press end (or Ctrl-C here)")
        click.launch(address)
        with contextlib.suppress(KeyboardInterrupt):
            page.ended.wait()
    click.echo(f"labels: {out}")


@main.command("agreement")
@inputs
@click.option(
    "--with",
    "labels",
    required=True,
    type=click.Path(path_type=Path),
    help="A person's labels (CSV), or another judge's verdicts (a file or run folder).",
)
@click.option("--by", default="", help="Compare each group for itself, as language,model.")
@draws
@as_json
def agreement_(paths: tuple[Path, ...], labels: Path, by: str, draws: int, as_json: bool) -> None:
    """Compares judges with a person or with another judge, on the answers that both judged.

    Tells the share judged differently and Cohen's kappa with intervals, who is stricter (McNemar's
    test), and F1 of correct, incorrect and refusal.
    """
    from tiebe.results import read_verdicts as read
    from tiebe.scores import Bootstrap, agreement, frame

    other = frame(read_labels(labels)) if labels.suffix == ".csv" else read_verdicts((labels,))
    names = [name.strip() for name in by.split(",") if name.strip()]
    judged = frame(row for path in paths for row in read(path))
    table = agreement(judged, other, by=names, bootstrap=Bootstrap(draws=draws))
    show({"": table}, as_json=as_json)
    for path in paths:
        if agreement(read_verdicts((path,)), other, bootstrap=Bootstrap(draws=2)).empty:
            click.echo(
                f"{path}: none of its answers is judged in {labels} as well: are the ids (or "
                "questions), splits and models the same in both?",
                err=True,
            )


@main.command("exam")
@click.argument("model", required=False, metavar="JUDGE")
@judge_options
@as_json
def exam_(as_json: bool, **given: Any) -> None:
    """Examines a judge: 416 answers in 13 languages, right or wrong by construction."""
    from tiebe.exam import examine

    budget = budget_of(given)
    judge = judge_of(given, budget)
    result = examine(judge)
    show({"": result.table}, as_json=as_json)
    click.echo(result.citation, err=True)
    speed = f"{result.fresh} judged in {result.seconds:.0f} s"
    if result.fresh:
        speed += f" ({result.fresh / max(result.seconds, 1e-9):.1f} per second)"
    click.echo(f"{speed}; {spent(budget, judge.asked, result.usage)}", err=True)


@main.command("evaluate")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@model_option
@server_options
@completion
@click.option("--prompt", metavar="VERSION|FILE", help="Of the answer; the paper's by default.")
@click.option("--judge", "judge_model", metavar="NAME", help="As --model; offline by default.")
@click.option("--judge-base-url", metavar="URL", help="The judge's server.")
@click.option("--judge-key", metavar="VARIABLE", help="Environment variable with its key.")
@click.option(
    "--judge-max-tokens",
    default=1024,
    show_default=True,
    type=click.IntRange(1),
    help="Limit of its replies.",
)
@click.option("--judge-extra-body", metavar="JSON", help="Sent along to it.")
@priced("--judge-price")
@click.option("--judge-prompt", metavar="VERSION|FILE", help="event-1 by default.")
@cascade_option
@question_options
@concurrency
@engine_options
@click.option("--cutoff", metavar="MONTH", help="The last one that the model knows of, 2024-06.")
@click.option("--report/--no-report", default=True, help="Write RUN/report as well.")
@dry_run
def evaluate_(
    run: Path | None,
    prompt: str | None,
    judge_prompt: str | None,
    cascade: float | None,
    concurrency: int,
    cutoff: str | None,
    report: bool,
    dry_run: bool,
    engine: str,
    address: str | None,
    **given: Any,
) -> None:
    """Asks a model, judges its answers, scores them and reports: into the folder RUN, resumable.

    RUN may hold several models; its report shows them all.
    """
    from tiebe.evaluation import evaluate, event_judge, plan
    from tiebe.judges import OFFLINE

    budget = budget_of(given)
    by = given["judge_model"] or os.environ.get("TIEBE_JUDGE") or OFFLINE
    if by == OFFLINE:
        names = ("base_url", "key", "max_tokens", "extra_body", "price", "prompt")
        refuse("cascade", *(f"judge_{name}" for name in names))
    need_prices(given, budget, "", *(["judge_"] if by != OFFLINE else []))
    model = opened(given, budget, "answer", run=run)
    if by != OFFLINE:
        by = opened({**given, "judge_model": by}, budget, "judge", prefix="judge_", run=run)
    judge = event_judge(by, judge_prompt, concurrency=concurrency, cascade=cascade)
    setting: dict[str, Any] = {"judge": judge, "prompt": prompt, "run": run, **selected(given)}
    if dry_run:
        click.echo(plan(model, budget=budget, **setting))
        return
    with engine_of(engine, address) as runs:
        result = evaluate(model, cutoff=cutoff, engine=runs, **setting)
    click.echo(str(result))
    for part, asked in (("answers", model), ("verdicts", judge.asked)):
        click.echo(f"{part}: {spent(budget, asked, result.manifest[part]['usage'])}", err=True)
    if run is not None:
        click.echo(f"answers, verdicts and manifest: {run}", err=True)
        if report and find_spec("vl_convert") is None:
            click.echo("no report: pip install 'tiebe[report]'", err=True)
        elif report:
            from tiebe.reports import report as write_report

            page = write_report(read_verdicts((run,)), run / "report")
            click.echo(f"report: {page}", err=True)


@main.command("regions")
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def regions_(as_json: bool) -> None:
    """Lists the regions: slug, name, macro-region, native language, aliases."""
    from tiebe.regions import REGIONS

    rows = [
        {
            "slug": region.slug,
            "name": region.name,
            "macro_region": region.macro_region or "",
            "native": region.language.name if region.language else "",
            "aliases": ", ".join(region.aliases),
        }
        for region in REGIONS.values()
    ]
    listed(rows, as_json=as_json)


@main.command("models")
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def models_(as_json: bool) -> None:
    """Lists the models of the paper, with their knowledge cutoffs; any other can be asked too."""
    from tiebe.models import MODELS, PROVIDERS

    rows = [
        {
            "id": model.id,
            "provider": model.provider,
            "version": model.version,
            "cutoff": model.cutoff or "",
            "key": PROVIDERS[model.provider].key,
        }
        for model in MODELS.values()
    ]
    listed(rows, as_json=as_json)


def listed(rows: list[dict[str, str]], *, as_json: bool) -> None:
    """Prints a list, as JSON or in columns."""
    if as_json:
        import json

        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]:
        click.echo("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())


if __name__ == "__main__":
    main()
