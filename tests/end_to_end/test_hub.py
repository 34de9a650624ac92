"""Releases on a Hub, with the real clients in processes of their own."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import local_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from releases import make

from builder.release import Edition, read_articles, read_questions, write_release
from tiebe.load import load_tiebe

REPO = "lab/TiEBe"
CLIENT = Path(__file__).with_name("client.py")
ROOT = Path(__file__).resolve().parents[2]
Call = tuple[str, list[Any], dict[str, Any]]


def client(hub: str, home: Path, calls: list[Call], **env: str) -> list[dict[str, Any]]:
    """Makes calls in one process; `home` is its HF_HOME, so its caches."""
    environment = os.environ | {
        "HF_ENDPOINT": hub,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(home),
        "HF_TOKEN": "hf_write",
        "PYTHONPATH": str(ROOT),
        "PYTHONFAULTHANDLER": "1",
    }
    done = subprocess.run(
        [sys.executable, str(CLIENT)],
        input="".join(json.dumps(call) + "\n" for call in calls),
        env=environment | env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def load(*arguments: Any, **options: Any) -> Call:
    return ("load_tiebe", list(arguments), {"source": REPO} | options)


def keys(folder: Path, **options: Any) -> list[list[str]]:
    return [[row["id"], row["language"]] for row in load_tiebe(source=folder, **options)]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two releases: the second has a region more, one less, and 24 questions more."""
    root = tmp_path_factory.mktemp("releases")
    folders = {"2025.03": root / "march", "2025.04": root / "april"}
    march = make(24, ("Brazil", "Portugal", "World"))
    write_release(folders["2025.03"], *march, Edition("2025.03"))
    since = {q.id: q.since for q in read_questions(folders["2025.03"])}
    questions, articles = make(36, ("Brazil", "Portugal", "Nigeria"))
    questions = [dataclasses.replace(q, since=since.get(q.id, "")) for q in questions]
    edition = Edition("2025.04", base=folders["2025.03"])
    write_release(folders["2025.04"], questions, articles, edition)
    return folders


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[local_hub.Hub]:
    with local_hub.running(tmp_path / "hub") as running:
        yield running


OPTIONS: list[dict[str, Any]] = [
    {},
    {"region": "Brazil"},
    {"region": ["PT", "nigeria"]},
    {"language": "native"},
    {"language": "both"},
    {"language": "pt", "region": "South America"},
    {"years": [2016, 2018]},
    {"after": "2021-05"},
    {"before": "2021-05", "language": "both"},
    {"since": "2025.03"},
    {"sample": "mini"},
    {"sample": 10},
    {"text": True, "region": "Nigeria"},
    {"version": "2025.04"},
    {"version": "2025.03"},
    {"version": "2025.03", "language": "native", "text": True},
]


def test_publish_twice_and_load_everything(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    march, april = releases["2025.03"], releases["2025.04"]
    told = client(
        hub.url,
        tmp_path / "home",
        [
            ("publish", [str(march), REPO], {}),
            ("publish", [str(april), REPO], {}),
            ("load_dataset", [REPO], {"split": "english"}),
            ("load_dataset", [REPO, "Brazil"], {"split": "english", "revision": "v2025.03"}),
            ("load_dataset", [REPO, "Brazil"], {"split": "native", "revision": "v2025.04"}),
            ("load_dataset", [REPO], {"split": "english", "streaming": True}),
            *(load(**options) for options in OPTIONS),
            *(load(streaming=True, **options) for options in OPTIONS),
        ],
    )
    assert [t["lines"][-1] for t in told[:2]] == ["tag v2025.03", "tag v2025.04"]
    assert told[2]["keys"] == told[5]["keys"] == keys(april)
    assert told[3]["keys"] == keys(march, region="Brazil")
    assert told[4]["keys"] == keys(april, region="Brazil", language="native")
    for options, answer in zip(OPTIONS * 2, told[6:], strict=True):
        version = options.get("version", "2025.04")
        assert answer.get("keys") == keys(releases[version], **options), (options, answer)
        assert answer["versions"] == [version]
        assert answer["texts"] == (len(answer["keys"]) if options.get("text") else 0)


def test_the_version_asked_for_or_an_error(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    """With the Hub stopped, whatever was loaded before, and in whatever order."""
    march, april = releases["2025.03"], releases["2025.04"]
    both, old, part = (tmp_path / name for name in ("both", "old", "part"))
    client(hub.url, old, [("publish", [str(march), REPO], {}), load()])
    client(hub.url, both, [("publish", [str(april), REPO], {}), load(version="2025.03"), load()])
    told = client(
        hub.url,
        part,
        [
            load("Brazil", version="2025.03"),
            load(version="2025.05"),
            load(version="2025.3"),
            load(version="main"),
            ("load_tiebe", [], {"source": "lab/nothing"}),
        ],
    )
    assert told[0]["keys"] == keys(march, region="Brazil")
    assert told[1]["error"] == "VersionError"
    assert "there are v2025.03, v2025.04" in told[1]["told"]
    assert told[2]["error"] == "VersionError"
    assert told[3]["versions"] == ["2025.04"]
    assert told[4]["error"] == "SettingsError"
    hub.stop()

    def versions(home: Path, **env: str) -> list[Any]:
        calls = [
            load(version="2025.03"),
            load(version="2025.04"),
            load(),
            load("Brazil", version="2025.03"),
            load(version="2025.03", streaming=True),
            load(version="2025.03", text=True),
        ]
        answers = client(hub.url, home, calls, **env)
        for answer, folder in ((answers[0], march), (answers[1], april), (answers[4], march)):
            assert "error" in answer or answer["keys"] == keys(folder)
        return [answer.get("error") or answer["versions"] for answer in answers]

    error = "VersionError"
    for env in ({}, {"HF_HUB_OFFLINE": "1"}):
        assert versions(both, **env) == [
            ["2025.03"], ["2025.04"], ["2025.04"], ["2025.03"], ["2025.03"], error,
        ]  # fmt: skip
    assert versions(old) == [["2025.03"], error, ["2025.03"], ["2025.03"], ["2025.03"], error]
    assert versions(part) == [error, ["2025.04"], ["2025.04"], ["2025.03"], error, error]
    assert versions(tmp_path / "none") == [error] * 6


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_upstreams_layouts_under_their_tags(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    api = HfApi(endpoint=hub.url, token="hf_write")
    api.create_repo(REPO, repo_type="dataset")
    rows = [
        {
            "year": "2019",
            "month": "05",
            "event_desc": f"{day} May  Event {day}.",
            "question": f"What was event {day}?",
            "answer": "A fair",
            "text": "A text.",
            "region": "Brazil",
        }
        for day in (3, 4)
    ]
    content = json.dumps(rows).encode()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "split.parquet")
    jsons = ["data/english/Brazil.json", "data/translated/Brazil.json"]
    split = "data/Brazil-00000-of-00001.parquet"
    for tag, operations in {
        "json": [CommitOperationAdd(path, content) for path in jsons],
        "splits": [
            CommitOperationAdd(split, tmp_path / "split.parquet"),
            *(CommitOperationDelete(path) for path in jsons),
        ],
    }.items():
        commit = api.create_commit(REPO, operations, repo_type="dataset", commit_message=tag)
        api.create_tag(REPO, tag=tag, revision=commit.oid, repo_type="dataset")
    told = client(
        hub.url,
        tmp_path / "home",
        [
            load(version="json", language="both", text=True),
            load(version="json", streaming=True),
            load(version="2025.04"),
            ("publish", [str(releases["2025.04"]), REPO], {}),
            load(version="2025.04"),
            load(version="json"),
            load(version="splits"),
        ],
    )
    assert told[0]["texts"] == 4
    english = [key for key in told[0]["keys"] if key[1] == "en"]
    assert told[1]["keys"] == told[5]["keys"] == told[6]["keys"] == english
    assert told[2]["error"] == "VersionError"
    assert told[3]["lines"][-1] == "tag v2025.04"
    assert told[4]["versions"] == ["2025.04"]


def test_a_tag_on_another_release_is_an_error(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    client(hub.url, tmp_path / "home", [("publish", [str(releases["2025.03"]), REPO], {})])
    HfApi(endpoint=hub.url, token="hf_write").create_tag(REPO, tag="v2025.04", repo_type="dataset")
    told = client(
        hub.url,
        tmp_path / "home",
        [
            load(version="2025.04"),
            load(version="2025.04", streaming=True),
            load(version="v2025.03"),
        ],
    )
    assert [t.get("error") for t in told] == ["VersionError", "VersionError", None]
    assert "holds 2025.03, not 2025.04" in told[0]["told"]


def test_what_is_cached_is_not_asked_for_again(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    client(hub.url, home, [("publish", [str(releases["2025.04"]), REPO], {}), load()])
    before = len(hub.requests)
    client(hub.url, home, [load(version="2025.04"), load("Brazil", sample=5)])
    assert hub.requests[before:] == [
        *[("GET", f"/api/datasets/{REPO}/revision/v2025.04")] * 2,
        ("GET", f"/api/datasets/{REPO}"),
        ("GET", f"/api/datasets/{REPO}/revision/main"),
    ]


def test_a_release_to_build_on_is_downloaded_whole(
    hub: local_hub.Hub, releases: dict[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for version in ("2025.03", "2025.04"):
        client(hub.url, home, [("publish", [str(releases[version]), REPO], {})])
    part = load("Brazil", version="2025.03")
    calls: list[Call] = [("download_release", [REPO, name], {}) for name in ("v2025.03", "2025.06")]
    told, missing, unnamed = client(
        hub.url, home, [part, *calls, ("download_release", [REPO, "march"], {})]
    )[1:]
    march = releases["2025.03"]
    written = {p.relative_to(march).as_posix() for p in march.rglob("*.*")}
    assert written <= set(told["files"])
    folder = Path(told["folder"])
    assert list(read_questions(folder)) == list(read_questions(march))
    assert list(read_articles(folder)) == list(read_articles(march))
    assert (missing["error"], unnamed["error"]) == ("VersionError", "SettingsError")
    hub.stop()
    (again,) = client(hub.url, home, calls[:1])
    assert again == told
