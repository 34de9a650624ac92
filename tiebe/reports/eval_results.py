"""Scores as the Hub's `.eval_results` files, which a model's page and the leaderboard show."""

import pandas as pd
import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

from tiebe.errors import RecordError
from tiebe.scores import Rows, frame, score

__all__ = ["eval_results"]

TASKS = ("english", "native")
"""The task ids of the benchmark's eval.yaml."""


def eval_results(rows: Rows, dataset: str = "TimelyEventsBenchmark/TiEBe") -> dict[str, str]:
    """Returns for each model the text of `.eval_results/tiebe.yaml` of its repository.

    Values are accuracies in percent, one entry per split; who judged, n and the 95 % interval stand
    in the notes.

    Args:
        rows: Verdict rows, see `tiebe.scores.frame`.
        dataset: The repo id of the benchmark.

    Raises:
        RecordError: No row says its model and split.
    """
    data = frame(rows)
    data = data[(data["model"] != "") & data["split"].isin(TASKS)].reset_index(drop=True)
    if data.empty:
        raise RecordError("results for the Hub need rows that say their model and split")
    table = score(data, ["model", "split"])
    texts = {}
    for model, lines in table[table["accuracy"].notna()].groupby("model", sort=True):
        own = data[data["model"] == model]
        entries = [
            EvalResultEntry(
                dataset_id=dataset,
                task_id=line["split"],
                value=round(100 * line["accuracy"], 2),
                notes=(
                    f"accuracy in percent, n={line['n']}, unscored={line['unscored']}, "
                    f"95% interval {100 * line['low']:.1f} to {100 * line['high']:.1f}"
                    + _judges(own[own["split"] == line["split"]])
                ),
            )
            for line in lines.to_dict("records")
        ]
        texts[str(model)] = yaml.safe_dump(
            eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True
        )
    return texts


def _judges(rows: pd.DataFrame) -> str:
    names = {
        str(name)
        for column in ("judge", "judge_model")
        if column in rows
        for name in rows[column].dropna().unique()
    }
    return f", judged by {' and '.join(sorted(names))}" if names else ""
