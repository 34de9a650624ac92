"""Finds what lies outside the code: prompts, the card's templates, the user's own folder."""

import os
from pathlib import Path
from typing import Literal

from tiebe.errors import TiebeError

__all__ = ["folder", "home"]

_PACKAGE = Path(__file__).resolve().parent


def folder(name: Literal["prompts", "dataset_card"]) -> Path:
    """Returns the folder `name` of the checkout, or of the wheel when this is an installed one.

    Raises:
        TiebeError: The folder is not there: the installation is broken.
    """
    # An editable install leaves a stale copy in _data, so the checkout is looked for first.
    checkout = _PACKAGE.parent
    root = checkout if (checkout / "pyproject.toml").is_file() else _PACKAGE / "_data"
    found = root / name
    if not found.is_dir():
        raise TiebeError(f"{found} is missing: reinstall tiebe")
    return found


def home() -> Path:
    """Returns the folder of what was paid for outside a run: `TIEBE_HOME`, or the user's data."""
    if chosen := os.environ.get("TIEBE_HOME", "").strip():
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_data_path("tiebe", appauthor=False)
