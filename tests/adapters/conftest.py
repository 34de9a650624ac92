"""The README's commands of other harnesses, on five questions, a local Hub and a local model."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import five_questions
import local_hub
import pytest

from tiebe.load import HUB

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture(scope="session")
def commands() -> Callable[[str], list[str]]:
    """The lines of the README's section that name a word, in their order."""
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## Other harnesses\n")[2]
    (block,) = re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    return lambda word: [line for line in lines if word in line.split("#")[0]]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables under which the Hub holds the five questions and every model answers them."""
    root = tmp_path_factory.mktemp("harness")
    release = five_questions.write(root / "release")
    with local_hub.running(root / "hub") as hub, five_questions.running() as server:
        variables = {
            **{name: value for name, value in os.environ.items() if name != "TIEBE_JUDGE"},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(root / "home"),
            "HF_TOKEN": "hf_write",
            "TIEBE_HOME": str(root / "tiebe"),
            "OPENAI_BASE_URL": server,
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is fetched
        }
        publish = f"from builder.publish import publish; publish(Path({str(release)!r}), {HUB!r})"
        script = f"from pathlib import Path; {publish}"
        subprocess.run([sys.executable, "-c", script], env=variables, check=True)
        yield variables


@pytest.fixture(scope="session")
def shell(environment: dict[str, str]) -> Callable[[str, Path], str]:
    """Runs a line of the README in a folder; returns what it printed."""

    def run(line: str, cwd: Path) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return run
