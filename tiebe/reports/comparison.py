"""Compares runs in order, or releases: what changed, which questions flipped, is it noise."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from tiebe.errors import SettingsError
from tiebe.reports.tables import Table
from tiebe.scores import DEFAULT, Bootstrap, Rows, differences, frame, score, texts

__all__ = ["Comparison", "compare_releases", "compare_runs"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    tables: Mapping[str, Table]
    flips: pd.DataFrame
    """One line per question whose verdict (or text, in releases) changed."""


def compare_runs(runs: Mapping[str, Rows], *, bootstrap: Bootstrap = DEFAULT) -> Comparison:
    """Compares runs on the questions that they share, each with the one before and with the first.

    Where every run has one model (a model's checkpoints, say), the runs are compared whatever it is
    called; where they have several, each model is compared with itself.

    Args:
        runs: Verdict rows by the name of the run, in order.
        bootstrap: How intervals are computed.

    Returns:
        Tables `runs` (scores of each), `changes` (paired differences: noise says that the interval
        holds zero; same_answer and judge_noise that of the same answers so many got another
        verdict) and `periods`: learned is the share of the questions wrong before that are right
        now, forgotten the share of those right before that are wrong now. In `flips`: first,
        second, the question's fields, change (learned or forgotten) and both answers.

    Raises:
        SettingsError: There are fewer than two runs, or they have different sets of models.
        RecordError: See `tiebe.scores.frame`.
    """
    if len(runs) < 2:
        raise SettingsError(
            "there is nothing to compare: name two or more runs; the models of one run stand side "
            "by side in its report, and in `tiebe score RUN --table differences`"
        )
    parts = {name: frame(rows) for name, rows in runs.items()}
    models = {name: set(part["model"].unique()) for name, part in parts.items()}
    several = any(len(names) > 1 for names in models.values())
    if several and len({frozenset(names) for names in models.values()}) > 1:
        raise SettingsError(
            "runs with several models can only be compared when each has the same ones: "
            + "; ".join(f"{name} has {', '.join(sorted(found))}" for name, found in models.items())
        )
    data = pd.concat([part.assign(run=name) for name, part in parts.items()], ignore_index=True)
    by = ["model"] if several else []
    by += ["split"] if data["split"].ne("").any() else []
    order = list(runs)
    wanted = list(zip(order, order[1:], strict=False))
    wanted += [(order[0], order[-1])] if len(order) > 2 else []

    def paired(rows: pd.DataFrame, *more: str) -> pd.DataFrame:
        return differences(rows, [*by, *more], of="run", pairs=wanted, bootstrap=bootstrap)

    changes = paired(data)
    changes["noise"] = (changes["low"] <= 0) & (changes["high"] >= 0)
    pairs = _pairs(data, wanted, by)
    changes = changes.merge(_judge_noise(pairs, by), on=[*by, "first", "second"], how="left")
    tables = {
        "runs": Table("runs", "Runs", score(data, [*by, "run"], bootstrap=bootstrap)),
        "changes": Table("changes", "What changed", changes),
    }
    if data["period"].ne("").any():
        periods = paired(data, "period")
        right = periods["first_accuracy"] * periods["n"]
        periods["learned"] = periods["gained"] / (periods["n"] - right).where(lambda n: n > 0)
        periods["forgotten"] = periods["lost"] / right.where(lambda n: n > 0)
        tables["periods"] = Table("periods", "Learned and forgotten by period", periods)
    return Comparison(tables, _flips(pairs, by))


def _pairs(data: pd.DataFrame, wanted: list[tuple[str, str]], by: list[str]) -> pd.DataFrame:
    """Returns the rows that both runs of each pair have, side by side."""
    key = [*by, "item", "split"] if "split" not in by else [*by, "item"]
    data = data[data["correct"].notna()].drop_duplicates([*key, "run"])
    names = ("question", "answer", "model_answer")
    data = data.assign(**{name: texts(data, name) for name in names})
    after = data[[*key, "run", "correct", "model_answer"]]
    blocks = [
        data[data["run"] == first].merge(
            after[after["run"] == second], on=key, suffixes=("", "_second")
        )
        for first, second in wanted
    ]
    return pd.concat(blocks, ignore_index=True).rename(
        columns={"run": "first", "run_second": "second"}
    )


def _judge_noise(pairs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Returns how many answers are the same in both runs, and how many of them flipped."""
    same = pairs[
        (pairs["model_answer"] == pairs["model_answer_second"]) & (pairs["model_answer"] != "")
    ]
    flipped = (same["correct"] != same["correct_second"]).astype(float)
    groups = flipped.groupby([same[name] for name in [*by, "first", "second"]])
    return pd.DataFrame({"same_answer": groups.size(), "judge_noise": groups.mean()}).reset_index()


def _flips(pairs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    flipped = pairs[pairs["correct"] != pairs["correct_second"]]
    known = [name for name in ("id", "region", "year", "month") if name in flipped]
    return flipped.assign(
        change=flipped["correct_second"].map({1.0: "learned", 0.0: "forgotten"}),
    )[
        [*by, "first", "second", "change", *known]
        + ["question", "answer", "model_answer", "model_answer_second"]
    ].reset_index(drop=True)


def compare_releases(releases: Mapping[str, Rows]) -> Comparison:
    """Compares releases in order, each with the one before.

    Args:
        releases: Rows of questions by the name of the release, in order.

    Returns:
        A table `changes`, one line per pair, region and split: unchanged, reworded (same id, other
        words), corrected (new id, `replaces` the old), added and withdrawn. `flips` names each row
        that is not unchanged.

    Raises:
        SettingsError: There are fewer than two releases.
    """
    if len(releases) < 2:
        raise SettingsError("there is nothing to compare: name two or more releases")
    parts = {name: frame(rows, judged=False) for name, rows in releases.items()}
    names = ("question", "answer", "replaces")
    parts = {
        name: part.assign(**{column: texts(part, column) for column in names})
        for name, part in parts.items()
    }
    blocks = []
    order = list(parts)
    for first, second in zip(order, order[1:], strict=False):
        both = parts[first].merge(
            parts[second],
            on=["item", "region", "split"],
            how="outer",
            suffixes=("", "_second"),
            indicator="side",
        )
        replaced = set(parts[second]["replaces"])
        kind = both["side"].map({"left_only": "withdrawn", "right_only": "added"}).astype(object)
        reworded = (both["question"] != both["question_second"]) | (
            both["answer"] != both["answer_second"]
        )
        kind = kind.mask(
            both["side"] == "both", reworded.map({True: "reworded", False: "unchanged"})
        )
        kind = kind.mask((kind == "added") & (both["replaces_second"] != ""), "corrected")
        # The old row of a corrected one is not withdrawn: its correction stands for both.
        gone = (kind == "withdrawn") & both["item"].isin(replaced)
        blocks.append(both.assign(first=first, second=second, change=kind)[~gone])
    data = pd.concat(blocks, ignore_index=True)
    kinds = ["unchanged", "reworded", "corrected", "added", "withdrawn"]
    counts = (
        data.groupby(["first", "second", "region", "split", "change"], sort=False)
        .size()
        .unstack(fill_value=0)
        .reindex(columns=kinds, fill_value=0)
        .reset_index()
    )
    counts.columns.name = None
    columns = ["first", "second", "region", "split", "change", "item"]
    columns += ["question", "answer", "question_second", "answer_second"]
    flips = data.loc[data["change"] != "unchanged", columns].reset_index(drop=True)
    return Comparison({"changes": Table("changes", "What changed", counts)}, flips)
