"""A MediaWiki-shaped API on loopback, with the manners and the limits of the real one."""

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

LIMIT = 50


@dataclass
class Wiki:
    """Pages, their revisions (oldest first), and what the server is to do."""

    pages: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    """Title to (revision, ISO time, wikitext)."""
    redirects: dict[str, str] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    """Revisions whose text was removed."""
    refusals: list[tuple[int, str, str]] = field(default_factory=list)
    """Given to the next requests: status, API error code, Retry-After."""
    texts_at_a_time: int = 10
    history_at_a_time: int = 500
    requests: list[tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    """Parameters and headers, in order."""
    url: str = ""

    def query(self, params: Mapping[str, str]) -> Mapping[str, Any]:
        """Answers action=query&prop=revisions."""
        if params.get("action") != "query" or params.get("prop") != "revisions":
            return error("badvalue", "not an action of this server")
        if params.get("format") != "json" or params.get("formatversion") != "2":
            return error("badvalue", "this server speaks JSON, version 2")
        single = {"rvlimit", "rvstart", "rvend", "rvdir"} & params.keys()
        if "revids" in params:
            return self.texts(params)
        titles = params["titles"].split("|")
        if len(titles) > LIMIT:
            return error("toomanyvalues", f"Too many values: the limit is {LIMIT}.")
        if single and len(titles) > 1:
            return error("rvmultpages", f"{sorted(single)} may only be used with a single page.")
        query: dict[str, Any] = {"pages": []}
        answer: dict[str, Any] = {"query": query}
        for title in titles:
            normal = " ".join(title.replace("_", " ").split())
            if normal != title:
                change = {"fromencoded": False, "from": title, "to": normal}
                query.setdefault("normalized", []).append(change)
            if "redirects" in params and normal in self.redirects:
                change = {"from": normal, "to": self.redirects[normal]}
                query.setdefault("redirects", []).append(change)
                normal = self.redirects[normal]
            history = self.pages.get(normal, [])[::-1]
            if not history:
                query["pages"].append({"ns": 0, "title": normal, "missing": True})
                continue
            page = {"pageid": len(normal), "ns": 0, "title": normal}
            if single:
                start = params.get("rvcontinue", params.get("rvstart", "9999"))
                known = [r for r in history if r[1] <= start]
                size = min(int(params["rvlimit"].replace("max", "500")), self.history_at_a_time)
                if len(known) > size:
                    answer["continue"] = {"rvcontinue": known[size][1], "continue": "||"}
                history = known[:size]
            else:
                history = history[:1]
            page["revisions"] = [{"revid": r[0], "timestamp": r[1]} for r in history]
            query["pages"].append(page)
        return answer

    def texts(self, params: Mapping[str, str]) -> Mapping[str, Any]:
        """Answers for revisions: some texts at a time, the rest by continuation."""
        wanted = [int(number) for number in params["revids"].split("|")]
        if len(wanted) > LIMIT:
            return error("toomanyvalues", f"Too many values: the limit is {LIMIT}.")
        first = int(params.get("rvcontinue", "0"))
        now = wanted[first : first + self.texts_at_a_time]
        pages = []
        for title, history in self.pages.items():
            rows = []
            for number, time, text in history:
                if number in now:
                    main = {"contentmodel": "wikitext", "contentformat": "text/x-wiki"}
                    main |= {"texthidden": True} if number in self.hidden else {"content": text}
                    rows.append({"revid": number, "timestamp": time, "slots": {"main": main}})
            if rows:
                pages.append({"pageid": len(title), "ns": 0, "title": title, "revisions": rows})
        answer: dict[str, Any] = {"query": {"pages": pages}}
        if first + len(now) < len(wanted):
            answer["continue"] = {"rvcontinue": str(first + len(now)), "continue": "||"}
        return answer


def error(code: str, info: str) -> Mapping[str, Any]:
    """An API error: the HTTP status stays 200."""
    return {"error": {"code": code, "info": info}}


class _Handler(BaseHTTPRequestHandler):
    wiki: Wiki

    def do_GET(self) -> None:
        params = dict(parse_qsl(urlsplit(self.path).query))
        self.wiki.requests.append((params, dict(self.headers.items())))
        if "@" not in self.headers.get("User-Agent", ""):
            self.answer(403, b"Please set a user-agent with your contact", {})
        elif self.wiki.refusals:
            status, code, wait = self.wiki.refusals.pop(0)
            headers = {"Retry-After": wait} if wait else {}
            body = json.dumps(error(code, f"refused: {code}")) if code else "<html>busy"
            self.answer(status, body.encode(), headers)
        else:
            body = json.dumps(self.wiki.query(params)).encode()
            headers = {"Content-Type": "application/json"}
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
            self.answer(200, body, headers)

    def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def running(wiki: Wiki) -> Iterator[Wiki]:
    """Serves a wiki; its `url` is that of the API."""
    handler = type("Handler", (_Handler,), {"wiki": wiki})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        wiki.url = f"http://127.0.0.1:{server.server_port}/w/api.php"
        yield wiki
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def days_ago(days: float) -> str:
    """A time as the API writes it."""
    moment = datetime.now(UTC).timestamp() - days * 86400
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
