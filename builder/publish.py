"""Publish: a release folder becomes one commit on the Hub, and a tag.

What is there is compared with what is to be, so that a publish which broke off, wherever it did,
is finished by running it again, and one that is finished does nothing. Only files that a release
or upstream's layout wrote are ever deleted, and of the card only what is ours is changed.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    DatasetCard,
    DatasetCardData,
    HfApi,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from tiebe.errors import PublishError, SettingsError
from tiebe.load import version_key

__all__ = ["Plan", "merge_cards", "publish", "release_version"]

BEGIN = "<!-- tiebe:begin -->"
END = "<!-- tiebe:end -->"

# The files that are ours to delete: those of an earlier release, and those of upstream's layouts.
_OURS = re.compile(
    r"data/[^/]+/(english|native)\.parquet|articles/[^/]+\.parquet"
    r"|data/(english|translated)/[^/]+\.jsonl?|data/\w+-\d+-of-\d+(-\w+)?\.parquet"
)
_FILES = ("eval.yaml", "about.json", "changelog.jsonl", "decisions.jsonl")


@dataclass(slots=True)
class Plan:
    """What a publish does, or would do."""

    repo: str
    version: str
    create: bool = False
    """The repo is not there yet."""
    pin: str = ""
    """The tag that the head gets first, so that today's users can go on using it."""
    add: list[str] = field(default_factory=list)
    change: list[str] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    tag: str = ""
    """The tag that the commit gets; empty when it is there, or when a pull request waits."""
    pull_request: str = ""
    """Its address."""

    @property
    def commits(self) -> bool:
        """Whether anything in the repo's files changes."""
        return bool(self.add or self.change or self.delete)

    def lines(self) -> Iterator[str]:
        """Yields the plan as a diff: `+` added, `~` changed, `-` deleted."""
        if self.create:
            yield f"create {self.repo}"
        if self.pin:
            yield f"tag the present head {self.pin}"
        for sign, paths in (("+", self.add), ("~", self.change), ("-", self.delete)):
            yield from (f"{sign} {path}" for path in paths)
        if self.pull_request:
            yield f"pull request {self.pull_request}"
        if self.tag:
            yield f"tag {self.tag}"
        if not (self.create or self.pin or self.commits or self.tag or self.pull_request):
            yield f"{self.repo} holds release {self.version} already: nothing to do"


def publish(
    folder: Path,
    repo: str,
    *,
    pull_request: bool = False,
    private: bool = False,
    dry_run: bool = False,
    api: HfApi | None = None,
) -> Plan:
    """Puts a release on the Hub: one commit, then a tag.

    Args:
        folder: The release.
        repo: `owner/name`; it is created when it is not there.
        pull_request: Opens (or updates) a pull request instead of committing to main. Once it is
            merged, a publish of the same release sets the tag.
        private: A repo that is created is private.
        dry_run: Asks the Hub, changes nothing.
        api: Client to use; None: one with the user's own token.

    Raises:
        PublishError: The Hub or the network refused; nothing is half done that a second run would
            not finish.
        SettingsError: The folder holds no whole release.
    """
    version = release_version(folder)
    api = api or HfApi()
    with _hub_errors(repo):
        return _publish(
            folder,
            Plan(repo, version),
            api,
            pull_request=pull_request,
            private=private,
            dry_run=dry_run,
        )


def release_version(folder: Path) -> str:
    """Returns the version that every row of a release bears.

    Raises:
        SettingsError: There is none, or more than one, or the card tells other numbers of rows than
            there are, so that nobody could load it.
    """
    if not (folder / "README.md").is_file() or not any(folder.glob("data/*/*.parquet")):
        raise SettingsError(f"{folder} is no release: it has no README.md or no data/*/*.parquet")
    data = _metadata(DatasetCard.load(folder / "README.md"))
    patterns = {
        (config["config_name"], entry["split"]): entry["path"]
        for config in data["configs"]
        for entry in config["data_files"]
    }
    for info in data["dataset_info"]:
        for split in info["splits"]:
            pattern = patterns[info["config_name"], split["name"]]
            rows = sum(pq.read_metadata(path).num_rows for path in folder.glob(pattern))
            if rows != split["num_examples"]:
                raise SettingsError(
                    f"{folder}: the card tells of {split['num_examples']} rows in {pattern}, where "
                    f"{rows} are: build it again"
                )
    versions = {
        version
        for path in folder.glob("data/*/*.parquet")
        for version in pq.read_table(path, columns=["version"])["version"].unique().to_pylist()
    }
    if len(versions) != 1:
        raise SettingsError(f"{folder} holds rows of {len(versions)} versions: build it again")
    (version,) = versions
    version_key(version)
    return str(version)


def merge_cards(ours: str, theirs: str) -> str:
    """Returns the card that is to be: ours, and of theirs what is not ours.

    Of the YAML our keys win, save that foreign configs (of other files than ours) and foreign tags
    stay. Of the text what stands between the marks is ours; without marks, all of theirs follows.
    """
    new = DatasetCard(ours)
    old = DatasetCard(theirs, ignore_metadata_errors=True)
    data, foreign = _metadata(new), _metadata(old)
    names = {config["config_name"] for config in data["configs"]}
    kept = [
        config
        for config in _entries(foreign.get("configs"))
        if config.get("config_name") not in names and not _is_ours(config)
    ]
    kept_names = {config.get("config_name") for config in kept}
    data["configs"] += kept
    data["dataset_info"] += [
        info
        for info in _entries(foreign.get("dataset_info"))
        if info.get("config_name") in kept_names
    ]
    tags = foreign.get("tags") or []
    data["tags"] += [tag for tag in tags if tag not in data["tags"]]
    data |= {key: value for key, value in foreign.items() if key not in data}
    before, after = _around(old.text)
    card_data = DatasetCardData(**data)
    return f"---\n{card_data.to_yaml()}\n---\n\n{before}{_block(new.text)}{after}"


def _metadata(card: DatasetCard) -> dict[str, Any]:
    data: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    return data


def _entries(value: Any) -> list[dict[str, Any]]:
    """Returns a list of mappings out of what a stranger's YAML may hold in its place."""
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict)]


def _is_ours(config: Mapping[str, Any]) -> bool:
    """Tells whether all data files of a config are such as a publish deletes or replaces."""
    files = config.get("data_files")
    paths: list[str] = []
    for entry in files if isinstance(files, list) else [files]:
        path = entry.get("path") if isinstance(entry, dict) else entry
        paths += path if isinstance(path, list) else [str(path)]
    return all(_OURS.fullmatch(path.replace("*", "x")) for path in paths)


def _block(text: str) -> str:
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def _around(text: str) -> tuple[str, str]:
    """Returns what stands before and after our part of a card's text."""
    if BEGIN in text and END in text:
        before, _, rest = text.partition(BEGIN)
        return before.lstrip("\n"), rest.partition(END)[2]
    return "", "\n\n" + text.strip() + "\n" if text.strip() else "\n"


# ---- what is to be done


def _publish(
    folder: Path, plan: Plan, api: HfApi, *, pull_request: bool, private: bool, dry_run: bool
) -> Plan:
    repo, tag = plan.repo, f"v{plan.version}"
    try:
        head = api.repo_info(repo, repo_type="dataset").sha or ""
    except RepositoryNotFoundError:
        plan.create = True
        if dry_run:
            plan.add = sorted(_local(folder))
            plan.tag = tag
            return plan
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        head = api.repo_info(repo, repo_type="dataset").sha or ""
    if not dry_run and not pull_request:
        api.auth_check(repo, repo_type="dataset", write=True)
    refs = api.list_repo_refs(repo, repo_type="dataset")
    tags = {ref.name: ref.target_commit for ref in refs.tags}
    if tag in tags:
        files = _wanted(folder, api, repo, tags[tag])
        if _differ(plan, files, _remote(api, repo, tags[tag])):
            raise PublishError(
                f"{repo} has a tag {tag} with another content; a release never changes: "
                f"name a repaired one {plan.version}.1 (or the next number)"
            )
        return Plan(repo, plan.version)
    newer = [name for name in tags if _is_version(name) and version_key(name) > version_key(tag)]
    if newer:
        raise PublishError(
            f"{repo} is at {max(newer, key=version_key)} already; {tag} would take main back"
        )
    files = _wanted(folder, api, repo, head)
    remote = _remote(api, repo, head)
    _differ(plan, files, remote)
    if plan.commits and head not in tags.values() and any(_OURS.fullmatch(p) for p in remote):
        plan.pin = _pin(api, repo, head, remote, tags)
    if not (pull_request and plan.commits):
        plan.tag = tag
    if dry_run:
        return plan
    if plan.pin:
        api.create_tag(repo, repo_type="dataset", tag=plan.pin, revision=head)
    if plan.commits and pull_request:
        plan.pull_request = _pull(api, plan, files, head)
        return plan
    if plan.commits:
        commit = api.create_commit(
            repo,
            _operations(plan, files),
            repo_type="dataset",
            commit_message=_title(plan),
            parent_commit=head,
        ).oid
        if _differ(Plan(repo, plan.version), files, _remote(api, repo, commit)):
            raise PublishError(f"{repo}: the Hub does not hold what was sent to it; run it again")
        head = commit
    api.create_tag(repo, repo_type="dataset", tag=tag, revision=head)
    return plan


def _is_version(name: str) -> bool:
    return re.fullmatch(r"v\d{4}\.\d{2}(\.\d+)?", name) is not None


def _title(plan: Plan) -> str:
    return f"Release {plan.version}"


def _pin(
    api: HfApi, repo: str, head: str, remote: Mapping[str, RepoFile], tags: Mapping[str, str]
) -> str:
    """Returns a name for the head that has none.

    It is the tag of its release when a publish broke off before setting it, else `legacy-` and the
    day of the commit.
    """
    data = [path for path in remote if re.fullmatch(r"data/[^/]+/english\.parquet", path)]
    if data:
        path = api.hf_hub_download(repo, min(data), repo_type="dataset", revision=head)
        versions = pq.read_table(path, columns=["version"])["version"].unique().to_pylist()
        if len(versions) == 1 and f"v{versions[0]}" not in tags:
            return f"v{versions[0]}"
    log = api.list_repo_commits(repo, repo_type="dataset", revision=head)
    day = f"legacy-{log[0].created_at:%Y-%m-%d}"
    names = (day, *(f"{day}.{number}" for number in range(2, len(tags) + 3)))
    return next(name for name in names if name not in tags)


def _local(folder: Path) -> dict[str, bytes | Path]:
    """Returns what a release puts into a repo: paths there, and files or contents."""
    paths = [*folder.glob("data/*/*.parquet"), *folder.glob("articles/*.parquet")]
    paths += [folder / name for name in _FILES if (folder / name).is_file()]
    paths += sorted(folder.glob("images/*"))
    files: dict[str, bytes | Path] = {p.relative_to(folder).as_posix(): p for p in paths}
    files["README.md"] = (folder / "README.md").read_bytes()
    return dict(sorted(files.items()))


def _wanted(folder: Path, api: HfApi, repo: str, revision: str | None) -> dict[str, bytes | Path]:
    """Returns the files of a release, the card merged with the one that stands in the repo."""
    files = _local(folder)
    try:
        path = api.hf_hub_download(repo, "README.md", repo_type="dataset", revision=revision)
    except EntryNotFoundError:
        return files
    theirs = Path(path).read_text("utf-8")
    ours = (folder / "README.md").read_text("utf-8")
    files["README.md"] = merge_cards(ours, theirs).encode()
    return files


def _remote(api: HfApi, repo: str, revision: str | None) -> dict[str, RepoFile]:
    tree = api.list_repo_tree(repo, repo_type="dataset", revision=revision, recursive=True)
    return {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}


def _differ(plan: Plan, files: Mapping[str, bytes | Path], remote: Mapping[str, RepoFile]) -> bool:
    """Writes into a plan what is to be added, changed and deleted; tells whether anything is."""
    plan.add = [path for path in files if path not in remote]
    plan.change = [p for p, c in files.items() if p in remote and not _same(c, remote[p])]
    plan.delete = [path for path in sorted(remote) if _OURS.fullmatch(path) and path not in files]
    return plan.commits


def _same(content: bytes | Path, remote: RepoFile) -> bool:
    data = content if isinstance(content, bytes) else content.read_bytes()
    if remote.lfs is not None:
        return hashlib.sha256(data).hexdigest() == remote.lfs.sha256
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == remote.blob_id


def _operations(
    plan: Plan, files: Mapping[str, bytes | Path]
) -> list[CommitOperationAdd | CommitOperationDelete]:
    return [
        *(CommitOperationAdd(path, files[path]) for path in (*plan.add, *plan.change)),
        *(CommitOperationDelete(path) for path in plan.delete),
    ]


def _pull(api: HfApi, plan: Plan, files: Mapping[str, bytes | Path], head: str | None) -> str:
    """Opens a pull request, or brings the open one of this release up to date."""
    opened = api.get_repo_discussions(
        plan.repo,
        repo_type="dataset",
        discussion_type="pull_request",
        discussion_status="open",
    )
    for pull in opened:
        if pull.title == _title(plan):
            revision = f"refs/pr/{pull.num}"
            update = Plan(plan.repo, plan.version)
            if _differ(update, files, _remote(api, plan.repo, revision)):
                api.create_commit(
                    plan.repo,
                    _operations(update, files),
                    repo_type="dataset",
                    commit_message=_title(plan),
                    revision=revision,
                )
            return pull.url
    commit = api.create_commit(
        plan.repo,
        _operations(plan, files),
        repo_type="dataset",
        commit_message=_title(plan),
        parent_commit=head,
        create_pr=True,
    )
    return str(commit.pr_url)


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    try:
        yield
    except HFValidationError as error:
        raise SettingsError(f"{repo!r} is no repo id, expected owner/name") from error
    except _HUB as error:
        # An upload that fails in one of the client's threads comes as a RuntimeError with a cause.
        cause = error.__cause__ if isinstance(error, RuntimeError) else error
        raise PublishError(_told(repo, cause)) from error


def _told(repo: str, error: BaseException | None) -> str:
    """Returns what went wrong on the Hub, and what to do."""
    token = f"the Hub wants a token to write to {repo}: set HF_TOKEN, or run `hf auth login`"
    if isinstance(error, LocalTokenNotFoundError):
        return token
    if not isinstance(error, HfHubHTTPError):
        return f"{repo}: the connection to the Hub failed ({error}); run it again"
    status = error.response.status_code
    return {
        401: token,
        403: f"the token may not write to {repo}: HF_TOKEN needs one with write access to it",
        404: f"{repo} is not there, or this token may not see it",
        409: f"{repo}: somebody set the same name at the same time; run it again",
        412: f"{repo}: somebody committed in between, and nothing was changed; run it again",
        429: f"{repo}: the Hub allows no more for now (128 commits an hour); run it again later",
    }.get(status, f"{repo}: the Hub answers {status}; run it again")


# The last but one are the errors of huggingface_hub's HTTP client, which it lets through.
_HUB: tuple[type[Exception], ...] = (
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    *HfHubHTTPError.__bases__[:1],
    RuntimeError,
)
