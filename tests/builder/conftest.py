"""Fixtures of the builder's tests."""

from collections.abc import Iterator

import pytest
import web_server


@pytest.fixture
def site() -> Iterator[web_server.Site]:
    """A web for this test; its requests are logged."""
    with web_server.running() as site:
        yield site
