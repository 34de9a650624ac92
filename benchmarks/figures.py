"""A measured number beside its peer and its limit, and the table of them."""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

FILE = "TIEBE_FIGURES"
"""The variable that names the JSON-lines file to which figures are added."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. What its limit holds for is its ratio to the peer where it has one."""

    what: str
    value: float
    unit: str
    peer: str = ""
    """What it stands beside, measured in the same run."""
    peer_value: float | None = None
    limit: float | None = None
    bound: Literal["at most", "at least"] = "at most"

    @property
    def ratio(self) -> float | None:
        """The value in units of the peer's."""
        return self.value / self.peer_value if self.peer_value else None

    @property
    def met(self) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.limit is None:
            return None
        held = self.value if self.ratio is None else self.ratio
        return held <= self.limit if self.bound == "at most" else held >= self.limit

    def row(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


HEAD = ("", "measured", "beside", "ratio", "limit")


def table(figures: Iterable[Figure]) -> str:
    """Returns figures as a table of plain text."""
    rows = [HEAD, *map(_cells, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _cells(figure: Figure) -> tuple[str, ...]:
    peer = "" if figure.peer_value is None else f"{figure.peer} {_number(figure.peer_value)}"
    limit = "" if figure.limit is None else f"{figure.bound} {_number(figure.limit)}"
    return (
        figure.what,
        f"{_number(figure.value)} {figure.unit}",
        peer,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        f"{limit}, MISSED" if figure.met is False else limit,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def finish(figures: Iterable[Figure]) -> None:
    """Prints the table, adds the figures to the file of `FILE`, exits with 1 when one is missed."""
    figures = list(figures)
    print(table(figures))
    if name := os.environ.get(FILE):
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(figure.row()) + "\n" for figure in figures)
    if any(figure.met is False for figure in figures):
        sys.exit(1)
