"""The wheel: built, installed without what only developers need, both command lines run."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with nothing but its stock pip."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [str(python), *PIP, "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode and "hatchling" in done.stderr and "No matching" in done.stderr:
        pytest.skip("pip's index is out of reach: hatchling cannot be had")
    assert done.returncode == 0, done.stderr[-2000:]
    return next(folder.glob("tiebe-*.whl"))


@pytest.mark.install
@pytest.mark.slow
def test_the_wheel_holds_code_and_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "tiebe/py.typed",
        "tiebe/models.toml",
        "tiebe/adapters/lm_eval_tasks/tiebe.yaml",
        "tiebe/_data/prompts/generate/paper.jinja",
        "tiebe/_data/dataset_card/README.md.jinja",
        "builder/demo/replies.jsonl",
        "builder/cli.py",
    ):
        assert needed in names
    assert not [n for n in names if n.split("/")[0] in ("tests", "benchmarks", "training")]


@pytest.mark.install
@pytest.mark.slow
def test_installed_by_a_stock_pip_both_command_lines_run(python: Path, wheel: Path) -> None:
    install = [str(python), *PIP, "install", "--quiet", f"{wheel}[builder]"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]

    def run(*command: str) -> str:
        return subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=wheel.parent
        ).stdout

    assert "retrieve" in run(str(python.parent / "tiebe-build"), "--help")
    assert "Brazil" in run(str(python.parent / "tiebe"), "regions")
    assert "judge" in run(str(python), "-m", "tiebe.cli", "--help")
    script = "from tiebe.prompts import load_prompt; print(load_prompt('judge', 'paper').id)"
    assert run(str(python), "-c", script).strip() == "judge@paper"
