"""Fixtures of the builder's tests."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import web_server

from builder.about import Citation

Row = tuple[str, int]


@pytest.fixture
def site() -> Iterator[web_server.Site]:
    """A web for this test; its requests are logged."""
    with web_server.running() as site:
        yield site


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
