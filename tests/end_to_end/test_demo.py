"""The bundled demonstration: the whole path on the suite's own inputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import scenario

from builder.demo import demonstrate
from builder.run import STAGES
from tiebe import load_tiebe
from tiebe.errors import SettingsError
from tiebe.llm import open_model


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TIEBE_HOME", "TIEBE_CACHE", "HF_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        said = demonstrate(folder, model=lambda prompt: "Answer: 2022", progress=False)
        return folder, "\n".join(said)


def test_tells_what_is_replayed_and_what_is_real(told: tuple[Path, str]) -> None:
    _, text = told
    for part in ("Replayed: ", "Real: ", "pt: ", "accuracy", "release     "):
        assert part in text


def test_every_stage_accounts_for_its_inputs(told: tuple[Path, str]) -> None:
    counts = scenario.stages(told[0])
    assert list(counts) == [name for name in STAGES if name != "release"]
    assert counts["collect"]["parents"] == 4
    assert {"not_found", "cookie_page", "text_off_event"} <= set(counts["retrieve"]["dropped"])


def test_the_release_has_english_and_portuguese_rows(told: tuple[Path, str]) -> None:
    rows = load_tiebe(source=told[0] / "release", language="both", text=True).to_list()
    english = {r["id"] for r in rows if r["language"] == "en"}
    native = [r for r in rows if r["language"] == "pt"]
    assert len(english) >= 20 and len(native) >= 8
    assert {r["id"] for r in native} <= english
    assert all(r["text"] and r["event_desc"] and r["source_url"] for r in rows)


def test_a_second_call_repeats_nothing(told: tuple[Path, str]) -> None:
    folder, _ = told
    journals = {p: p.read_bytes() for p in folder.rglob("*.jsonl") if "release" not in p.parts}
    release = scenario.release_files(folder)
    list(demonstrate(folder, model=lambda prompt: "Answer: 2022", progress=False))
    assert {p: p.read_bytes() for p in journals} == journals
    assert scenario.release_files(folder) == release


@pytest.mark.slow
def test_the_verb_runs_with_the_real_local_model(tmp_path: Path) -> None:
    try:
        open_model("local")
    except SettingsError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-m", "builder.cli", "demo", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "local" in done.stdout and "pt: " in done.stdout
    manifest = json.loads((tmp_path / "demo" / "evaluation" / "manifest.json").read_text())
    served = manifest["evaluations"]["local"]["answers"]["served"]
    assert sum(served.values()) >= 20
