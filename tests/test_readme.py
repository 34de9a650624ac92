"""Every command and snippet of the README runs, against local parts instead of the network."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import local_hub
import pytest
from releases import make

from builder.demo import PAGES, REPLIES, serve
from builder.release import Edition, write_release
from builder.settings import read_settings
from tiebe.errors import SettingsError
from tiebe.llm import open_model
from tiebe.load import HUB

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment whose Hub is a local one that holds the benchmark."""
    root = tmp_path_factory.mktemp("readme")
    questions, articles = make(40, ("Brazil",))
    release = root / "release"
    write_release(release, questions, articles, Edition("2025.04"))
    with local_hub.running(root / "hub") as hub:
        environment = {
            **os.environ,
            "HF_ENDPOINT": hub.url,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HOME": str(root / "home"),
            "HF_TOKEN": "hf_write",
            "TIEBE_HOME": str(root / "tiebe"),
            "TIEBE_CACHE": str(root / "cache"),
        }
        subprocess.run([sys.executable, "-c", _publish(release)], env=environment, check=True)
        yield environment


def _publish(release: Path) -> str:
    return (
        "from pathlib import Path; from builder.publish import publish; "
        f"publish(Path({str(release)!r}), {HUB!r})"
    )


def run(line: str, cwd: Path, env: dict[str, str]) -> str:
    """Runs a command line of the README, with this environment's Python for its program."""
    program, *arguments = shlex.split(line)
    module = {"tiebe": "tiebe.cli", "tiebe-build": "builder.cli"}[program]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
    return done.stdout


def test_every_command_is_run_by_a_test_here() -> None:
    known = ("make ", "tiebe evaluate ", "tiebe score ", "tiebe-build ")
    assert len(commands()) >= 7
    assert not [line for line in commands() if not line.startswith(known)]


def test_load_and_judge_in_ten_lines(env: dict[str, str], tmp_path: Path) -> None:
    (snippet,) = blocks("python")
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "->" in done.stdout and "True False offline" in done.stdout
    assert "accuracy" in done.stdout and "100.0%" in done.stdout  # it refused throughout


@pytest.mark.slow
def test_evaluate_and_score(env: dict[str, str], tmp_path: Path) -> None:
    try:
        open_model("local")
    except SettingsError as error:
        pytest.skip(str(error))
    out = [run(line, tmp_path, env) for line in commands() if line.startswith("tiebe ")]
    assert len(out) >= 2 and "Brazil" in out[-1]


def test_build_a_release(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (toml,) = blocks("toml")
    (folder / "run.toml").write_text(toml, "utf-8")
    assert read_settings(folder / "run.toml").regions() == ["Brazil", "New_Zealand"]
    lines = [line for line in commands() if line.startswith("tiebe-build ")]
    assert len(lines) <= 5
    with serve() as rewrite:
        local = toml.replace("deepseek:deepseek-chat", f"replay:{REPLIES}")
        local = local.replace("[pages]\n", f'[pages]\nsource = "folder:{PAGES}"\n')
        local += f'[web]\ndelay = 0.0\nallow_private = true\nrewrite = "{rewrite}"\n'
        (folder / "run.toml").write_text(local, "utf-8")
        told = [run(line, tmp_path, env) for line in lines]
    assert "release: " in "".join(told) and (folder / "release" / "README.md").is_file()
    assert "owner/name" in told[-1]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_two_commands_of_a_clone_are_there() -> None:
    for line in commands():
        if line.startswith("make "):
            subprocess.run(
                [*shlex.split(line), "--dry-run"], cwd=ROOT, check=True, capture_output=True
            )


def test_the_changelog_is_short() -> None:
    lines = re.findall(r"^- (.*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert lines and [line for line in lines if len(line.split()) > 25] == []
