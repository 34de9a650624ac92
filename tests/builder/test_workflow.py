"""The steps of the monthly workflow that are scripts of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import local_hub
import pytest
import yaml
from huggingface_hub import HfApi
from releases import make

from builder.publish import publish
from builder.release import Edition, write_release
from builder.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
REPO = "lab/TiEBe"


@pytest.fixture(scope="module")
def steps() -> dict[str, dict[str, Any]]:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    return {step["name"]: step for step in workflow["jobs"]["release"]["steps"] if "name" in step}


def shell(script: str, folder: Path, **env: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)} | env
    subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, check=True)


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_the_base_is_the_newest_tag(steps: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    def chosen(**env: str) -> dict[str, str]:
        output = tmp_path / "output"
        output.write_text("")
        shell(
            steps["Choose version and base"]["run"],
            tmp_path,
            **{"VERSION": "", "BASE": "", "DATASET": REPO, "GITHUB_OUTPUT": str(output)} | env,
        )
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    with local_hub.running(tmp_path / "hub") as hub:
        env = {"HF_ENDPOINT": hub.url}
        api = HfApi(endpoint=hub.url, token="hf_write")
        api.create_repo(REPO, repo_type="dataset")
        assert chosen(VERSION="2025.03", **env) == {
            "version": "2025.03", "year": "2025", "base": "",
        }  # fmt: skip
        for version in ("2025.03", "2025.03.1"):
            questions = make(3 if version == "2025.03" else 4, ("World",))
            write_release(tmp_path / version, *questions, Edition(version))
            publish(tmp_path / version, REPO, api=api)
        assert chosen(VERSION="2025.04", **env)["base"] == "v2025.03.1"
        assert chosen(VERSION="2025.04", BASE="none", **env)["base"] == ""
        latest = chosen(BASE="v2025.03", **env)
        assert latest["base"] == "v2025.03"
        assert len(latest["version"]) == 7


def test_run_toml_is_filled_in(steps: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / ".github").symlink_to(ROOT / ".github")
    values = {
        "VERSION": "2025.04",
        "BASE": "v2025.03",
        "YEAR": "2025",
        "BUDGET": "7.5",
        "CONTACT": "https://forge.example/lab/TiEBe",
    }
    shell(steps["Write run.toml"]["run"], tmp_path, **values)
    settings = read_settings(tmp_path / "run/run.toml")
    assert (settings.release.version, settings.release.base) == ("2025.04", "v2025.03")
    assert tuple(settings.pages.years) == (2015, 2025)
    assert settings.pages.contact == values["CONTACT"]
    assert settings.budget.max_cost == 7.5
    assert "@" not in str(settings)
