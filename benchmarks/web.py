"""Fetching from 50 hosts of a local server that answers after 50 ms: `python -m benchmarks.web`.

Measures how near polite fetching comes to what the delay per host allows, and, without a delay, how
near it comes to plain requests in as many threads.
"""

import asyncio
import multiprocessing
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import requests

from benchmarks.figures import Figure, finish
from builder.web import Web, WebSettings
from tiebe.engine import Stage, run_stage
from tiebe.journal import Journal

PAGES, HOSTS, LATENCY, DELAY, WORKERS = 1000, 50, 0.05, 0.5, 16
PARAGRAPH = "<p>The council met on Monday and agreed to mend the bridge before winter.</p>\n"
BODY = ("<html><body>\n" + PARAGRAPH * 300 + "</body></html>").encode()
URLS = [f"http://news{n % HOSTS}.example/{n // HOSTS}" for n in range(PAGES)]


@dataclass(frozen=True)
class Cited:
    """A URL as a record."""

    url: str

    @property
    def id(self) -> str:
        """The URL."""
        return self.url


@dataclass(frozen=True)
class Had:
    """What became of it."""

    id: str
    sha256: str


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(LATENCY)
            path = head.split(b" ", 2)[1]
            found = b"robots.txt" not in path
            body = b"<!-- %s -->" % path + BODY if found else b"not here"
            status = b"200 OK" if found else b"404 Not Found"
            head = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (status, len(body)) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _serve(listener: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.start_server(_answer, sock=listener)
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def server():
    """A server in a process of its own; yields its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(listener,), daemon=True
        )
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            process.join()


def polite(origin: str, delay: float) -> float:
    """Fetches all pages as a stage of a run does; returns the seconds."""
    settings = WebSettings(rewrite=f"{origin}/?url={{url}}", delay=delay, workers=WORKERS)
    with tempfile.TemporaryDirectory() as folder, Web(settings, cache=Path(folder)) as web:

        def run(record: Cited):
            yield Had(record.id, web.get(record.url).sha256)

        stage = Stage("fetch", 1, run, (Had,), owner=lambda record: settings.owner(record.url))
        start = time.monotonic()
        outcome = run_stage(stage, map(Cited, URLS), Journal(None), workers=WORKERS, progress=False)
        seconds = time.monotonic() - start
        assert outcome.counts()["out"] == PAGES, outcome.counts()
    return seconds


def plain(origin: str) -> float:
    """Fetches the same with requests alone: no cache, no robots.txt, no limits."""
    with requests.Session() as session, ThreadPoolExecutor(WORKERS) as pool:
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=WORKERS)
        session.mount("http://", adapter)
        targets = [f"{origin}/?url={quote(url, safe='')}" for url in URLS]
        start = time.monotonic()
        sizes = list(pool.map(lambda target: len(session.get(target, timeout=30).content), targets))
        seconds = time.monotonic() - start
    assert min(sizes) > len(BODY)
    return seconds


def main() -> None:
    """Measures and prints."""
    with server() as origin:
        allowed = (PAGES // HOSTS - 1) * DELAY + LATENCY
        took = polite(origin, DELAY)
        bare, whole = plain(origin), polite(origin, 0.0)
    what = f"{PAGES:,} pages of {HOSTS} hosts that take {LATENCY * 1000:.0f} ms"
    rate, most = PAGES / took, PAGES / allowed
    polite_ = Figure(
        f"{what}, {DELAY} s apart", rate, "pages/s", "what the delay allows", most, 0.85, "at least"
    )
    free = f"{what}, no delay, robots.txt and cache"
    finish([polite_, Figure(free, PAGES / whole, "pages/s", "requests alone", PAGES / bare)])


if __name__ == "__main__":
    main()
