import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiebe import resources
from tiebe.errors import TiebeError


def test_the_checkouts_folders_are_used_beside_pyproject() -> None:
    root = Path(resources.__file__).parents[1]
    assert resources.folder("prompts") == root / "prompts"
    assert resources.folder("dataset_card") == root / "dataset_card"


@pytest.mark.parametrize("checkout", [True, False])
def test_a_stale_copy_in_data_is_used_only_without_a_checkout(
    tmp_path: Path, *, checkout: bool
) -> None:
    package = tmp_path / "tiebe"
    shutil.copytree(Path(resources.__file__).parent, package)
    (package / "_data" / "prompts").mkdir(parents=True)
    (tmp_path / "prompts").mkdir()
    if checkout:
        (tmp_path / "pyproject.toml").touch()
    code = "from tiebe.resources import folder; print(folder('prompts'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    expected = tmp_path / "prompts" if checkout else package / "_data" / "prompts"
    assert Path(done.stdout.strip()) == expected


def test_a_broken_installation_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "tiebe")
    with pytest.raises(TiebeError, match="reinstall tiebe"):
        resources.folder("prompts")
