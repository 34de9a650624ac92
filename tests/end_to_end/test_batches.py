"""A release built with questions in files: every paid stage, one place."""

from pathlib import Path

import batch_server
import pytest

from builder.demo import PAGES, REPLIES, build, serve
from builder.run import Run
from tiebe.batches import Pace
from tiebe.llm import open_model
from tiebe.load import load_tiebe

TOML = """
[release]
version = "2023.12"
[pages]
source = "folder:{pages}"
regions = ["Brazil", "New Zealand"]
years = [2022, 2023]
[web]
delay = 0.0
allow_private = true
rewrite = "{rewrite}"
[generate]
model = "writer"
[models.writer]
base_url = "{writer}"
batch = true
"""


@pytest.mark.slow
def test_a_release_is_built_by_the_batch_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiebe.batches.PACE", Pace(quiet=0.3, poll=0.3))
    recorded = open_model(f"replay:{REPLIES}")

    def reply(text: str) -> str:
        return recorded.ask([{"role": "user", "content": text}]).raw

    folder = tmp_path / "run"
    folder.mkdir()
    with batch_server.running(reply=reply) as server, serve() as rewrite:
        toml = TOML.format(pages=PAGES, rewrite=rewrite, writer=server.base_url)
        (folder / "run.toml").write_text(toml, "utf-8")
        with Run(folder, progress=False) as run:
            run.upto("release")
        asked = len(server.paid)
        with Run(folder, progress=False) as run:
            run.upto("release")
        assert set(server.paid.values()) == {1} and len(server.paid) == asked >= 20
    rows = load_tiebe(source=folder / "release", language="both").to_list()
    demo = load_tiebe(source=build(tmp_path / "demo", progress=False), language="both").to_list()
    texts = [(row["language"], row["question"], row["answer"]) for row in rows]
    assert texts == [(row["language"], row["question"], row["answer"]) for row in demo]
    assert {row["writer"] for row in rows} == {"stub-1"}
