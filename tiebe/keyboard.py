"""A page on 127.0.0.1 on which a person decides on one card after another, by keyboard."""

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Card", "Choice", "Decision", "Page", "serving"]

_HTML = Path(__file__).with_name("keyboard.html")
_MAX_BODY = 1 << 16


@dataclass(frozen=True, slots=True)
class Card:
    """What is to be decided on."""

    id: str
    fields: tuple[tuple[str, str], ...]
    """Names and texts, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be decided."""

    key: str
    """The key that decides it: one small letter or digit."""
    name: str
    label: str
    note: bool = False
    """Whether it wants a note: the reason."""
    edits: tuple[str, ...] = ()
    """The names of the fields that may be changed by it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided."""

    choice: str
    note: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The changed ones by name."""


@dataclass
class Page:
    """Cards, and what becomes of the decisions.

    Attributes:
        title: Of the page.
        cards: In the order in which they come; a page of one's own may have its own cards.
        choices: What can be decided.
        keep: Called with a card's id and the decision, once per decision; what it raises is shown
            on the page, and the card stays open.
        decided: What was decided before, by card id.
    """

    title: str
    cards: Sequence[Any]
    choices: Sequence[Choice]
    keep: Callable[[str, Decision], None]
    decided: Mapping[str, Decision] = field(default_factory=dict)
    html: str = ""
    """A page of one's own, with NONCE for the one that its style and script must bear."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What such a page is told besides."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the person is done."""


@contextlib.contextmanager
def serving(page: Page, port: int = 0) -> Iterator[str]:
    """Serves a page inside the block and yields its address, which nobody can guess.

    Args:
        page: The page.
        port: 0 is any free one.
    """
    known = dict(page.decided)
    names = {card.id for card in page.cards}
    choices = {choice.name: choice for choice in page.choices}
    token, lock = secrets.token_urlsafe(16), threading.Lock()

    def decide(body: Mapping[str, Any]) -> None:
        if body.get("id") not in names or body.get("choice") not in choices:
            raise ValueError("no such card or choice")
        fields = {str(name): str(text) for name, text in (body.get("fields") or {}).items()}
        decision = Decision(body["choice"], str(body.get("note") or ""), fields)
        choice = choices[decision.choice]
        if choice.note and not decision.note.strip():
            raise ValueError("a reason is needed")
        if not fields.keys() <= set(choice.edits) or not all(map(str.strip, fields.values())):
            raise ValueError("a field is empty, or cannot be changed")
        with lock:
            page.keep(body["id"], decision)
            known[body["id"]] = decision

    class Handler(BaseHTTPRequestHandler):
        def _mine(self, path: str) -> bool:
            """Whether a request has the address and comes from this page, not through another."""
            host = f"127.0.0.1:{server.server_port}"
            return self.path == f"/{token}/{path}" and self.headers.get("Host") == host

        def _send(self, status: int, body: str, kind: str = "text/plain", nonce: str = "") -> None:
            content = body.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header(
                "Content-Security-Policy",
                f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
                "connect-src 'self'; frame-ancestors 'none'",
            )
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            if self._mine(""):
                nonce = secrets.token_urlsafe(16)
                html = (page.html or _HTML.read_text("utf-8")).replace("NONCE", nonce)
                self._send(200, html, "text/html", nonce)
            elif self._mine("cards"):
                with lock:
                    decided = {name: asdict(made) for name, made in known.items() if name in names}
                data = {
                    "title": page.title,
                    "cards": [asdict(card) for card in page.cards],
                    "choices": [asdict(choice) for choice in page.choices],
                    "decided": decided,
                    **page.more,
                }
                self._send(200, json.dumps(data), "application/json")
            else:
                self._send(404, "nothing here")

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if self._mine("end"):
                page.ended.set()
                self._send(200, "")
            elif not self._mine("decide") or size > _MAX_BODY:
                self._send(404, "nothing here")
            else:
                try:
                    decide(json.loads(self.rfile.read(size)))
                except (ValueError, TypeError, AttributeError, OSError) as error:
                    self._send(400, str(error))
                else:
                    self._send(200, "")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the address is a secret."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{token}/"
        finally:
            server.shutdown()
            thread.join()
