"""Review: rows on a page, to be browsed, or decided on by keyboard.

`page` is one HTML file that asks nothing of the network. `serve` shows the same page on 127.0.0.1
with choices, and hands each decision to a function at once. What strangers wrote is in the page
only as compressed JSON and is shown as text nodes; its policy lets no script run but the page's
own, which it knows by its hash.
"""

import base64
import gzip
import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

__all__ = ["Card", "Choice", "Field", "Made", "Review", "page", "serve"]

log = logging.getLogger(__name__)

PAGE_SIZE = 25
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a row."""

    name: str
    label: str
    text: str
    lang: str = ""
    """ISO 639 code."""
    main: bool = False
    """Whether it stands out."""
    mark: bool = False
    """Whether its words are marked in the text beside."""


@dataclass(frozen=True, slots=True)
class Card:
    """A row."""

    id: str
    facts: Sequence[str]
    """A value for each of the page's facets; empty for none."""
    fields: Sequence[Field]
    flags: Sequence[str] = ()
    title: str = ""
    url: str = ""
    text: str = ""
    """Shown beside the fields, under `title`, which leads to `url`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision that can be made on a row."""

    key: str
    """Of the keyboard."""
    name: str
    label: str
    reason: bool = False
    """Whether it wants a reason."""
    edits: Sequence[str] = ()
    """The names of the fields that it may change."""


@dataclass(frozen=True, slots=True)
class Made:
    """A decision that was made."""

    id: str
    choice: str
    reason: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The changed fields by name."""


@dataclass(frozen=True, slots=True)
class Review:
    """What a page shows."""

    title: str
    cards: Sequence[Card]
    facets: Sequence[str] = ()
    """The names of the facts that one can filter by."""
    says: Mapping[str, str] = field(default_factory=dict)
    """What each flag means."""
    beside: str = "Text"
    """The heading of a text without a title."""
    choices: Sequence[Choice] = ()
    decisions: Mapping[str, Made] = field(default_factory=dict)
    """Those that were made before, by the row's id."""


def page(review: Review, *, token: str = "") -> str:
    """Returns the page; without a token, which only `serve` has, nothing can be decided on it.

    Args:
        review: What it shows.
        token: What the page sends with each decision.
    """
    payload = msgspec.to_builtins(review) | {"token": token, "size": PAGE_SIZE}
    if not token:
        payload["choices"] = []
    raw = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    packed = gzip.compress(raw.encode("utf-8", "replace"), 9, mtime=0)
    style, script = _asset("review.css"), _asset("review.js")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_asset("review.html.jinja")).render(
        title=review.title,
        style=Markup(style),
        style_hash=Markup(_hash(style)),
        script=Markup(script),
        script_hash=Markup(_hash(script)),
        connect=Markup("'self'" if token else "'none'"),
        packed=base64.b64encode(packed).decode(),
    )


def _asset(name: str) -> str:
    return resources.files("tiebe").joinpath(name).read_text(encoding="utf-8")


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@contextmanager
def serve(review: Review, decided: Callable[[Made], None], *, port: int = 0) -> Iterator[str]:
    """Serves the page on 127.0.0.1 while the block runs; yields its address.

    Args:
        review: What it shows; its decisions are those made before.
        decided: Gets each decision at once, one at a time. What it raises as ValueError or OSError
            is shown on the page, and the decision counts as not made.
        port: Any free one by default.
    """
    server = _Server(review, decided, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="review")
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """One page, and what is decided on it."""

    daemon_threads = True

    def __init__(self, review: Review, decided: Callable[[Made], None], port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.review = review
        self.decided = decided
        self.made = dict(review.decisions)
        self.token = secrets.token_urlsafe(16)
        self.lock = threading.Lock()
        self.ids = {card.id for card in review.cards}
        self.choices = {choice.name: choice for choice in review.choices}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def decide(self, body: bytes) -> None:
        """Checks a decision and hands it on.

        Raises:
            ValueError: It is none of those that this page offers.
        """
        try:
            made = msgspec.json.decode(body, type=Made)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        choice = self.choices.get(made.choice)
        if made.id not in self.ids or choice is None:
            raise ValueError("no such row or choice")
        if not set(made.fields) <= set(choice.edits):
            raise ValueError(f"{choice.label} changes nothing but {', '.join(choice.edits)}")
        if choice.reason and not made.reason.strip():
            raise ValueError("a reason is needed")
        if any(not text.strip() for text in made.fields.values()):
            raise ValueError("a field is empty")
        with self.lock:
            self.decided(made)
            self.made[made.id] = made


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Sends the page."""
        if not self._local():
            return
        if self.path != "/":
            self._send(404, "there is only one page: /")
            return
        with self.server.lock:
            decisions = dict(self.server.made)
        now = replace(self.server.review, decisions=decisions)
        self._send(200, page(now, token=self.server.token), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Takes a decision."""
        if not self._local():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            self.close_connection = True
            self._send(413, "too long")
            return
        body = self.rfile.read(int(length))
        if self.path != "/decisions" or not self._is_own_page():
            self._send(403, "this is not from the page: load it again")
            return
        try:
            self.server.decide(body)
        except (ValueError, OSError) as error:
            self._send(400, str(error))
        else:
            self._send(200, "saved")

    def _is_own_page(self) -> bool:
        """Whether the request bears the page's token: no other site's script knows it."""
        token = self.headers.get("X-Token", "").encode("utf-8", "replace")
        return secrets.compare_digest(token, self.server.token.encode())

    def _local(self) -> bool:
        """Refuses a request by another name than this machine's: one that was rebound to it."""
        name = self.headers.get("Host", "").rpartition(":")[0]
        if name in ("127.0.0.1", "localhost"):
            return True
        self.close_connection = True
        self._send(403, "ask for 127.0.0.1")
        return False

    def _send(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the terminal clean."""
        log.debug(format, *args)
