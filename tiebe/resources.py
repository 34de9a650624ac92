"""Finds the files beside the code: prompts and the dataset card's templates."""

from pathlib import Path
from typing import Literal

from tiebe.errors import TiebeError

__all__ = ["folder"]

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
