"""Fixtures for all tests: loopback only, own cache folders, the shared test data."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Read by huggingface_hub when it is imported, so set before any test module is.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
_HF = tempfile.TemporaryDirectory(prefix="tiebe-hf-")  # removed when the run ends
os.environ["HF_HOME"] = _HF.name

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data beside the checkout, or a skip with the reason."""
    if not SHARED.is_dir():
        pytest.skip(
            f"needs the shared test data, and there is no folder {SHARED.name}/ beside the checkout"
        )
    return SHARED


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, or a skip with the reason."""
    if not CHROMIUM.is_file():
        pytest.skip(f"needs chromium at {CHROMIUM}")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=str(CHROMIUM),
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-quic",
            ],
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def upstream_folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of 2025, rebuilt in upstream's layout."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("upstream")
    table = pd.read_parquet(shared / "upstream/qa.parquet").sort_values("row")
    for (region, language), rows in table.groupby(["region", "language"]):
        path = folder / "data" / ("english" if language == "english" else "translated")
        path.mkdir(parents=True, exist_ok=True)
        columns = ["year", "month", "event_desc", "text", "question", "answer"]
        records = [row | {"region": region} for row in rows[columns].to_dict("records")]
        (path / f"{region}.json").write_text(json.dumps(records, ensure_ascii=False), "utf-8")
    return folder


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test an empty TIEBE_HOME and TIEBE_CACHE of its own, and no keys."""
    monkeypatch.setenv("TIEBE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("TIEBE_CACHE", str(tmp_path_factory.mktemp("cache")))
    for name in [n for n in os.environ if n.endswith(("_API_KEY", "_TOKEN")) or n == "TIEBE_JUDGE"]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def loopback_only(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Refuses any connection that leaves this machine, save for tests marked `install`."""
    if "install" in request.keywords:
        yield
        return
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else None
        if host is not None and not (str(host).startswith("127.") or host in ("::1", "localhost")):
            raise AssertionError(f"a test tried to reach {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield
