import pytest
import yaml

from tiebe.errors import RecordError
from tiebe.reports.eval_results import eval_results


def test_a_file_per_model_with_an_entry_per_split(verdicts):
    texts = eval_results(verdicts)
    assert set(texts) == {"gpt-4.1", "mistral-large-latest", "own"}
    english, native = yaml.safe_load(texts["gpt-4.1"])
    assert english["dataset"] == {"id": "TimelyEventsBenchmark/TiEBe", "task_id": "english"}
    assert native["dataset"]["task_id"] == "native"
    rows = [r for r in verdicts if r["model"] == "gpt-4.1" and r["split"] == "english"]
    scored = [r["correct"] for r in rows if r["correct"] is not None]
    assert english["value"] == pytest.approx(100 * sum(scored) / len(scored), abs=0.005)
    assert "judged by a-judge" in english["notes"]
    assert f"unscored={len(rows) - len(scored)}" in english["notes"]


def test_rows_must_say_their_model_and_split():
    with pytest.raises(RecordError, match="their model and split"):
        eval_results([{"correct": True}])
