"""Fixtures of the builder's tests."""

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import requests
import web_server

from builder.about import Citation

Row = tuple[str, int]


@pytest.fixture
def site() -> Iterator[web_server.Site]:
    """A web for this test; its requests are logged."""
    with web_server.running() as site:
        yield site


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """What was asked for, and when, by the client's clock: a site's thread may wake late."""
    sent: list[tuple[str, float]] = []
    get = requests.Session.get

    def noted(self: requests.Session, url: str, **options: Any) -> requests.Response:
        sent.append((unquote(url), time.monotonic()))
        return get(self, url, **options)

    monkeypatch.setattr(requests.Session, "get", noted)
    return sent


@pytest.fixture(scope="session")
def rows(shared: Path) -> dict[Row, Citation]:
    """The English rows of 2025: by region and number each event with its text."""
    import pandas as pd

    table = pd.read_parquet(shared / "upstream/qa.parquet")
    return {
        (row.region, row.row): Citation(row.event_desc, row.text, f"{row.year}-{row.month}")
        for row in table[table.language == "english"].itertuples()
    }


@pytest.fixture(scope="session")
def audit(shared: Path) -> dict[str, set[Row]]:
    """What an audit found in these rows: by flag."""
    flags: dict[str, set[Row]] = defaultdict(set)
    for line in (shared / "upstream/audit.csv").read_text("utf-8").splitlines()[1:]:
        region, row, flag = line.split(",")
        flags[flag].add((region, int(row)))
    return flags
