"""A news site for tests: answers each cited URL as a plan says, and logs what it was asked.

A plan is a JSON object, URL to `{"html", "status", "delay", "fail_first"}`; `plan_for` writes
one in which each event's text stands among filler. Run as a script it serves in its own process:

    with running(plan, log="log.jsonl") as rewrite: ...     # rewrite: the value of [web] rewrite
"""

import argparse
import contextlib
import html
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FILLER = """
Neighbours who had gathered since the early morning said that they would remember the day for long.
The council's spokeswoman answered questions for half an hour and then asked for patience.
Shops along the main street closed earlier than usual, and buses took another way.
A retired teacher who lives close by said that nobody in her street had expected it.
Photographs taken from the hill show how many people had come to see it with their own eyes.
Local radio changed its programme and let listeners speak about what they had noticed.
Schools in the district told parents that lessons would go on as planned.
The weather had been dry for a week, with a light wind from the coast.
Reactions from other parts of the country were mixed, with praise and doubt in equal measure.
Several members of the assembly asked for a full account to be given before the summer.
Experts at the university warned against drawing conclusions before all papers are public.
A small group of volunteers served tea and bread to those who had waited outside.
The office promised to publish the minutes, and said that copies may be read at the town library.
Observers noted that a similar matter had been discussed some years ago without any result.
In the evening the square was quiet again, and cleaners had begun their work.
Trade unions and employers said in separate statements that they would study the matter closely.
Hotels reported more guests than is usual for the season, most of them from nearby towns.
An old proverb says that the river remembers every stone, and many quoted it that night.
The archive keeps a collection of letters that show how long people have cared about this.
Engineers inspected the building twice, and found the doors, the roof and the stairs in order.
""".strip().splitlines()
"""Sentences without a name, a number or a date, so that only the event's text tells the event."""

BOT_WALL = """<html><head><title>Just a moment...</title></head><body><h1>Checking your browser</h1>
<p>Please verify that you are a human. Enable JavaScript and cookies to continue.</p>
<p>Performance and security by a shield. Ray ID: 0a1b2c3d4e5f</p></body></html>"""


def _paragraphs(texts: Sequence[str], draw: random.Random) -> list[str]:
    lines = draw.sample(FILLER, 11)
    out = [f"{text} {lines.pop()}" for text in texts]
    while len(lines) > 1:
        out.append(f"{lines.pop()} {lines.pop()}")
    return out


def page(texts: Sequence[str], title: str, layout: int, draw: random.Random) -> str:
    """An article page in one of four layouts: the texts of its events among filler."""
    paragraphs = [html.escape(p) for p in _paragraphs(texts, draw)]
    head = html.escape(title)
    body = "".join(f"<p>{p}</p>\n" for p in paragraphs)
    menu = "<ul><li><a href='/'>Home</a></li><li><a href='/w'>World</a></li></ul>"
    if layout == 0:
        main = f"<article><h1>{head}</h1>{body}</article>"
    elif layout == 1:
        main = f"<div class='content'><h1>{head}</h1><div class='story-body'>{body}</div></div>"
    elif layout == 2:
        main = f"<main><header><h1>{head}</h1></header><section>{body}</section></main>"
    else:
        main = f"<table><tr><td>{menu}</td><td><h2>{head}</h2>{body}</td></tr></table>"
    return (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{head}</title></head>"
        f"<body><nav>{menu}</nav>{main}<footer>About us. Contact. Terms.</footer></body></html>"
    )


def plan_for(
    events: Sequence[tuple[str, Sequence[str]]],
    *,
    seed: int,
    wrong: float = 0.1,
    wrong_pages: Sequence[str] = (),
    slow: float = 0.3,
) -> tuple[dict[str, Any], set[str]]:
    """Returns a plan, and the URLs that give a wrong page.

    Args:
        events: Text and URLs of each event; an URL of several events tells all of them.
        seed: Decides everything that is drawn.
        wrong: The share of URLs that give a page on something else, or a bot wall.
        wrong_pages: HTML of pages on something else.
        slow: Seconds that some of the pages take.
    """
    texts: dict[str, list[str]] = {}
    for text, urls in events:
        for url in urls:
            texts.setdefault(url, []).append(text)
    plan: dict[str, Any] = {}
    planted = set()
    for url, told in texts.items():
        draw = random.Random(f"{seed}/{url}")
        title = " ".join(told[0].split()[:9])
        entry = {"html": page(told, title, draw.randrange(4), draw)}
        luck = draw.random()
        if luck < wrong:
            planted.add(url)
            walls = [BOT_WALL, *draw.sample(list(wrong_pages), min(1, len(wrong_pages)))]
            entry["html"] = draw.choice(walls)
        elif luck < wrong + 0.04:
            entry["status"] = 404
        elif luck < wrong + 0.08:
            entry["fail_first"] = 1
        elif luck < wrong + 0.12:
            entry["delay"] = slow
        plan[url] = entry
    return plan, planted


class Site(ThreadingHTTPServer):
    """Serves a plan."""

    daemon_threads = True

    def __init__(self, plan: Mapping[str, Any], log: str, latency: float, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.plan, self.latency = plan, latency
        self.seen: dict[str, int] = {}
        self.lock = threading.Lock()
        self.log = Path(log).open("a", buffering=1) if log else None


class Handler(BaseHTTPRequestHandler):
    """Answers `/?url=…`."""

    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        started = time.time()
        url = parse_qs(urlsplit(self.path).query).get("url", [""])[0]
        entry = self.server.plan.get(url)
        with self.server.lock:
            self.server.seen[url] = tries = self.server.seen.get(url, 0) + 1
        status = 404
        if entry is not None:
            failing = tries <= entry.get("fail_first", 0)
            status = 500 if failing else entry.get("status", 200)
            time.sleep(entry.get("delay", 0))
        time.sleep(self.server.latency)
        body = entry["html"].encode() if entry is not None and status == 200 else b"nothing here"
        try:
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            status = 0  # the client has gone
        if self.server.log:
            line = {"url": url, "status": status, "t_in": started, "t_out": time.time()}
            with self.server.lock:
                self.server.log.write(json.dumps(line) + "\n")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running(
    plan: Mapping[str, Any], folder: Path, *, latency: float = 0.0
) -> Iterator[tuple[str, Path]]:
    """Serves a plan from a process of its own; yields `[web] rewrite` and the log's path."""
    file, log = folder / "plan.json", folder / "articles.log.jsonl"
    file.write_text(json.dumps(plan))
    command = [sys.executable, __file__, str(file), "--log", str(log), "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip() + "/?url={url}", log
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("--log", default="")
    parser.add_argument("--latency", type=float, default=0.0)
    args = parser.parse_args()
    site = Site(json.loads(Path(args.plan).read_text()), args.log, args.latency)
    print(f"http://127.0.0.1:{site.server_address[1]}", flush=True)
    site.serve_forever()


if __name__ == "__main__":
    main()
