"""Fetches strangers' documents: politely, once, within limits, from public addresses only.

One request is one entry of the cache, written before the next request starts: a run that was killed
asks nothing again that was answered, failures and tries included. Politeness, cache and robots.txt
go by the URL as cited, wherever `WebSettings.rewrite` sends the request in a test.
"""

import contextlib
import functools
import gzip
import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeGuard
from urllib.parse import quote, urljoin, urlsplit

import requests
import urllib3
from protego import Protego

from builder.charsets import decode
from builder.transport import Refused, may_be_public, open_session, retry_after
from tiebe.engine import Wait
from tiebe.errors import FetchError, SettingsError, TiebeError
from tiebe.lanes import Lanes
from tiebe.records import from_row, to_row

__all__ = [
    "Fetched",
    "Web",
    "WebSettings",
    "cache_folder",
    "canonical_url",
]

log = logging.getLogger(__name__)

DAY = 86400.0
CONNECT_SECONDS = 10.0
CHUNK = 65536
LONGEST_URL = 4096
ROBOTS_BYTES = 500_000  # RFC 9309: at least 500 KiB of a robots.txt are read
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# The Wayback Machine's index and replay are an API with limits of its own (`WebSettings.delays`).
NO_ROBOTS = frozenset({"web.archive.org"})

# Keeps below what the Wayback Machine allows: 0.4 lookups and 8 replays a second.
PACE = {"web.archive.org/cdx": 2.75, "web.archive.org/web": 0.2}
# How often what may pass is tried; a failure that is not here is final at once.
PASSING = {"rate_limited": 4, "server_error": 4, "timeout": 2, "unreachable": 2, "cut_off": 2}
# How many days a final failure is believed.
BELIEVED = {"dns": 1, "private_address": 1, "tls": 7, **dict.fromkeys(PASSING, 1)}
# A robots.txt that cannot be had for these reasons allows everything (RFC 9309, 2.3.1.3).
NO_RULES = frozenset(
    {"not_found", "forbidden", "http_error", "redirect_loop", "content_type", "empty", "bad_url"}
)


@dataclass(frozen=True)
class WebSettings:
    """The `[web]` table of run.toml.

    Attributes:
        delay: Seconds between the starts of two requests to a host; a longer Crawl-delay wins.
        workers: Threads that fetch and read.
        archive: `fallback` looks for archived copies of what is not live; `off` postpones that.
        allow_private: Whether loopback and private addresses may be asked, as tests need.
        rewrite: Where requests are sent instead, with `{url}` for the quoted URL: a test server.
        refresh: ISO date or time; what was fetched earlier is asked for again, conditionally.
        contact: How a host reaches the operator, told in the User-Agent.
        deadline: Seconds for one request, from the connection to the last byte.
        max_bytes: The largest document, after decompression.
        max_redirects: The longest chain of redirects.
        backoff: Seconds before the second try; doubled for each further one, up to a minute.
        longest_wait: Seconds; a host that wants a longer Retry-After is given up.
        delays: Seconds by host, or by host and path, that replace `delay`; added to those of
            `PACE`.

    Raises:
        SettingsError: A value cannot be used.
    """

    delay: float = 1.0
    workers: int = 16
    archive: Literal["fallback", "off"] = "fallback"
    allow_private: bool = False
    rewrite: str = ""
    refresh: str = ""
    contact: str = ""
    deadline: float = 30.0
    max_bytes: int = 10_000_000
    max_redirects: int = 8
    backoff: float = 1.0
    longest_wait: float = 3600.0
    delays: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("delay", "backoff", "longest_wait", "max_redirects"):
            if getattr(self, name) < 0:
                raise SettingsError(f"[web] {name} = {getattr(self, name)}: expected 0 or more")
        for name in ("workers", "deadline", "max_bytes"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"[web] {name} = {getattr(self, name)}: expected more than 0")
        if self.archive not in ("fallback", "off"):
            raise SettingsError(f"[web] archive = '{self.archive}': expected 'fallback' or 'off'")
        if self.rewrite and not ("{url}" in self.rewrite and _is_http(self.rewrite)):
            raise SettingsError(
                f"[web] rewrite = '{self.rewrite}': expected 'http://HOST:PORT/?url={{url}}'"
            )
        if not self.contact.isprintable() or not self.contact.isascii():
            raise SettingsError(f"[web] contact = {self.contact!r}: expected printable ASCII")
        for key, seconds in self.delays.items():
            if seconds < 0 or key.endswith("/") or "://" in key:
                raise SettingsError(
                    f"[web] delays: '{key}' = {seconds}: expected 'HOST' or 'HOST/PATH' = seconds"
                )
        object.__setattr__(self, "delays", {**PACE, **self.delays})
        try:
            self.refreshed()
        except ValueError as error:
            raise SettingsError(
                f"[web] refresh = '{self.refresh}': expected a date, 2026-11-29"
            ) from error

    def refreshed(self) -> float:
        """Returns the time before which a copy is stale, in seconds of the epoch; 0 for never."""
        if not self.refresh:
            return 0.0
        moment = datetime.fromisoformat(self.refresh)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def owner(self, url: str) -> str:
        """Returns the queue that a canonical URL waits in: its host, or a key of `delays`."""
        parts = urlsplit(url)
        place = f"{parts.hostname or ''}{parts.path}"
        keys = [key for key in self.delays if place == key or place.startswith(f"{key}/")]
        return max(keys, key=len, default=parts.hostname or "")

    def pause(self, owner: str) -> float:
        """Returns the seconds between two requests of a queue, robots.txt aside."""
        return self.delays.get(owner, self.delay)


def _is_http(url: str) -> bool:
    return url.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document as it was had."""

    url: str
    """As asked for, in canonical form."""
    final_url: str
    """After redirects."""
    status: int
    headers: Mapping[str, str]
    """Names in lower case; cookies and overlong values left out."""
    body: bytes
    """Decompressed."""
    retrieved: str
    """ISO 8601, UTC."""
    sha256: str
    """Of the body, in hex."""

    @property
    def is_pdf(self) -> bool:
        """Whether the body is a PDF, whatever its headers say."""
        return _is_pdf(self.body)

    def text(self, encodings: Iterable[str] = ()) -> str:
        """Returns the body as text; `encodings` are those of the region's language."""
        return decode(self.body, self.headers.get("content-type", ""), encodings)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What one request to one URL came to; an entry of the cache's index."""

    url: str
    at: float = 0.0
    """Of the answer, in seconds of the epoch."""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sha256: str | None = None
    reason: str | None = None
    """Why there is no document; None for a document and for a redirect."""
    detail: str = ""
    tries: int = 0
    """Tries that failed since `at`, when another one is due."""
    due: float = 0.0
    """When that is, in seconds of the epoch."""

    @property
    def location(self) -> str | None:
        """Where a redirect leads; header bytes that are UTF-8 are read as such."""
        if self.status not in REDIRECTS or "location" not in self.headers:
            return None
        given = self.headers["location"]
        try:
            return given.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return given


class Web:
    """Gets documents from the web or from the cache; safe to share between threads.

    One request at a time goes to a host, and the next not before its delay has passed. A robots.txt
    is asked for right before a host's first document and obeyed. Two processes know nothing of each
    other's pauses unless an engine shares their lanes: run one at a time.

    Args:
        settings: Delays, limits and what else run.toml says.
        cache: The folder of fetched documents; None for `cache_folder()`.
        lanes: Gives the hosts' turns; None for those of this process.
    """

    def __init__(
        self, settings: WebSettings, *, cache: Path | None = None, lanes: Lanes | None = None
    ) -> None:
        self.settings = settings
        self._named = cache or (cache_folder() if os.environ.get("TIEBE_CACHE") else None)
        self._cache = _Cache(self._named or cache_folder())
        self._lanes = lanes or Lanes(settings.deadline + CONNECT_SECONDS)
        self._rules = functools.lru_cache(maxsize=1024)(self._find_rules)
        contact = f"; {settings.contact}" if settings.contact else ""
        home = "https://github.com/TimelyEventsBenchmark/TiEBe"
        headers = {
            "User-Agent": f"TiEBe/{version('tiebe')} (+{home}{contact})",
            "Accept": "text/html,application/xhtml+xml,application/pdf;q=0.8,*/*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
        }
        # A test server is the operator's own choice; the cited hosts are checked all the same.
        opened = settings.allow_private or bool(settings.rewrite)
        self._session = open_session(headers, connections=settings.workers, allow_private=opened)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has its own connections, and the cache of that name on its machine."""
        cache = self._named and self._named.resolve()
        return functools.partial(Web, cache=cache, lanes=self._lanes), (self.settings,)

    def get(self, url: str, *, block: bool = False) -> Fetched:
        """Returns the document at `url`, from the cache when it is there.

        Args:
            url: As cited; http or https.
            block: Whether to sleep until the host may be asked, outside of an engine.

        Raises:
            FetchError: It cannot be had. `reason` is bad_url, private_address, robots,
                robots_unavailable, dns, unreachable, tls, timeout, cut_off, rate_limited,
                server_error, not_found, forbidden, http_error, redirect_loop, content_type,
                too_large, bad_encoding or empty.
            Wait: The host may not be asked now. Calling again later goes on where this stopped.
        """
        while True:
            try:
                return self._get(url)
            except Wait as wait:
                if not block:
                    raise
                time.sleep(wait.seconds)

    def hours(self, urls: Iterable[str]) -> dict[str, float]:
        """Returns the hours that the politeness to each host will take, longest first.

        Args:
            urls: What is to be fetched; what the cache has counts for nothing, nor does what is no
                URL. Hosts work side by side, so the run takes as long as the first entry at least.
        """
        hours: dict[str, float] = {}
        for url in dict.fromkeys(urls):
            with contextlib.suppress(FetchError):
                url = canonical_url(url)
                if not self._is_final(self._known(url)):
                    owner = self.settings.owner(url)
                    pause = self.settings.pause(owner)
                    robots = self._known(_robots_url(url))
                    if robots is not None and robots.sha256:
                        pause = max(pause, _crawl_delay(self._parse(robots)))
                    hours[owner] = hours.get(owner, 0.0) + pause / 3600
        return dict(sorted(hours.items(), key=lambda item: (-item[1], item[0])))

    def close(self) -> None:
        """Closes the connections and the cache."""
        self._session.close()
        self._cache.close()

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _get(self, url: str) -> Fetched:
        first = canonical_url(url)
        while True:
            last = self._follow(first, robots=True)
            assert last.sha256 is not None and last.status is not None
            if (body := self._cache.body(last.sha256)) is not None:
                break  # otherwise it is damaged, gone by now, and had again
        when = datetime.fromtimestamp(last.at, UTC).isoformat(timespec="seconds")
        return Fetched(first, last.url, last.status, last.headers, body, when, last.sha256)

    def _follow(self, first: str, *, robots: bool) -> _Exchange:
        """The exchange at the end of a chain of redirects: one that has a document."""
        hops = [first]
        while True:
            exchange = self._exchange(hops[-1], robots=robots)
            if exchange.reason is not None:
                at = "" if len(hops) == 1 else f", redirected to {hops[-1][:200]}"
                _fail(first, exchange.reason, exchange.detail + at, exchange.status)
            if exchange.location is None:
                return exchange
            try:
                target = canonical_url(urljoin(hops[-1], exchange.location))
            except (FetchError, ValueError) as error:
                raise _error(first, "bad_url", f"redirected to no URL: {error}") from error
            if target in hops or len(hops) > self.settings.max_redirects:
                _fail(first, "redirect_loop", f"{len(hops)} redirects", exchange.status)
            hops.append(target)

    def _exchange(self, url: str, *, robots: bool) -> _Exchange:
        """What a request to `url` comes to: known already, or asked for now."""
        max_age = None if robots else DAY  # RFC 9309: a robots.txt is believed for a day
        known = self._known(url)
        if self._is_final(known, max_age):
            return known
        host = urlsplit(url).hostname or ""
        if not self.settings.allow_private and not may_be_public(host):
            return _Exchange(url, reason="private_address", detail=host)
        owner = self.settings.owner(url)
        self._lanes.check(owner)
        try:
            # After robots.txt a document may follow at once.
            pause = self._leave(url, owner) if robots else 0.0
        except Refused as error:
            return _Exchange(url, reason=error.reason, detail=error.detail)
        if known is not None and known.tries and (left := known.due - time.time()) > 0:
            raise Wait(left, owner=owner)
        with self._lanes.turn(owner, pause) as turn:
            known = self._known(url)  # another thread may have been here
            if self._is_final(known, max_age):
                return known
            asked, wait = self._try(url, known)
            self._cache.put(asked)
            turn.rest = wait or 0.0
        if asked.tries:
            raise Wait(max(0.0, asked.due - time.time()), owner=owner)
        return asked

    def _known(self, url: str) -> _Exchange | None:
        known = self._cache.get(url)
        if known is not None and known.sha256 and not self._cache.has(known.sha256):
            return None
        return known

    def _is_final(
        self, known: _Exchange | None, max_age: float | None = None
    ) -> TypeGuard[_Exchange]:
        """Whether what is known need not be asked for again."""
        if known is None or known.tries:
            return False
        age = time.time() - known.at
        if known.reason is not None:
            return age < DAY * BELIEVED.get(known.reason, 30)
        if max_age is not None and age > max_age:
            return False
        return known.at >= self.settings.refreshed()

    def _leave(self, url: str, owner: str) -> float:
        """The pause that a request to `url` is to be followed by, if robots.txt allows it."""
        pause = self.settings.pause(owner)
        if urlsplit(url).hostname in NO_ROBOTS:
            return pause
        try:
            rules = self._rules(_robots_url(url), int(time.time() // 3600))
        except FetchError as error:
            # RFC 9309, 2.3.1.4: without the rules of a host that is there nothing is allowed.
            there = error.reason in ("server_error", "rate_limited", "too_large", "bad_encoding")
            raise Refused("robots_unavailable" if there else error.reason, str(error)) from error
        if rules is None:
            return pause
        if not rules.can_fetch(url, "TiEBe"):
            raise Refused("robots", "robots.txt does not allow it")
        pause = max(pause, _crawl_delay(rules))
        if pause > self.settings.longest_wait:
            raise Refused("robots", f"robots.txt asks for a pause of {pause:g} s")
        return pause

    def _find_rules(self, url: str, hour: int) -> Protego | None:
        """The rules of the robots.txt at `url`; None when there is none. Kept for an hour."""
        try:
            return self._parse(self._follow(url, robots=False))
        except FetchError as error:
            if error.reason in NO_RULES:
                return None
            raise

    def _parse(self, robots: _Exchange) -> Protego:
        body = self._cache.body(robots.sha256 or "") or b""
        return Protego.parse(body[:ROBOTS_BYTES].decode("utf-8", "replace"))

    def _try(self, url: str, known: _Exchange | None) -> tuple[_Exchange, float | None]:
        """One try: what is now known, and how long its host wants to be left alone."""
        asked = self._ask(url, known)
        reason = asked.reason
        if reason is None or reason not in PASSING:
            return asked, None
        tries = 1 + (known.tries if known else 0)
        wanted = retry_after(asked.headers.get("retry-after", ""))
        wait = min(self.settings.backoff * 2 ** (tries - 1), 60.0) if wanted is None else wanted
        hold = wait if reason == "rate_limited" or wanted is not None else None
        if tries < PASSING[reason] and wait <= self.settings.longest_wait:
            before = known or _Exchange(url)
            return replace(before, tries=tries, due=time.time() + wait), hold
        if known is not None and known.sha256:
            log.warning("%s: %s; the earlier copy is kept", url, asked.detail)
            return replace(known, at=asked.at, tries=0, due=0.0), hold
        return asked, min(hold, self.settings.longest_wait) if hold is not None else None

    def _ask(self, url: str, known: _Exchange | None) -> _Exchange:
        """One request. A stranger's fault is a reason, never an exception."""
        conditions = {}
        if known is not None and known.sha256:
            for ours, theirs in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")):
                if theirs in known.headers:
                    conditions[ours] = known.headers[theirs]
        rewrite = self.settings.rewrite
        target = rewrite.replace("{url}", quote(url, safe="")) if rewrite else url
        deadline = self.settings.deadline
        limits = urllib3.Timeout(total=deadline, connect=min(CONNECT_SECONDS, deadline))
        start = time.monotonic()
        status: int | None = None
        headers: Mapping[str, str] = {}
        try:
            with self._session.get(
                target,
                headers=conditions,
                stream=True,
                allow_redirects=False,
                timeout=limits,  # type: ignore[arg-type]  # what requests hands to urllib3 as it is
            ) as response:
                status, headers = response.status_code, _kept(response.headers)
                if status == 304 and known is not None and known.sha256:
                    return replace(known, at=time.time(), tries=0, due=0.0)
                answered = _Exchange(url, time.time(), status, headers)
                if answered.location is not None:
                    _finish(response)
                    return answered
                return replace(answered, sha256=self._cache.add(self._read(response)))
        except Refused as error:
            reason, detail = error.reason, error.detail
        except requests.exceptions.SSLError as error:
            reason, detail = "tls", str(error)
        except requests.exceptions.ContentDecodingError as error:
            reason, detail = "bad_encoding", str(error)
        except requests.exceptions.InvalidURL as error:
            reason, detail = "bad_url", str(error)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if time.monotonic() - start >= deadline:
                reason, detail = "timeout", f"more than {deadline:g} s"
            else:
                reason, detail = "cut_off", f"{type(error).__name__}: {error}"
        return _Exchange(url, time.time(), status, headers, None, reason, detail[:300])

    def _read(self, response: requests.Response) -> bytes:
        """The document of a response; stops reading as soon as it is none that is wanted."""
        status = response.status_code
        if reason := _refusal(status):
            _finish(response)
            raise Refused(reason, f"status {status}")
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if not _is_wanted(kind):
            raise Refused("content_type", kind[:100])
        limit = self.settings.max_bytes
        if (response.raw.length_remaining or 0) > limit:
            raise Refused("too_large", f"{response.raw.length_remaining:,} bytes announced")
        body = bytearray()
        for chunk in response.iter_content(CHUNK):
            body += chunk
            if len(body) > limit:
                raise Refused("too_large", f"more than {limit:,} bytes")
        data = bytes(body)
        if data.startswith(b"\x1f\x8b"):  # replays give what was stored, without its header
            data = _inflate(data, limit)
        if not data.strip():
            raise Refused("empty", "no content")
        if _is_binary(data, response.headers.get("content-type", "")):
            raise Refused("content_type", f"binary data as {kind or 'no type'}")
        return data


def _error(url: str, reason: str, detail: str, status: int | None = None) -> FetchError:
    message = f"cannot fetch {url[:200]}: {reason}"
    if detail:
        message += f" ({detail})"
    return FetchError(message, url=url, status=status, reason=reason)


def _fail(url: str, reason: str, detail: str, status: int | None = None) -> NoReturn:
    raise _error(url, reason, detail, status)


# --- URLs, headers, bodies -------------------------------------------------------------------


def canonical_url(url: str) -> str:
    """Returns the form of a URL under which it is fetched and cached.

    Scheme and host in lower case and ASCII, no fragment, no password, no default port, other
    characters quoted.

    Raises:
        FetchError: It is not http or https, has no host, or is no URL at all (`bad_url`).
    """
    url = url.strip()
    if len(url) > LONGEST_URL or not re.match(r"https?://", url, re.IGNORECASE):
        _fail(url, "bad_url", "expected http:// or https:// and at most 4,096 characters")
    try:
        parts = urllib3.util.parse_url(url)
    except (ValueError, urllib3.exceptions.HTTPError) as error:
        raise _error(url, "bad_url", str(error)[:200]) from error
    host = (parts.host or "").rstrip(".")
    if not host or max(map(len, host.split("."))) > 63:
        _fail(url, "bad_url", "no host")
    port = None if parts.port == {"http": 80, "https": 443}.get(parts.scheme or "") else parts.port
    parts = parts._replace(auth=None, host=host, port=port, fragment=None)
    return parts._replace(path=parts.path or "/").url


def _robots_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/robots.txt"


def _crawl_delay(rules: Protego | None) -> float:
    return float((rules and rules.crawl_delay("TiEBe")) or 0.0)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers worth keeping: no cookies, nothing huge."""
    kept = {}
    for name, value in headers.items():
        name = name.lower()
        longest = LONGEST_URL if name == "location" else 1000
        if not name.startswith("set-cookie") and len(name) < 100 and len(value) <= longest:
            kept[name] = value
    return kept


def _finish(response: requests.Response) -> None:
    """Reads the rest of a short answer that is not wanted, so that the connection can go on."""
    left = response.raw.length_remaining
    if left is not None and left <= CHUNK:
        response.raw.read(CHUNK, decode_content=False)


def _refusal(status: int) -> str | None:
    """The reason in a status; None when there is a document."""
    if 200 <= status < 300:
        return None
    if status in (404, 410):
        return "not_found"
    if status in (401, 402, 403, 407, 451):
        return "forbidden"
    if status == 429:
        return "rate_limited"
    if status >= 500 or status in (408, 425):
        return "server_error"
    return "http_error"


def _is_wanted(kind: str) -> bool:
    """Whether a media type can hold a document; the body is looked at besides."""
    return (
        not kind
        or kind.startswith("text/")
        or kind.endswith(("/xml", "+xml", "/json", "+json", "/octet-stream", "pdf"))
        or "/" not in kind
    )


def _is_pdf(body: bytes) -> bool:
    return body[:1024].lstrip().startswith(b"%PDF-")


def _is_binary(body: bytes, content_type: str) -> bool:
    if _is_pdf(body) or body.startswith((b"\xff\xfe", b"\xfe\xff")) or "utf-16" in content_type:
        return False
    return b"\0" in body[:4096]


def _inflate(data: bytes, limit: int) -> bytes:
    """The content of gzip data that no header announced."""
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        body = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise Refused("bad_encoding", f"gzip: {error}") from error
    if len(body) > limit:
        raise Refused("too_large", f"more than {limit:,} bytes")
    return body


# --- Cache -----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Returns where fetched documents lie: TIEBE_CACHE, or the user's cache folder."""
    import platformdirs

    folder = os.environ.get("TIEBE_CACHE")
    return Path(folder) if folder else platformdirs.user_cache_path("tiebe")


class _Cache:
    """Documents as files named by their sha256, exchanges in an index by their URL."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._index = sqlite3.connect(
            folder / "index.sqlite", timeout=60, isolation_level=None, check_same_thread=False
        )
        # Each write is a transaction that a kill of this process cannot undo.
        self._query("pragma journal_mode = wal")
        self._query("pragma synchronous = normal")
        self._query("create table if not exists exchanges (url text primary key, row text)")

    def get(self, url: str) -> _Exchange | None:
        found = self._query("select row from exchanges where url = ?", url)
        return from_row(_Exchange, json.loads(found[0][0])) if found else None

    def put(self, exchange: _Exchange) -> None:
        row = json.dumps(to_row(exchange))
        self._query("insert or replace into exchanges values (?, ?)", exchange.url, row)

    def _query(self, sql: str, *values: str) -> list[Any]:
        try:
            with self._lock:
                return self._index.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise TiebeError(
                f"{self._folder / 'index.sqlite'}: {error}; "
                "if it is damaged, delete it: documents are then fetched again as needed"
            ) from error

    def add(self, body: bytes) -> str:
        sha256 = hashlib.sha256(body).hexdigest()
        if not self.has(sha256):
            path = self._document(sha256)
            try:
                _write(path, gzip.compress(body, compresslevel=5, mtime=0))
            except OSError as error:
                raise TiebeError(f"{path}: cannot be written: {error}") from error
        return sha256

    def has(self, sha256: str) -> bool:
        return self._document(sha256).exists()

    def body(self, sha256: str) -> bytes | None:
        """The document; None, and gone, when the disk does not have it as it was."""
        path = self._document(sha256)
        try:
            body = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            log.warning("%s: cannot be read (%s); asked for again", path, error)
            body = b""
        if hashlib.sha256(body).hexdigest() == sha256:
            return body
        path.unlink(missing_ok=True)
        return None

    def close(self) -> None:
        self._index.close()

    def _document(self, sha256: str) -> Path:
        return self._folder / "documents" / sha256[:2] / f"{sha256}.gz"


def _write(path: Path, data: bytes) -> None:
    """Puts a file in place as a whole, so that a kill leaves all of it or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        try:
            draft.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
