"""A small web on loopback: answers for any URL by rewriting, hostile ones included."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Answer:
    """What a URL gives: a status, headers, a body, after a delay in seconds."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        time.sleep(self.delay)
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = {"Content-Type": "text/html; charset=utf-8", **self.headers}
        handler.send_response(self.status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@dataclass
class Wayback:
    """A web archive: an index of captures by closeness, raw replays, and 429 on demand."""

    captures: dict[str, dict[str, Answer]] = field(default_factory=dict)
    """By URL, then by timestamp of 14 digits."""
    busy: int = 0
    """So many of the next requests are refused."""

    def add(self, url: str, timestamp: str, answer: Answer | str) -> None:
        """Stores a capture."""
        captured = answer if isinstance(answer, Answer) else Answer(answer)
        self.captures.setdefault(url, {})[timestamp] = captured

    def answer(self, url: str) -> Answer | None:
        """What the archive says to a URL; None for one of another host."""
        parts = urlsplit(url)
        if parts.hostname != "web.archive.org":
            return None
        if self.busy:
            self.busy -= 1
            return Answer("Too Many Requests", 429, {"Retry-After": "0"})
        if parts.path == "/cdx/search/cdx":
            return self._index({k: v[0] for k, v in parse_qs(parts.query).items()})
        found = re.fullmatch(r"https://web\.archive\.org/web/(\d+)(id_)?/(.+)", url)
        captures = self.captures.get(found[3], {}) if found else {}
        if not found or not captures:
            return Answer("<title>Wayback Machine has not archived that URL</title>", 404)
        time = min(captures, key=lambda t: abs(int(t) - int(found[1].ljust(14, "0"))))
        if time != found[1]:
            target = f"https://web.archive.org/web/{time}{found[2] or ''}/{found[3]}"
            return Answer("", 302, {"Location": target})
        if not found[2]:
            return Answer("<!-- BEGIN WAYBACK TOOLBAR INSERT --><p>The Wayback Machine</p>")
        return captures[time]

    def _index(self, query: Mapping[str, str]) -> Answer:
        closest = int(query["closest"].ljust(14, "0"))
        captures = self.captures.get(query["url"], {})
        times = sorted(captures, key=lambda time: abs(int(time) - closest))
        rows = [
            {"timestamp": time, "original": query["url"], "statuscode": str(captures[time].status)}
            for time in times
        ]
        name, _, value = query["filter"].partition(":")
        names = query["fl"].split(",")
        kept = [[row[n] for n in names] for row in rows if row[name] == value]
        table = [names, *kept[: int(query["limit"])]] if kept else []
        return Answer(json.dumps(table), headers={"Content-Type": "application/json"})


class Site(ThreadingHTTPServer):
    """Answers by URL, in turn when there are several (the last one stays); logs what was asked.

    A URL is what `?url=` names, so that any host can be played, or the server's own address.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Callable[[BaseHTTPRequestHandler], Any]]] = {}
        self.wayback = Wayback()
        self.log: list[tuple[str, float, Mapping[str, str]]] = []
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.rewrite = f"{self.origin}/?url={{url}}"

    def __setitem__(self, url: str, answer: Any) -> None:
        """Sets a URL's answer: a body, an Answer, a function of the handler, or a list of these."""
        answers = answer if isinstance(answer, list) else [answer]
        self.answers[url] = [a if callable(a) else Answer(a) for a in answers]

    def asked(self, url: str | None = None) -> list[str]:
        """The URLs that were asked for, robots.txt aside, or how often one was."""
        urls = [u for u, _, _ in self.log]
        return [u for u in urls if (u == url if url else not u.endswith("/robots.txt"))]

    def times(self, host: str) -> list[float]:
        """When documents of a host were asked for."""
        return [
            at
            for url, at, _ in self.log
            if urlsplit(url).hostname == host and not url.endswith("/robots.txt")
        ]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up on an endless answer is what the tests want."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        rewritten = self.path.startswith("/?url=")
        url = query["url"][0] if rewritten else self.server.origin + self.path
        self.server.log.append((url, time.monotonic(), dict(self.headers)))
        answers = self.server.answers.get(url)
        if not answers:
            answers = [self.server.wayback.answer(url) or Answer("not here", status=404)]
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[Site]:
    """Runs a site for the length of the block."""
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
