"""A local Hugging Face Hub: standard library only, commits as snapshots on disk.

    python tests/local_hub.py ROOT [PORT]          # prints its URL and serves until it is stopped

or inside a test: `with running(tmp_path) as hub: hub.url, hub.requests, hub.faults[3] = "cut"`.
Clients: `HF_ENDPOINT=<url> HF_HUB_DISABLE_XET=1 HF_TOKEN=hf_write`, set before huggingface_hub is
imported, or `HfApi(endpoint=url, token="hf_write")`.

What it knows: repos, commits with `parent_commit`, branches, tags, pull requests, LFS, ranges,
tokens that may write (`hf_write`), only read (`hf_read`) or only open pull requests (`hf_pr`), and
faults by the number of the request. Not known: xet, multipart uploads, gating, buckets.
"""

import base64
import contextlib
import dataclasses
import fnmatch
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LFS_SUFFIXES = (".parquet", ".arrow", ".bin", ".gz", ".zip", ".zst", ".png", ".jpg", ".safetensors")
LFS_SIZE = 10 * 1024 * 1024
TOKENS = {"hf_write": "write", "hf_read": "read", "hf_pr": "pr"}

Json = dict[str, Any]


class HubError(Exception):
    """An answer that is an error, with the header by which clients tell which."""

    def __init__(self, status: int, code: str = "", message: str = "error", **extra: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.extra = status, code, message, extra


class Store:
    """Repos as JSON files, blobs by their sha256."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        for name in ("blobs", "repos"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def _path(self, kind: str, name: str) -> Path:
        return self.root / "repos" / f"{kind}--{name.replace('/', '--')}.json"

    def load(self, kind: str, name: str) -> Json:
        path = self._path(kind, name)
        if not path.exists():
            raise HubError(404, "RepoNotFound", "Repository not found")
        loaded: Json = json.loads(path.read_text("utf-8"))
        return loaded

    def save(self, repo: Json) -> None:
        path = self._path(repo["type"], repo["id"])
        part = path.with_suffix(".part")
        part.write_text(json.dumps(repo), "utf-8")
        part.replace(path)

    def create(self, kind: str, name: str, *, private: bool) -> None:
        if self._path(kind, name).exists():
            raise HubError(409, message="You already created this repo")
        repo = {
            "type": kind, "id": name, "private": private,
            "branches": {}, "tags": {}, "pulls": {}, "commits": {},
        }  # fmt: skip
        attributes = self.put(b"*.parquet filter=lfs diff=lfs merge=lfs -text\n", lfs=False)
        files = {".gitattributes": attributes}
        repo["branches"]["main"] = self.commit(repo, None, files, "initial commit", "")
        self.save(repo)

    def delete(self, kind: str, name: str) -> None:
        self.load(kind, name)
        self._path(kind, name).unlink()

    def commit(self, repo: Json, parent: str | None, files: Json, title: str, message: str) -> str:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        commit = {
            "parent": parent, "title": title, "message": message, "files": files, "date": now,
        }  # fmt: skip
        key = json.dumps([commit, len(repo["commits"])], sort_keys=True)
        sha = hashlib.sha1(key.encode()).hexdigest()
        repo["commits"][sha] = commit
        return sha

    def resolve(self, repo: Json, revision: str) -> str:
        refs = repo["branches"] | repo["tags"]
        refs |= {f"refs/pr/{number}": pull["head"] for number, pull in repo["pulls"].items()}
        for name in (revision, re.sub(r"^refs/(heads|tags)/", "", revision)):
            if name in refs:
                return str(refs[name])
        hits = [sha for sha in repo["commits"] if len(revision) >= 7 and sha.startswith(revision)]
        if len(hits) != 1:
            raise HubError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return str(hits[0])

    def move(self, repo: Json, ref: str, sha: str) -> None:
        if match := re.fullmatch(r"refs/pr/(\d+)", ref):
            repo["pulls"][match[1]]["head"] = sha
        else:
            repo["branches"][re.sub(r"^refs/heads/", "", ref)] = sha

    def put(self, data: bytes, *, lfs: bool) -> Json:
        sha = hashlib.sha256(data).hexdigest()
        self.blob(sha).write_bytes(data)
        return self.entry(sha, len(data), lfs=lfs, data=data)

    def entry(self, sha256: str, size: int, *, lfs: bool, data: bytes = b"") -> Json:
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        content = pointer.encode() if lfs else data
        oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return {"sha256": sha256, "size": size, "lfs": lfs, "oid": oid, "pointer": len(pointer)}

    def blob(self, sha256: str) -> Path:
        return self.root / "blobs" / sha256


@dataclasses.dataclass
class Hub:
    """A running Hub: where it is, what it was asked, and where it is to fail."""

    url: str
    store: Store
    requests: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """Method and path of every request, in order."""
    faults: dict[int, str | int] = dataclasses.field(default_factory=dict)
    """By the index in `requests`: "cut" (the connection, before anything was done), "lost" (the
    answer, after it was done), or the status of an error."""
    server: ThreadingHTTPServer | None = None

    def stop(self) -> None:
        """Stops it: whoever asks from now on is refused a connection."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        """Returns the content of a dataset at a revision."""
        repo = self.store.load("dataset", name)
        files = repo["commits"][self.store.resolve(repo, revision)]["files"]
        return {path: self.store.blob(f["sha256"]).read_bytes() for path, f in files.items()}

    def tags(self, name: str) -> dict[str, str]:
        """Returns the commits of a dataset's tags."""
        tags: dict[str, str] = self.store.load("dataset", name)["tags"]
        return tags


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every keep-alive reply costs 40 ms
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    # ---- plumbing

    @property
    def store(self) -> Store:
        return self.hub.store

    def reply(
        self,
        status: int = 200,
        body: bytes | object = b"",
        headers: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self.lost:
            self.cut()
            return
        self.send_response(status)
        standard = {"Content-Type": kind, "Content-Length": str(len(data)), "X-Request-Id": "local"}
        for name, value in (standard | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)

    def body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        self.query, self.data = parse_qs(url.query), self.body()
        with self.store.lock:
            number = len(self.hub.requests)
            self.hub.requests.append((self.command, self.path))
        fault = self.hub.faults.pop(number, None)
        self.lost = fault == "lost"
        if fault == "cut":
            self.cut()
            return
        try:
            if isinstance(fault, int):
                raise HubError(fault, message=f"injected {fault}")
            for method, pattern, function, role in ROUTES:
                if self.command in method and (match := pattern.fullmatch(url.path)):
                    self.authorize(role)
                    values = {k: unquote(v) if v else v for k, v in match.groupdict().items()}
                    with self.store.lock:
                        function(self, **values)
                    return
            raise HubError(404, message=f"no route {self.command} {url.path}")
        except HubError as error:
            headers = {"X-Error-Message": error.message}
            if error.code:
                headers["X-Error-Code"] = error.code
            headers |= error.extra.pop("headers", {})
            self.reply(error.status, {"error": error.message, **error.extra}, headers)
        except BrokenPipeError:
            pass

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def role(self) -> str:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in TOKENS:
            raise HubError(401, message="Invalid credentials in Authorization header")
        return TOKENS.get(token, "")

    def authorize(self, wanted: str) -> None:
        role = self.role()
        if wanted == "read" or role == "write":
            return
        if not role:
            raise HubError(401, message="Invalid username or password.")
        pull = "create_pr" in self.query or "/commit/refs%2Fpr%2F" in self.path
        if role != "pr" or not (wanted == "pr" or pull):
            raise HubError(403, message="Forbidden: this token may not write to this repo")

    @property
    def base(self) -> str:
        return f"http://{self.headers['Host']}"

    def json(self) -> Json:
        parsed: Json = json.loads(self.data or b"{}")
        return parsed

    def at(self, kind: str, name: str, revision: str | None) -> tuple[Json, str, Json]:
        repo = self.store.load(kind, name)
        if repo["private"] and not self.role():
            raise HubError(401, "RepoNotFound", "Repository not found")
        sha = self.store.resolve(repo, revision or "main")
        return repo, sha, repo["commits"][sha]["files"]

    # ---- account and repos

    def whoami(self) -> None:
        if not self.role():
            raise HubError(401, message="Invalid credentials in Authorization header")
        token = {"displayName": "t", "role": self.role()}
        auth = {"type": "access_token", "accessToken": token}
        self.reply(200, {"type": "user", "id": "1", "name": "local", "orgs": [], "auth": auth})

    def auth_check(self, kind: str, name: str) -> None:
        self.at(kind, name, None)
        self.reply(200, {})

    def create(self) -> None:
        body = self.json()
        kind = body.get("type") or "model"
        name = f"{body.get('organization') or 'local'}/{body['name']}"
        prefix = "" if kind == "model" else f"{kind}s/"
        created = {"url": f"{self.base}/{prefix}{name}", "name": name, "id": "1"}
        try:
            private = body.get("visibility") == "private" or bool(body.get("private"))
            self.store.create(kind, name, private=private)
        except HubError as error:
            error.extra = created
            raise
        self.reply(200, created)

    def delete(self) -> None:
        body = self.json()
        name = f"{body.get('organization') or 'local'}/{body['name']}"
        self.store.delete(body.get("type") or "model", name)
        self.reply(200, {})

    def validate_yaml(self) -> None:
        match = re.match(r"\s*---\n(.*?)\n---", self.json().get("content", ""), re.DOTALL)
        errors = []
        if match:
            try:
                if not isinstance(yaml.safe_load(match[1]) or {}, dict):
                    errors.append({"message": "YAML metadata is not a mapping"})
            except yaml.YAMLError as error:
                errors.append({"message": str(error)})
        warnings = [] if match else [{"message": "empty or missing yaml metadata in repo card"}]
        self.reply(400 if errors else 200, {"errors": errors, "warnings": warnings})

    def info(self, kind: str, name: str, rev: str | None = None) -> None:
        repo, sha, files = self.at(kind, name, rev)
        siblings: list[Json] = [{"rfilename": path} for path in sorted(files)]
        if "blobs" in self.query:
            for sibling in siblings:
                file = files[sibling["rfilename"]]
                sibling |= {"size": file["size"], "blobId": file["oid"]}
                if file["lfs"]:
                    sibling["lfs"] = {
                        "size": file["size"],
                        "sha256": file["sha256"],
                        "pointerSize": file["pointer"],
                    }
        date = repo["commits"][sha]["date"]
        told = {
            "_id": "1", "id": name, "author": name.split("/")[0], "sha": sha,
            "private": repo["private"], "gated": False, "disabled": False, "downloads": 0,
            "likes": 0, "tags": [], "siblings": siblings, "lastModified": date, "createdAt": date,
        }  # fmt: skip
        self.reply(200, told)

    # ---- commits

    def preupload(self, kind: str, name: str, rev: str) -> None:
        _, _, files = self.at(kind, name, rev)
        body = self.json()
        ignored = [
            line.strip()
            for line in body.get("gitIgnore", "").splitlines()
            if line.strip() and not line.startswith("#")
        ]
        modes = []
        for file in body["files"]:
            path = file["path"]
            old = files.get(path)
            lfs = path.lower().endswith(LFS_SUFFIXES) or file["size"] > LFS_SIZE
            modes.append(
                {
                    "path": path,
                    "uploadMode": "lfs" if lfs else "regular",
                    "shouldIgnore": any(fnmatch.fnmatch(path, glob) for glob in ignored),
                    "oid": (old["sha256"] if old["lfs"] else old["oid"]) if old else None,
                }
            )
        self.reply(200, {"files": modes, "commitOid": None})

    def lfs_batch(self, kind: str, name: str) -> None:
        self.at(kind, name, None)
        objects = []
        for wanted in self.json()["objects"]:
            blob = self.store.blob(wanted["oid"])
            item = {"oid": wanted["oid"], "size": wanted["size"]}
            if not (blob.exists() and blob.stat().st_size == wanted["size"]):
                item["actions"] = {"upload": {"href": f"{self.base}/_lfs/{wanted['oid']}"}}
            objects.append(item)
        kind = "application/vnd.git-lfs+json"
        self.reply(200, {"transfer": "basic", "objects": objects}, kind=kind)

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.data).hexdigest() != oid:
            raise HubError(400, message="sha256 mismatch")
        self.store.blob(oid).write_bytes(self.data)
        self.reply(200)

    def commit(self, kind: str, name: str, rev: str) -> None:
        repo = self.store.load(kind, name)
        lines = [json.loads(line) for line in self.data.splitlines()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        pull = "create_pr" in self.query
        parent = header.get("parentCommit")
        head = self.store.resolve(repo, (pull and parent) or rev)
        if parent and not pull and not head.startswith(parent):
            message = "A commit has happened since. Please refresh and try again."
            raise HubError(412, message=message)
        files = dict(repo["commits"][head]["files"])
        for line in lines:
            self.apply(files, line["key"], line["value"])
        sha = self.store.commit(repo, head, files, header["summary"], header.get("description", ""))
        prefix = f"{self.base}/{'' if kind == 'model' else kind + 's/'}{name}"
        reply = {"success": True, "commitOid": sha, "commitUrl": f"{prefix}/commit/{sha}"}
        if pull:
            number = str(len(repo["pulls"]) + 1)
            repo["pulls"][number] = {
                "head": sha, "title": header["summary"], "status": "open",
                "createdAt": repo["commits"][sha]["date"],
            }  # fmt: skip
            reply["pullRequestUrl"] = f"{prefix}/discussions/{number}"
        else:
            self.store.move(repo, rev, sha)
        self.store.save(repo)
        self.reply(200, reply)

    def apply(self, files: Json, key: str, value: Json) -> None:
        path = value.get("path", "")
        if key == "file":
            files[path] = self.store.put(base64.b64decode(value["content"]), lfs=False)
        elif key == "lfsFile":
            blob = self.store.blob(value["oid"])
            if not blob.exists():
                raise HubError(400, message=f"LFS object {value['oid']} was not uploaded")
            files[path] = self.store.entry(value["oid"], blob.stat().st_size, lfs=True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise HubError(404, "EntryNotFound", "A file with this name doesn't exist")
        elif key == "deletedFolder":
            for old in [old for old in files if old.startswith(path.rstrip("/") + "/")]:
                del files[old]

    def commits(self, kind: str, name: str, rev: str) -> None:
        repo, sha, _ = self.at(kind, name, rev)
        log = []
        at: str | None = sha
        while at:
            commit = repo["commits"][at]
            told = {key: commit[key] for key in ("title", "message", "date")}
            log.append({"id": at, "authors": [{"user": "local"}], **told})
            at = commit["parent"]
        self.reply(200, log)

    # ---- refs and pull requests

    def refs(self, kind: str, name: str) -> None:
        repo = self.store.load(kind, name)

        def told(prefix: str, refs: dict[str, str]) -> list[Json]:
            return [
                {"name": n, "ref": f"refs/{prefix}/{n}", "targetCommit": sha}
                for n, sha in refs.items()
            ]

        pulls = {number: pull["head"] for number, pull in repo["pulls"].items()}
        self.reply(
            200,
            {
                "branches": told("heads", repo["branches"]),
                "tags": told("tags", repo["tags"]),
                "converts": [],
                "pullRequests": told("pr", pulls),
            },
        )

    def ref_edit(self, kind: str, name: str, ref: str, rev: str) -> None:
        repo, body = self.store.load(kind, name), self.json()
        refs = repo["branches" if ref == "branch" else "tags"]
        if self.command == "DELETE":
            if refs.pop(rev, None) is None:
                raise HubError(404, "RevisionNotFound", f"{ref} {rev} not found")
        else:  # tag/{revision} {"tag": …}, but branch/{branch} {"startingPoint": …}
            start = rev if ref == "tag" else body.get("startingPoint") or "main"
            new = body["tag"] if ref == "tag" else rev
            if new in refs:
                raise HubError(409, message=f"Reference already exists: {new}")
            refs[new] = self.store.resolve(repo, start)
        self.store.save(repo)
        self.reply(200, {})

    def discussions(self, kind: str, name: str) -> None:
        repo = self.store.load(kind, name)
        status = self.query.get("status", ["all"])[0]
        told = [
            {
                "num": int(number), "title": pull["title"], "status": pull["status"],
                "author": {"name": "local"}, "createdAt": pull["createdAt"], "isPullRequest": True,
                "repo": {"name": name, "type": kind},
            }
            for number, pull in repo["pulls"].items()
            if status in ("all", pull["status"])
        ]  # fmt: skip
        self.reply(200, {"discussions": told, "count": len(told), "start": 0})

    def merge(self, kind: str, name: str, number: str) -> None:
        repo = self.store.load(kind, name)
        pull = repo["pulls"][number]
        head, main = repo["commits"][pull["head"]], repo["branches"]["main"]
        if head["parent"] != main:
            raise HubError(409, message="The pull request conflicts with main")
        title = f"{pull['title']} (#{number})"
        repo["branches"]["main"] = self.store.commit(repo, main, head["files"], title, "")
        pull["status"] = "merged"
        self.store.save(repo)
        self.reply(200, {})

    # ---- files

    def node(self, repo: Json, sha: str, path: str, files: Json) -> Json | None:
        commit = repo["commits"][sha]
        last = {"id": sha, "title": commit["title"], "date": commit["date"]}
        if file := files.get(path):
            told = {"type": "file", "oid": file["oid"], "size": file["size"], "path": path}
            if file["lfs"]:
                told["lfs"] = {
                    "oid": file["sha256"],
                    "size": file["size"],
                    "pointerSize": file["pointer"],
                }
            return told | {"lastCommit": last}
        if any(other.startswith(path + "/") for other in files):
            oid = hashlib.sha1(path.encode()).hexdigest()
            return {"type": "directory", "oid": oid, "size": 0, "path": path, "lastCommit": last}
        return None

    def tree(self, kind: str, name: str, rev: str, path: str | None = None) -> None:
        repo, sha, files = self.at(kind, name, rev)
        prefix = path.strip("/") + "/" if path else ""
        deep = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        names = set()
        for file in files:
            if file.startswith(prefix):
                parts = file[len(prefix) :].split("/")
                for i in range(1, len(parts) + 1 if deep else 2):
                    names.add(prefix + "/".join(parts[:i]))
        if path and not names:
            raise HubError(404, "EntryNotFound", f"{path} does not exist on {rev}")
        self.reply(200, [self.node(repo, sha, name, files) for name in sorted(names)])

    def paths_info(self, kind: str, name: str, rev: str) -> None:
        repo, sha, files = self.at(kind, name, rev)
        if "json" in self.headers.get("Content-Type", ""):
            paths = self.json()["paths"]
        else:
            paths = parse_qs(self.data.decode()).get("paths", [])
        nodes = (self.node(repo, sha, path.strip("/"), files) for path in paths)
        self.reply(200, [node for node in nodes if node])

    def file(self, name: str, rev: str, path: str, kind: str | None = None) -> None:
        _, sha, files = self.at(kind or "model", name, rev)
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if path not in files:
            raise HubError(404, "EntryNotFound", "Entry not found", headers={"X-Repo-Commit": sha})
        file = files[path]
        size = file["size"]
        etag = file["sha256"] if file["lfs"] else file["oid"]
        headers["ETag"] = f'"{etag}"'
        if file["lfs"]:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(size)}
        data, status = b"", 200
        if self.command == "GET":
            data = self.store.blob(file["sha256"]).read_bytes()
            if match := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
                if match[1]:
                    low, high = int(match[1]), min(int(match[2] or size - 1), size - 1)
                else:
                    low, high = max(0, size - int(match[2])), size - 1
                if low > high:
                    self.reply(416, b"", {"Content-Range": f"bytes */{size}"})
                    return
                data, status = data[low : high + 1], 206
                headers["Content-Range"] = f"bytes {low}-{high}/{size}"
        headers["Content-Length"] = str(len(data) if self.command == "GET" else size)
        self.reply(status, data, headers, "application/octet-stream")


_KIND = r"(?P<kind>model|dataset|space)s"
_NAME = r"(?P<name>[^/]+/[^/]+)"
_REPO = rf"/api/{_KIND}/{_NAME}"
ROUTES = [
    (methods.split(), re.compile(pattern), function, role)
    for methods, pattern, function, role in [
        ("GET", r"/api/whoami-v2", Handler.whoami, "read"),
        ("POST", r"/api/repos/create", Handler.create, "write"),
        ("DELETE", r"/api/repos/delete", Handler.delete, "write"),
        ("POST", r"/api/validate-yaml", Handler.validate_yaml, "read"),
        ("GET", rf"{_REPO}/auth-check", Handler.auth_check, "read"),
        ("GET", rf"{_REPO}/auth-check/write", Handler.auth_check, "write"),
        ("GET", _REPO, Handler.info, "read"),
        ("GET", rf"{_REPO}/revision/(?P<rev>[^/]+)", Handler.info, "read"),
        ("POST", rf"{_REPO}/preupload/(?P<rev>[^/]+)", Handler.preupload, "pr"),
        ("POST", rf"{_REPO}/commit/(?P<rev>[^/]+)", Handler.commit, "write"),
        ("GET", rf"{_REPO}/tree/(?P<rev>[^/]+)(?:/(?P<path>.+))?", Handler.tree, "read"),
        ("POST", rf"{_REPO}/paths-info/(?P<rev>[^/]+)", Handler.paths_info, "read"),
        ("GET", rf"{_REPO}/refs", Handler.refs, "read"),
        ("GET", rf"{_REPO}/commits/(?P<rev>[^/]+)", Handler.commits, "read"),
        ("GET", rf"{_REPO}/discussions", Handler.discussions, "read"),
        ("POST", rf"{_REPO}/discussions/(?P<number>\d+)/merge", Handler.merge, "write"),
        ("POST DELETE", rf"{_REPO}/(?P<ref>branch|tag)/(?P<rev>[^/]+)", Handler.ref_edit, "write"),
        ("POST", rf"/(?:{_KIND}/)?{_NAME}\.git/info/lfs/objects/batch", Handler.lfs_batch, "pr"),
        ("PUT", r"/_lfs/(?P<oid>[0-9a-f]{64})", Handler.lfs_put, "read"),
        (
            "GET HEAD",
            rf"/(?:{_KIND}/)?{_NAME}/resolve/(?P<rev>[^/]+)/(?P<path>.+)",
            Handler.file,
            "read",
        ),
    ]
]


@contextlib.contextmanager
def running(root: Path, port: int = 0) -> Iterator[Hub]:
    """Runs a Hub on 127.0.0.1 whose content lies in a folder."""
    hub = Hub("", Store(root))
    handler = type("BoundHandler", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    hub.server = server
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hub
    finally:
        hub.stop()


if __name__ == "__main__":
    with running(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0) as served:
        print(served.url, flush=True)
        threading.Event().wait()
