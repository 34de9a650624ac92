"""A release on the Hub is a benchmark as it stands: Inspect's own loader reads its eval.yaml."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import local_hub
import pytest
from huggingface_hub import HfApi
from releases import make

from builder.publish import publish
from builder.release import Edition, write_release
from tiebe.load import load_tiebe

REPO = "lab/TiEBe"


@pytest.mark.harness
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
@pytest.mark.parametrize(("task", "language"), [("english", "english"), ("native", "native")])
def test_inspect_runs_the_release(task: str, language: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: make test-harness")
    write_release(tmp_path / "release", *make(6, ("Brazil", "World")), Edition("2025.04"))
    with local_hub.running(tmp_path / "hub") as hub:
        publish(tmp_path / "release", REPO, api=HfApi(endpoint=hub.url, token="hf_write"))
        done = subprocess.run(
            [
                sys.executable,
                str(Path(__file__).with_name("inspect_client.py")),
                f"hf/{REPO}/{task}",
                str(tmp_path / "logs"),
            ],
            env=os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["status"] == "success", told["error"]
    rows = list(load_tiebe(source=tmp_path / "release", language=language))[:4]
    assert told["questions"] == [row["question"] for row in rows]
    assert told["targets"] == [row["answer"] for row in rows]
    assert all(f'"{q}"' in a for q, a in zip(told["questions"], told["asked"], strict=True))
    assert told["values"][:2] == ["true", "false"]
    assert told["values"][2] is None or math.isnan(told["values"][2])  # unscored, not wrong
    assert told["values"][3] == "false"
