import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import local_hub
import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import CommitOperationAdd, DatasetCard, HfApi
from releases import digest, make

from builder.cli import main
from builder.publish import BEGIN, END, merge_cards, publish, release_version
from builder.release import Edition, write_release
from tiebe.errors import PublishError, SettingsError

# huggingface_hub's own upload uses a deprecated argument of its HTTP client.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/TiEBe"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[local_hub.Hub]:
    with local_hub.running(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def api(hub: local_hub.Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HfApi:
    # The client waits between its own tries; a test need not.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    return HfApi(endpoint=hub.url, token="hf_write")


def reader(hub: local_hub.Hub, token: str) -> HfApi:
    return HfApi(endpoint=hub.url, token=token)


@pytest.fixture(scope="module")
def march(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("march") / "release"
    write_release(folder, *make(6), Edition("2025.03"))
    return folder


@pytest.fixture(scope="module")
def april(tmp_path_factory: pytest.TempPathFactory, march: Path) -> Path:
    """The month after: World is gone, Nigeria is new, Brazil has more."""
    folder = tmp_path_factory.mktemp("april") / "release"
    questions, articles = make(9, ("Brazil", "Nigeria", "the_United_Kingdom"))
    write_release(folder, questions, articles, Edition("2025.04", base=march))
    return folder


def same(hub: local_hub.Hub, folder: Path, revision: str) -> bool:
    """Tells whether a repo holds a release and nothing else of ours, the card merged or not."""
    there = hub.files(REPO, revision)
    here = {name: (folder / name).read_bytes() for name in digest(folder)}
    assert there.pop("README.md").decode().count(BEGIN) == 1
    here.pop("README.md")
    there.pop(".gitattributes")
    return there == here


def test_one_commit_and_a_tag(hub: local_hub.Hub, api: HfApi, march: Path, april: Path) -> None:
    plan = publish(march, REPO, api=api)
    assert list(plan.lines())[0] == f"create {REPO}"
    assert plan.tag == "v2025.03"
    assert same(hub, march, "main") and same(hub, march, "v2025.03")
    first = hub.tags(REPO)
    plan = publish(april, REPO, api=api)
    assert plan.delete == ["articles/World.parquet", "data/World/english.parquet"]
    assert "data/Nigeria/english.parquet" in plan.add
    assert "data/Brazil/english.parquet" in plan.change
    assert same(hub, april, "v2025.04") and same(hub, march, "v2025.03")
    tags = hub.tags(REPO)
    assert tags.keys() == {"v2025.03", "v2025.04"}
    assert tags["v2025.03"] == first["v2025.03"]
    titles = [c.title for c in api.list_repo_commits(REPO, repo_type="dataset")]
    assert titles == ["Release 2025.04", "Release 2025.03", "initial commit"]


def test_again_is_nothing(hub: local_hub.Hub, api: HfApi, march: Path, april: Path) -> None:
    for folder in (march, april, april, march):
        publish(folder, REPO, api=api)
    tags = hub.tags(REPO)
    count = len(hub.requests)
    plan = publish(april, REPO, api=api)
    assert list(plan.lines()) == [f"{REPO} holds release 2025.04 already: nothing to do"]
    assert not [m for m, path in hub.requests[count:] if m != "GET" and "HEAD" not in m]
    assert hub.tags(REPO) == tags
    assert len(list(api.list_repo_commits(REPO, repo_type="dataset"))) == 3


def test_dry_run_changes_nothing(hub: local_hub.Hub, api: HfApi, march: Path, april: Path) -> None:
    plan = publish(march, REPO, dry_run=True, api=reader(hub, "hf_read"))
    assert plan.create and "data/World/english.parquet" in plan.add and plan.tag == "v2025.03"
    with pytest.raises(local_hub.HubError):
        hub.tags(REPO)
    publish(march, REPO, api=api)
    plan = publish(april, REPO, dry_run=True, api=reader(hub, "hf_read"))
    assert "- data/World/english.parquet" in list(plan.lines())
    assert hub.tags(REPO).keys() == {"v2025.03"}
    assert same(hub, march, "main")


def upstream(api: HfApi) -> None:
    """Puts upstream's layout of 2025 on the Hub, with a card and a file of its own."""
    api.create_repo(REPO, repo_type="dataset")
    rows = [{"year": "2019", "month": "05", "event_desc": "e", "question": "q", "answer": "a"}]
    card = (
        "---\nlicense: mit\narxiv: 2501.07482\ntags: [events, ours-too]\nconfigs:\n"
        "- config_name: old\n  data_files: data/english/*.json\n"
        "- config_name: leaderboard\n  data_files: results/*.csv\n"
        "dataset_info:\n- config_name: leaderboard\n  dataset_size: 3\n- config_name: old\n"
        "---\n\n# TiEBe\n\nWritten by hand.\n"
    )
    files = {
        "README.md": card,
        "data/english/Brazil.json": json.dumps(rows),
        "data/translated/Brazil.json": json.dumps(rows),
        "data/notes.txt": "kept",
        "results/2025.csv": "model,accuracy\n",
    }
    operations = [CommitOperationAdd(path, text.encode()) for path, text in files.items()]
    api.create_commit(REPO, operations, repo_type="dataset", commit_message="Upload")


def test_upstreams_head_is_tagged_first(hub: local_hub.Hub, api: HfApi, march: Path) -> None:
    upstream(api)
    before = api.repo_info(REPO, repo_type="dataset")
    plan = publish(march, REPO, api=api)
    assert plan.pin == f"legacy-{before.last_modified:%Y-%m-%d}"
    assert hub.tags(REPO)[plan.pin] == before.sha
    assert plan.delete == ["data/english/Brazil.json", "data/translated/Brazil.json"]
    files = hub.files(REPO)
    assert files["data/notes.txt"] == b"kept"
    assert "results/2025.csv" in files
    card = DatasetCard(files["README.md"].decode())
    data = card.data.to_dict()
    assert data["license"] == "cc-by-sa-4.0"
    assert data["arxiv"] == "2501.07482" or data["arxiv"] == 2501.07482
    assert "ours-too" in data["tags"] and data["tags"].count("events") == 1
    names = [config["config_name"] for config in data["configs"]]
    assert "leaderboard" in names and "old" not in names
    assert [i["config_name"] for i in data["dataset_info"]] == names
    assert card.text.index(BEGIN) < card.text.index(END) < card.text.index("Written by hand.")
    assert publish(march, REPO, api=api).commits is False


def test_what_others_write_into_the_card_stays(
    hub: local_hub.Hub, api: HfApi, march: Path, april: Path
) -> None:
    publish(march, REPO, api=api)
    card = hub.files(REPO)["README.md"].decode()
    card = card.replace("pretty_name:", "paperswithcode_id: tiebe\npretty_name:")
    card = card.replace(BEGIN, f"Above.\n\n{BEGIN}") + "\nBelow.\n"
    api.upload_file(
        path_or_fileobj=card.encode(),
        path_in_repo="README.md",
        repo_id=REPO,
        repo_type="dataset",
    )
    plan = publish(april, REPO, api=api)
    assert plan.pin.startswith("legacy-")  # the head was not that of v2025.03 any more
    new = hub.files(REPO)["README.md"].decode()
    text = DatasetCard(new).text
    assert text.index("Above.") < text.index("release 2025.04") < text.index("Below.")
    assert "release 2025.03" not in text.partition("## Changelog")[0]
    assert yaml.safe_load(new.split("---\n")[1])["paperswithcode_id"] == "tiebe"


def test_cards_merge_to_the_same_twice(march: Path, april: Path) -> None:
    old, new = ((f / "README.md").read_text("utf-8") for f in (march, april))
    assert merge_cards(old, old) == old
    assert merge_cards(new, old) == new
    strange = "---\nconfigs: all\ndataset_info: 3\ntags: \n---\nHello"
    once = merge_cards(new, strange)
    assert once.rstrip().endswith("Hello")
    assert merge_cards(new, once) == once
    assert merge_cards(new, "No YAML at all").rstrip().endswith("No YAML at all")


def test_a_release_never_changes(
    hub: local_hub.Hub, api: HfApi, march: Path, tmp_path: Path
) -> None:
    publish(march, REPO, api=api)
    other = tmp_path / "other"
    write_release(other, *make(7), Edition("2025.03"))
    with pytest.raises(PublishError, match=r"never changes: name a repaired one 2025\.03\.1"):
        publish(other, REPO, api=api)
    write_release(other, *make(7), Edition("2025.03.1", base=march))
    publish(other, REPO, api=api)
    assert hub.tags(REPO).keys() == {"v2025.03", "v2025.03.1"}
    older = tmp_path / "older"
    write_release(older, *make(5), Edition("2025.02"))
    with pytest.raises(PublishError, match=r"is at v2025\.03\.1 already"):
        publish(older, REPO, api=api)


def test_tokens(hub: local_hub.Hub, api: HfApi, march: Path, april: Path) -> None:
    for token, told in ((False, "wants a token"), ("hf_read", "may not write"), ("hf_no", "token")):
        with pytest.raises(PublishError, match=told):
            publish(march, REPO, api=HfApi(endpoint=hub.url, token=token))
    publish(march, REPO, api=api)
    for token, told in ((False, "wants a token"), ("hf_read", "may not write"), ("hf_no", "token")):
        with pytest.raises(PublishError, match=told):
            publish(april, REPO, api=HfApi(endpoint=hub.url, token=token))
    assert same(hub, march, "main")


def test_private(hub: local_hub.Hub, api: HfApi, march: Path) -> None:
    publish(march, REPO, private=True, api=api)
    assert api.repo_info(REPO, repo_type="dataset").private
    with pytest.raises(PublishError, match="wants a token"):
        publish(march, REPO, api=HfApi(endpoint=hub.url, token=False))


def test_a_head_that_moves_is_not_overwritten(
    hub: local_hub.Hub, api: HfApi, march: Path, april: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(march, REPO, api=api)
    commit = api.create_commit

    def race(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(api, "create_commit", commit)
        addition = CommitOperationAdd("notes.txt", b"in between")
        commit(REPO, [addition], repo_type="dataset", commit_message="In between")
        return commit(*arguments, **options)

    monkeypatch.setattr(api, "create_commit", race)
    with pytest.raises(PublishError, match="somebody committed in between"):
        publish(april, REPO, api=api)
    assert hub.tags(REPO).keys() == {"v2025.03"}
    publish(april, REPO, api=api)
    assert hub.files(REPO)["notes.txt"] == b"in between"
    assert "v2025.04" in hub.tags(REPO)


def test_a_broken_off_publish_gets_its_own_tag_later(
    hub: local_hub.Hub, api: HfApi, march: Path, april: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = api.create_tag
    monkeypatch.setattr(api, "create_tag", lambda *a, **k: tag("lab/nothing", **k))
    with pytest.raises(PublishError):
        publish(march, REPO, api=api)
    monkeypatch.undo()
    assert publish(april, REPO, api=reader(hub, "hf_write")).pin == "v2025.03"
    assert same(hub, march, "v2025.03") and same(hub, april, "v2025.04")


def test_pull_requests(hub: local_hub.Hub, api: HfApi, march: Path, april: Path) -> None:
    publish(march, REPO, api=api)
    plan = publish(april, REPO, pull_request=True, api=reader(hub, "hf_pr"))
    assert plan.pull_request.endswith(f"{REPO}/discussions/1") and not plan.tag
    assert same(hub, march, "main") and same(hub, april, "refs/pr/1")
    again = publish(april, REPO, pull_request=True, api=reader(hub, "hf_pr"))
    assert again.pull_request == plan.pull_request
    api.merge_pull_request(REPO, 1, repo_type="dataset")
    assert hub.tags(REPO).keys() == {"v2025.03"}
    plan = publish(april, REPO, api=api)
    assert list(plan.lines()) == ["tag v2025.04"]
    assert same(hub, april, "v2025.04")


def test_an_open_pull_request_is_brought_up_to_date(
    hub: local_hub.Hub, api: HfApi, march: Path, april: Path, tmp_path: Path
) -> None:
    publish(march, REPO, api=api)
    publish(april, REPO, pull_request=True, api=api)
    better = tmp_path / "better"
    write_release(better, *make(11), Edition("2025.04", base=march))
    publish(better, REPO, pull_request=True, api=api)
    assert same(hub, better, "refs/pr/1")
    assert len(list(api.get_repo_discussions(REPO, repo_type="dataset"))) == 1


@pytest.mark.parametrize("fault", ["cut", "lost", 500, 412, 429])
def test_faults_at_each_request_in_turn(fault: str | int, api: HfApi, tmp_path: Path) -> None:
    """After a rerun the repo holds exactly the release, tagged once, and nothing half done."""
    releases = {"v2025.03": tmp_path / "march", "v2025.04": tmp_path / "april"}
    write_release(releases["v2025.03"], *make(2, ("World",)), Edition("2025.03"))
    write_release(releases["v2025.04"], *make(3, ("Nigeria",)), Edition("2025.04"))
    failed = 0
    for at in itertools.count():
        with local_hub.running(tmp_path / f"hub{at}") as hub:
            client = HfApi(endpoint=hub.url, token="hf_write")
            hub.faults[at] = fault
            for folder in releases.values():
                for _ in range(3):
                    try:
                        publish(folder, REPO, api=client)
                        break
                    except PublishError as error:
                        failed += 1
                        assert REPO in str(error)
                        for tag in tags_of(hub):
                            assert same(hub, releases[tag], tag), (at, tag)
                else:
                    raise AssertionError(f"three times in vain after a fault at request {at}")
            assert hub.tags(REPO).keys() == releases.keys(), at
            for tag, folder in releases.items():
                assert same(hub, folder, tag)
            assert same(hub, folder, "main")
            if hub.faults:  # there were not as many requests
                break
    assert at > 20 and failed > 5


def tags_of(hub: local_hub.Hub) -> dict[str, str]:
    try:
        return hub.tags(REPO)
    except local_hub.HubError:
        return {}


def test_what_is_no_release(tmp_path: Path, march: Path) -> None:
    with pytest.raises(SettingsError, match="is no release"):
        release_version(tmp_path)
    mixed = tmp_path / "mixed"
    shutil.copytree(march, mixed)
    write_release(tmp_path / "x", *make(2, ("Nigeria",)), Edition("2025.05"))
    write_release(tmp_path / "y", *make(6), Edition("2025.05"))
    shutil.copytree(tmp_path / "x/data/Nigeria", mixed / "data/Nigeria")
    with pytest.raises(SettingsError, match=r"the card tells of 18 rows in .*where 20 are"):
        release_version(mixed)
    shutil.rmtree(mixed / "data/World")
    shutil.copytree(tmp_path / "y/data/World", mixed / "data/World")
    with pytest.raises(SettingsError, match="rows of 2 versions"):
        shutil.rmtree(mixed / "data/Nigeria")
        release_version(mixed)
    with pytest.raises(SettingsError, match="no repo id"):
        publish(march, "a/b/c")


def test_the_hub_out_of_reach(march: Path) -> None:
    with pytest.raises(PublishError, match="the connection to the Hub failed"):
        publish(march, REPO, api=HfApi(endpoint="http://127.0.0.1:9", token="hf_write"))


# ---- with the real clients, in a process of their own


def run(hub: str, code: str, cache: Path, **env: str) -> str:
    environment = os.environ | {
        "HF_ENDPOINT": hub,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(cache),
        "HF_TOKEN": "hf_write",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_verb(hub: local_hub.Hub, march: Path, tmp_path: Path) -> None:
    code = f"from builder.cli import main; main(['publish', {str(march)!r}, {REPO!r}])"
    output = run(hub.url, code, tmp_path / "cache")
    assert output.splitlines()[0] == f"create {REPO}"
    assert output.splitlines()[-1] == "tag v2025.03"
    assert "nothing to do" in run(hub.url, code, tmp_path / "cache")
    result = CliRunner().invoke(main, ["publish", str(march), "a/b/c"])
    assert result.exit_code == 1 and "no repo id" in result.output
