"""Connects to strangers' servers: to public addresses only, and for so long only.

The address that was checked is the one that is connected to: there is no second lookup. Proxies,
netrc and cookies are not used: through a proxy the address could not be checked, and nothing of the
operator's shall reach a stranger.
"""

import email.utils
import functools
import http.client
import io
import ipaddress
import socket
import time
from collections.abc import Mapping
from datetime import UTC
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar

__all__ = ["Refused", "is_public", "may_be_public", "open_session", "retry_after"]


class Refused(Exception):
    """What a stranger's server gave is not to be had or not to be used; `reason` is a code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def retry_after(value: str) -> float | None:
    """Returns the seconds that a Retry-After header asks to wait; None when it does not tell."""
    value = value.strip()
    if value.isdecimal() and len(value) < 10:
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - time.time())


# --- Addresses -------------------------------------------------------------------------------

_NEVER = [
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's metadata, on a public address
        "192.0.0.0/24",  # protocol assignments, Oracle's metadata among them
        "192.88.99.0/24",  # relays from IPv6 to IPv4
    )
]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Returns whether an IP address is one of the public internet's, whatever wraps it.

    False for loopback, private, link-local, shared (CGNAT), multicast, reserved and metadata
    addresses, and for IPv6 addresses that lead to such an IPv4 address.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in _NAT64:
            inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if any(v4 is not None and not is_public(str(v4)) for v4 in inner):
            return False
        if ip.ipv4_mapped is not None:
            return True
    if ip.is_multicast or ip.is_reserved or ip.is_unspecified or not ip.is_global:
        return ip in _NAT64 if isinstance(ip, ipaddress.IPv6Address) else False
    if isinstance(ip, ipaddress.IPv6Address) and ip.is_site_local:
        return False
    return not any(ip in network for network in _NEVER)


def may_be_public(host: str) -> bool:
    """Whether a host can be a public one, before any lookup."""
    bare = host.strip("[]")
    try:
        ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        name = host.rstrip(".")
        return "." in name and not name.endswith((".localhost", ".internal", ".local"))
    return is_public(bare)


def _addresses(
    host: str, port: int, *, allow_private: bool
) -> list[tuple[socket.AddressFamily, Any]]:
    """The socket addresses of a host that may be connected to: (family, address)."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused("dns", str(error)) from error
    addresses: list[tuple[socket.AddressFamily, Any]] = [(row[0], row[4]) for row in found]
    public = [a for a in addresses if allow_private or is_public(str(a[1][0]))]
    if not public:
        named = ", ".join(str(address[0]) for _, address in addresses[:3])
        raise Refused("private_address", f"{host} is {named}")
    return public[:4]


# --- Connections -----------------------------------------------------------------------------


class _Deadline(io.RawIOBase):
    """A socket's bytes; the time left is shared by all reads."""

    def __init__(self, sock: socket.socket, raw: Any) -> None:
        self._sock = sock
        self._raw = raw
        seconds = sock.gettimeout()
        self._end = None if seconds is None else time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no time left")
            self._sock.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """Takes the socket's timeout for the whole response, headers included, not for each read."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Deadline(sock, self.fp.detach()))


class _Checked:
    """What both connections share: one lookup, checked, and connected to just that."""

    response_class: Any = _Response
    _dns_host: str
    port: int
    timeout: Any
    socket_options: Any

    def __init__(self, *args: Any, allow_private: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allow_private = allow_private

    def _new_conn(self) -> socket.socket:
        end = time.monotonic() + self.timeout
        failure = ""
        for family, address in _addresses(
            self._dns_host, self.port, allow_private=self.allow_private
        ):
            left = end - time.monotonic()
            if left <= 0:
                break
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.settimeout(left)
                sock.connect(address)
            except OSError as error:
                failure = str(error)
                sock.close()
            else:
                return sock
        raise Refused("unreachable", failure or "no time left to connect")


class _Http(_Checked, urllib3.connection.HTTPConnection):
    pass


class _Https(_Checked, urllib3.connection.HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


class _Adapter(HTTPAdapter):
    """Lets requests use the connections above."""

    def __init__(self, connections: int, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        super().__init__(pool_connections=4 * connections, pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": functools.partial(_HttpPool, allow_private=self._allow_private),
            "https": functools.partial(_HttpsPool, allow_private=self._allow_private),
        }


class _NoCookies(RequestsCookieJar):
    """Takes no cookie and sends none."""

    def set_cookie(self, *args: Any, **kwargs: Any) -> None:
        """Forgets it."""


class _Session(requests.Session):
    """Leaves redirects to its user: requests would read a redirect's body, however long it is."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Sees no redirect."""


def open_session(
    headers: Mapping[str, str], *, connections: int, allow_private: bool
) -> requests.Session:
    """Returns a session for strangers' servers; safe to share between threads.

    The timeout of a request is the time for all of its answer. `Refused` (private_address, dns,
    unreachable) is raised where no connection is made.

    Args:
        headers: Sent with each request.
        connections: As many are kept open to one host.
        allow_private: Whether addresses that are not public may be connected to.
    """
    session = _Session()
    session.trust_env = False  # no proxy, no netrc
    session.cookies = _NoCookies()
    session.headers = requests.structures.CaseInsensitiveDict(headers)
    adapter = _Adapter(connections, allow_private=allow_private)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session
