"""A run's base, and the decisions that it obeys."""

import dataclasses
from pathlib import Path

import pytest
from releases import make

from builder.records import Decision
from builder.release import Edition, write_release
from builder.review import write_decisions
from builder.run import Run
from tiebe.errors import SettingsError


def new_run(folder: Path, base: str, version: str = "2025.04") -> Run:
    folder.mkdir(exist_ok=True)
    (folder / "run.toml").write_text(
        f'[release]\nversion = "{version}"\nbase = "{base}"\n'
        '[pages]\nsource = "folder:pages"\nregions = ["Brazil"]\n',
        "utf-8",
    )
    return Run(folder, progress=False)


@pytest.fixture
def march(tmp_path: Path) -> Path:
    write_release(tmp_path / "march", *make(4, ("Brazil",)), Edition("2025.03"))
    return tmp_path / "march"


def test_a_base_is_the_release_before(march: Path, tmp_path: Path) -> None:
    with new_run(tmp_path / "run", str(march)) as run:
        assert run.base == march
    with new_run(tmp_path / "none", "") as run:
        assert run.base is None


@pytest.mark.parametrize("version", ["2025.03", "2025.02"])
def test_a_base_that_is_not_before_is_refused(march: Path, tmp_path: Path, version: str) -> None:
    with (
        new_run(tmp_path / "run", str(march), version) as run,
        pytest.raises(SettingsError, match=f"holds 2025.03: expected one release before {version}"),
    ):
        _ = run.base


def test_a_folder_without_rows_and_a_mistyped_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with (
        new_run(tmp_path / "one", str(tmp_path / "empty")) as run,
        pytest.raises(SettingsError, match="holds no rows"),
    ):
        _ = run.base
    with (
        new_run(tmp_path / "two", "releases/march") as run,
        pytest.raises(SettingsError, match="'releases/march' is neither a folder"),
    ):
        _ = run.base


def test_decisions_of_the_base_and_of_the_run_are_read_once_each(
    march: Path, tmp_path: Path
) -> None:
    (row, *_) = make(4, ("Brazil",))[0]
    one, two = Decision(row.id, "keep"), Decision("x", "withdraw", event_id="e")
    write_decisions(march / "decisions.jsonl", [one])
    release = tmp_path / "run" / "release"
    release.mkdir(parents=True)
    placed = dataclasses.replace(one, event_id=row.event_id)
    write_decisions(release / "decisions.jsonl", [placed, two])
    with new_run(tmp_path / "run", str(march)) as run:
        assert run.decisions == [placed, two]
