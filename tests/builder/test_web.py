import errno
import gzip
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import brotli
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from web_server import Answer

from builder.web import (
    Web,
    WebSettings,
    cache_folder,
    canonical_url,
)
from tiebe.engine import Stage, Wait, run_stage
from tiebe.errors import FetchError, SettingsError, TiebeError
from tiebe.journal import Journal
from tiebe.records import Drop

PAGE = "<html><body><p>The river rose above its banks on Monday.</p></body></html>"


def quick(site, **changes):
    return replace(
        WebSettings(rewrite=site.rewrite, delay=0.0, backoff=0.01, deadline=5.0), **changes
    )


def reason(web, url):
    with pytest.raises(FetchError) as caught:
        web.get(url, block=True)
    assert caught.value.url == canonical_url(url)
    return caught.value.reason


# --- One document ------------------------------------------------------------------------------


def test_a_document_comes_with_all_that_is_known_of_it(site):
    site["https://news.example/a"] = Answer(PAGE, headers={"ETag": '"1"', "Set-Cookie": "a=secret"})
    with Web(quick(site)) as web:
        got = web.get("HTTPS://News.Example:443/a#part", block=True)
    assert got.url == got.final_url == "https://news.example/a"
    assert (got.status, got.body, got.text()) == (200, PAGE.encode(), PAGE)
    assert got.headers["etag"] == '"1"' and "set-cookie" not in got.headers
    assert datetime.now(UTC) - datetime.fromisoformat(got.retrieved) < timedelta(minutes=1)
    assert len(got.sha256) == 64


def test_a_document_is_asked_for_once_by_all_who_want_it(site):
    site["http://news.example/a"] = PAGE
    for _ in range(2):
        with Web(quick(site)) as web:
            assert web.get("http://news.example/a", block=True).body == PAGE.encode()
    assert len(site.asked()) == 1
    [document] = (cache_folder() / "documents").glob("*/*.gz")
    assert gzip.decompress(document.read_bytes()) == PAGE.encode()


def test_a_damaged_cache_is_asked_for_again(site):
    site["http://news.example/a"] = PAGE
    with Web(quick(site)) as web:
        sha256 = web.get("http://news.example/a", block=True).sha256
        path = cache_folder() / "documents" / sha256[:2] / f"{sha256}.gz"
        path.write_bytes(path.read_bytes()[:20])
        assert web.get("http://news.example/a", block=True).body == PAGE.encode()
    assert len(site.asked()) == 2
    (cache_folder() / "index.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(TiebeError, match="delete it"):
        Web(quick(site))


def test_a_disk_that_takes_nothing_ends_the_run_with_one_line(site, monkeypatch):
    site["http://news.example/a"] = PAGE

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Web(quick(site)) as web:
        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(TiebeError, match="No space left") as caught:
            web.get("http://news.example/a", block=True)
    assert not isinstance(caught.value, FetchError)


def test_the_operator_is_named_and_nothing_else_of_theirs_is_sent(site, monkeypatch):
    site["http://news.example/a"] = Answer("", 302, {"Location": "/b", "Set-Cookie": "id=1"})
    site["http://news.example/b"] = PAGE
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    with Web(quick(site, contact="desk@example.org")) as web:
        got = web.get("http://user:password@news.example/a", block=True)
    assert got.url == "http://news.example/a"
    for _, _, headers in site.log:
        assert "desk@example.org" in headers["User-Agent"] and "TiEBe/" in headers["User-Agent"]
        assert not {"Cookie", "Authorization", "Referer"} & set(headers)


# --- Redirects and failures --------------------------------------------------------------------


def test_redirects_are_followed_over_hosts_and_remembered(site):
    site["http://news.example/a"] = Answer("", 301, {"Location": "//www.news.example/ä?b=ü#c"})
    site["http://www.news.example/%C3%A4?b=%C3%BC"] = Answer("", 302, {"Location": "c"})
    site["http://www.news.example/c"] = PAGE
    with Web(quick(site)) as web:
        for _ in range(2):
            got = web.get("http://news.example/a", block=True)
            assert got.final_url == "http://www.news.example/c" and got.body == PAGE.encode()
    assert len(site.asked()) == 3


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://news.example/a", "redirect_loop"),
        ("http://127.0.0.1/a", "private_address"),
        ("http://169.254.169.254/latest/meta-data", "private_address"),
        ("http://[::ffff:10.0.0.1]/", "private_address"),
        ("http://localhost/", "private_address"),
        ("http://metadata.google.internal/", "private_address"),
        ("file:///etc/passwd", "bad_url"),
        ("javascript:alert(1)", "bad_url"),
        ("http://[::1/", "bad_url"),
    ],
)
def test_a_redirect_is_checked_like_any_url(site, target, expected):
    site["http://news.example/a"] = Answer("", 302, {"Location": target})
    with Web(quick(site)) as web:
        assert reason(web, "http://news.example/a") == expected
    assert len(site.asked()) == 1


def test_a_long_chain_of_redirects_ends(site):
    for n in range(20):
        site[f"http://news.example/{n}"] = Answer("", 302, {"Location": f"/{n + 1}"})
    with Web(quick(site, max_redirects=5)) as web:
        assert reason(web, "http://news.example/0") == "redirect_loop"
    assert len(site.asked()) == 6


@pytest.mark.parametrize(
    ("status", "expected", "times"),
    [
        (404, "not_found", 1),
        (410, "not_found", 1),
        (403, "forbidden", 1),
        (418, "http_error", 1),
        (304, "http_error", 1),
        (429, "rate_limited", 4),
        (503, "server_error", 4),
    ],
)
def test_a_failure_has_its_reason_and_is_remembered(site, status, expected, times):
    site["http://news.example/a"] = Answer("no", status)
    for _ in range(2):
        with Web(quick(site)) as web:
            with pytest.raises(FetchError) as caught:
                web.get("http://news.example/a", block=True)
            assert (caught.value.reason, caught.value.status) == (expected, status)
    assert len(site.asked()) == times


def test_a_passing_failure_is_tried_again(site):
    site["http://news.example/a"] = [Answer("", 500), Answer("", 429), PAGE]
    with Web(quick(site)) as web:
        assert web.get("http://news.example/a", block=True).body == PAGE.encode()


def test_a_failure_is_not_believed_for_ever(site):
    site["http://news.example/a"] = [Answer("", 404), PAGE]
    with Web(quick(site)) as web:
        assert reason(web, "http://news.example/a") == "not_found"
    month = """update exchanges set row = json_set(row, '$.at', row ->> '$.at' - 31 * 86400)"""
    with closing(sqlite3.connect(cache_folder() / "index.sqlite")) as index:
        index.execute(month)
        index.commit()
    with Web(quick(site)) as web:
        assert web.get("http://news.example/a", block=True).body == PAGE.encode()


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_obeyed_by_the_whole_host(site, as_date):
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    headers = {"Retry-After": until if as_date else "90"}
    site["http://news.example/a"] = Answer("", 429, headers)
    with Web(quick(site)) as web:
        for path in ("a", "b"):
            with pytest.raises(Wait) as caught:
                web.get(f"http://news.example/{path}")
            assert 80 < caught.value.seconds <= 90 and caught.value.owner == "news.example"
    assert site.asked() == ["http://news.example/a"]


def test_a_host_that_wants_to_be_left_alone_for_hours_is_given_up(site):
    site["http://news.example/a"] = Answer("", 503, {"Retry-After": "7200"})
    with Web(quick(site)) as web:
        assert reason(web, "http://news.example/a") == "server_error"
    assert len(site.asked()) == 1


def test_tries_are_counted_over_restarts(site):
    site["http://news.example/a"] = Answer("", 500)
    for n in range(6):
        with Web(quick(site)) as web:
            time.sleep(0.1 if n else 0)
            with pytest.raises(FetchError if n >= 3 else Wait):
                web.get("http://news.example/a")
    assert len(site.asked()) == 4


# --- Hostile servers ---------------------------------------------------------------------------


def endless(handler, status=200, chunk=b"<p>more</p>" * 10_000, **headers):
    handler.send_response(status)
    for name, value in {"Content-Type": "text/html", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    while True:
        handler.wfile.write(chunk)


def endless_redirect(handler):
    endless(handler, 302, Location="/secret")


def endless_chunks(handler):
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    endless(handler, chunk=chunk, Transfer_Encoding="chunked")


def drip(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        for byte in b"X-Slow: yes\r\n":
            handler.wfile.write(bytes([byte]))
            time.sleep(0.05)


def many_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-Many: " + b"y" * 60_000 + b"\r\n")


def ten_gigabytes():
    """A gzip member of 10 GB of zeros in 10 MB: one block, flushed so that it can be repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head, block, 1000


def two_gigabytes():
    packer = brotli.Compressor(quality=1)
    block = bytes(1_000_000)
    return b"".join(packer.process(block) for _ in range(2000)) + packer.finish()


def bomb(handler):
    head, block, times = ten_gigabytes()
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(head)
    for _ in range(times):
        handler.wfile.write(block)
    handler.close_connection = True


def cut(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"<html>")
    handler.close_connection = True


def noise(handler):
    handler.wfile.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    handler.close_connection = True


HOSTILE = {
    "endless": "too_large",
    "endless-chunks": "too_large",
    "endless-redirect": "not_found",
    "announced": "too_large",
    "bomb": "too_large",
    "bomb-in-bomb": "too_large",
    "bomb-unannounced": "too_large",
    "bomb-brotli": "too_large",
    "drip": "timeout",
    "drip-headers": "timeout",
    "many-headers": "cut_off",
    "silent": "timeout",
    "cut": "cut_off",
    "noise": "cut_off",
    "not-gzip": "bad_encoding",
    "image": "content_type",
    "image-as-html": "content_type",
    "empty": "empty",
    "loop": "redirect_loop",
    "loopback": "private_address",
    "metadata": "private_address",
}

FETCH_ALL = """
    import json, resource, sys, time
    from concurrent.futures import ThreadPoolExecutor
    from builder.web import Web, WebSettings
    from tiebe.errors import FetchError
    import resiliparse.parse.encoding
    rewrite, names = sys.argv[1], sys.argv[2:]
    settings = WebSettings(rewrite=rewrite, delay=0, backoff=0.01, deadline=2.0)
    web = Web(settings)
    web.get("http://news.example/warm", block=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def get(name):
        start = time.monotonic()
        try:
            web.get(f"http://{name}.example/", block=True)
        except FetchError as error:
            return name, [error.reason, time.monotonic() - start]

    with ThreadPoolExecutor(3) as pool:
        seen = dict(pool.map(get, names))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seen": seen, "megabytes": (after - before) / 1024}))
"""


def test_hostile_servers_end_within_their_limits(site):
    head, block, _ = ten_gigabytes()
    site["http://news.example/warm"] = PAGE * 10_000
    for name, reply in {
        "endless": endless,
        "endless-chunks": endless_chunks,
        "endless-redirect": endless_redirect,
        "announced": lambda h: (h.send_response(200), h.send_header("Content-Length", "9" * 15),
                                h.end_headers()),
        "bomb": bomb,
        "bomb-in-bomb": Answer(
            gzip.compress(head + block * 900), headers={"Content-Encoding": "gzip, gzip"}
        ),
        "bomb-unannounced": Answer(head + block * 900),
        "bomb-brotli": Answer(two_gigabytes(), headers={"Content-Encoding": "br"}),
        "drip": drip,
        "drip-headers": drip_headers,
        "many-headers": many_headers,
        "silent": Answer(PAGE, delay=20),
        "cut": cut,
        "noise": noise,
        "not-gzip": Answer(PAGE, headers={"Content-Encoding": "gzip"}),
        "image": Answer(b"\x89PNG\r\n\x1a\n\0\0\0", headers={"Content-Type": "image/png"}),
        "image-as-html": Answer(b"\x89PNG\r\n\x1a\n\0\0\0" * 99),
        "empty": Answer(b" \n"),
        "loop": Answer("", 302, {"Location": "http://loop.example/"}),
        "loopback": Answer("", 302, {"Location": f"{site.origin}/secret"}),
        "metadata": Answer("", 302, {"Location": "http://169.254.169.254/latest/"}),
    }.items():  # fmt: skip
        site[f"http://{name}.example/"] = reply
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FETCH_ALL), site.rewrite, *HOSTILE],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert {name: seen[0] for name, seen in result["seen"].items()} == HOSTILE
    # Two tries of two seconds where a try may help; the rest is what a busy machine adds.
    assert max(seconds for _, seconds in result["seen"].values()) < 12
    assert result["megabytes"] < 100
    assert f"{site.origin}/secret" not in site.asked()


def test_gzip_that_no_header_announces_is_read(site):
    site["http://news.example/a"] = Answer(gzip.compress(PAGE.encode()))
    with Web(quick(site)) as web:
        assert web.get("http://news.example/a", block=True).text() == PAGE


def test_a_pdf_is_a_document_whatever_its_type_says(site):
    for n, kind in enumerate(("application/pdf", "text/html", "application/octet-stream")):
        url = f"http://news.example/{n}"
        site[url] = Answer(b"%PDF-1.4\n\0\0 binary", headers={"Content-Type": kind})
        with Web(quick(site)) as web:
            assert web.get(url, block=True).is_pdf


# --- Addresses ---------------------------------------------------------------------------------


@pytest.fixture
def dns(monkeypatch, site):
    """A name server that gives `dns.answers` in turn, and a network where 93.* is this machine."""

    class Names:
        answers: list[list[str]] = []
        asked: list[str] = []
        connected: list[str] = []

    names = Names()
    names.asked, names.connected = [], []
    real = socket.socket.connect

    def getaddrinfo(host, port, *args, **kwargs):
        names.asked.append(host)
        found = names.answers.pop(0) if len(names.answers) > 1 else names.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in found]

    def connect(self, address):
        names.connected.append(address[0])
        host = "127.0.0.1" if address[0].startswith("93.") else address[0]
        real(self, (host, address[1]))

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connect)
    return names


def direct(site, **changes):
    return quick(site, rewrite="", **changes)


def test_a_name_is_looked_up_once_and_that_address_is_connected_to(site, dns):
    """Publicly first, privately ever after: no later answer is used."""
    port = site.server_address[1]
    site[f"{site.origin}/a"] = PAGE
    dns.answers = [["93.184.216.34"], ["127.0.0.1"]]
    with Web(direct(site)) as web:
        got = web.get(f"http://news.example:{port}/a", block=True)
    assert got.body == PAGE.encode()
    assert set(dns.connected) == {"93.184.216.34"}
    assert dns.asked == ["news.example"]
    assert site.log[-1][2]["Host"] == f"news.example:{port}"


def test_a_name_that_turns_private_is_refused_at_the_next_connection(site, dns):
    port = site.server_address[1]
    site[f"{site.origin}/a"] = Answer(PAGE, headers={"Connection": "close"})
    site[f"{site.origin}/robots.txt"] = Answer("", 404, {"Connection": "close"})
    site[f"{site.origin}/secret"] = "the keys"
    dns.answers = [["93.184.216.34"], ["93.184.216.34"], ["127.0.0.1"]]
    with Web(direct(site)) as web:
        web.get(f"http://news.example:{port}/a", block=True)
        assert reason(web, f"http://news.example:{port}/secret") == "private_address"
    assert set(dns.connected) == {"93.184.216.34"}
    assert len(site.asked()) == 1


def test_only_the_public_ones_of_several_addresses_are_used(site, dns):
    port = site.server_address[1]
    site[f"{site.origin}/a"] = PAGE
    dns.answers = [["169.254.169.254", "93.184.216.34", "10.0.0.1"]]
    with Web(direct(site)) as web:
        assert web.get(f"http://news.example:{port}/a", block=True).status == 200
    assert set(dns.connected) == {"93.184.216.34"}


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "localhost"])
def test_this_machine_is_not_asked_in_any_spelling(site, host):
    with Web(direct(site)) as web:
        assert reason(web, f"http://{host}:{site.server_address[1]}/a") == "private_address"
    assert not site.log


def test_allow_private_opens_it(site):
    site[f"{site.origin}/a"] = PAGE
    with Web(direct(site, allow_private=True)) as web:
        assert web.get(f"{site.origin}/a", block=True).body == PAGE.encode()


def test_unknown_names_and_closed_ports_have_their_reasons(site, dns, monkeypatch):
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]
    dns.answers = [["93.184.216.34"]]
    with Web(direct(site)) as web:
        assert reason(web, f"http://closed.example:{port}/") == "unreachable"

        def unknown(*args, **kwargs):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        assert reason(web, "http://gone.example/") == "dns"


def test_tls_names_the_host_and_a_wrong_certificate_is_refused(dns, site):
    hello = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen():
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    hello.append(client.recv(4096))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        dns.answers = [["93.184.216.34"]]
        with Web(direct(site)) as web:
            url = f"https://news.example:{server.getsockname()[1]}/"
            assert reason(web, url) in ("tls", "cut_off")
    assert b"news.example" in hello[0]


# --- Politeness --------------------------------------------------------------------------------


def test_a_host_is_asked_by_one_at_a_time_and_after_its_delay(site, sent):
    urls = [f"http://news{h}.example/{n}" for n in range(4) for h in range(3)]
    for url in urls:
        site[url] = Answer(PAGE, delay=0.02)
    start = time.monotonic()
    with Web(quick(site, delay=0.3)) as web:
        threads = [
            threading.Thread(target=web.get, args=(url,), kwargs={"block": True}) for url in urls
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert time.monotonic() - start < 3.0  # three hosts side by side, not 12 * 0.3 s
    for h in range(3):
        times = [at for url, at in sent if f"//news{h}.example/" in url and "robots" not in url]
        assert len(times) == len(site.times(f"news{h}.example")) == 4
        assert min(b - a for a, b in zip(times, times[1:], strict=False)) > 0.28


def test_a_stage_is_told_to_wait_and_finds_what_it_has_in_the_cache(site):
    site["http://news.example/a"] = site["http://news.example/b"] = PAGE
    with Web(quick(site, delay=5.0)) as web:
        web.get("http://news.example/a")
        with pytest.raises(Wait) as caught:
            web.get("http://news.example/b")
        assert caught.value.owner == "news.example" and 2 < caught.value.seconds <= 5
        assert caught.value.cause is None
        web.get("http://news.example/a")


def test_robots_txt_is_asked_once_and_obeyed(site):
    site["http://news.example/robots.txt"] = "User-agent: *\nDisallow: /*.pdf$\nDisallow: /private/"
    site["http://news.example/a"] = site["http://news.example/private/b"] = PAGE
    for _ in range(2):
        with Web(quick(site)) as web:
            web.get("http://news.example/a", block=True)
            assert reason(web, "http://news.example/private/b") == "robots"
            assert reason(web, "http://news.example/x.pdf") == "robots"
    assert [url for url, _, _ in site.log] == [
        "http://news.example/robots.txt",
        "http://news.example/a",
    ]


def test_rules_for_this_builder_come_before_those_for_all(site):
    site["http://news.example/robots.txt"] = (
        "User-agent: *\nDisallow: /\n\nUser-agent: TiEBe\nAllow: /"
    )
    site["http://news.example/a"] = PAGE
    with Web(quick(site)) as web:
        assert web.get("http://news.example/a", block=True).status == 200


def test_the_crawl_delay_is_obeyed(site):
    site["http://news.example/robots.txt"] = "User-agent: *\nCrawl-delay: 7"
    site["http://news.example/a"] = PAGE
    with Web(quick(site)) as web:
        web.get("http://news.example/a")
        with pytest.raises(Wait) as caught:
            web.get("http://news.example/b")
    assert 4 < caught.value.seconds <= 7


def test_an_absurd_crawl_delay_is_a_refusal(site):
    site["http://news.example/robots.txt"] = "User-agent: *\nCrawl-delay: 100000"
    with Web(quick(site)) as web:
        assert reason(web, "http://news.example/a") == "robots"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ((b"", 404), None),
        ((b"", 403), None),
        ((b"<html>any page</html>", 200), None),
        ((b"\x89PNG\0", 200), None),
        ((b"", 500), "robots_unavailable"),
        ((b"", 429), "robots_unavailable"),
    ],
)
def test_a_robots_txt_that_cannot_be_had(site, reply, expected):
    site["http://news.example/robots.txt"] = Answer(*reply)
    site["http://news.example/a"] = PAGE
    with Web(quick(site)) as web:
        if expected:
            assert reason(web, "http://news.example/a") == expected
        else:
            assert web.get("http://news.example/a", block=True).status == 200


def test_a_redirect_needs_the_leave_of_the_other_host(site):
    site["http://news.example/a"] = Answer("", 302, {"Location": "http://closed.example/a"})
    site["http://closed.example/robots.txt"] = "User-agent: *\nDisallow: /"
    with Web(quick(site)) as web:
        assert reason(web, "http://news.example/a") == "robots"
    assert "http://closed.example/a" not in site.asked()


def test_owners_are_hosts_and_what_has_a_pace_of_its_own():
    settings = WebSettings(delays={"slow.example": 9.0})
    owners = {
        "http://news.example/cdx/": "news.example",
        "https://slow.example/a": "slow.example",
        "https://web.archive.org/about": "web.archive.org",
        "https://web.archive.org/web/2020/http://a.example": "web.archive.org/web",
        "https://web.archive.org/cdx/search/cdx?url=a": "web.archive.org/cdx",
    }
    assert {url: settings.owner(url) for url in owners} == owners
    assert settings.pause("slow.example") == 9.0 and settings.pause("news.example") == 1.0


def test_the_wayback_machine_keeps_below_its_limits():
    settings = WebSettings()
    lookup = settings.owner(canonical_url("https://web.archive.org/cdx/search/cdx?url=a"))
    replay = settings.owner(canonical_url("https://web.archive.org/web/2020id_/http://a.example/"))
    assert 1 / settings.pause(lookup) < 0.4 and 1 / settings.pause(replay) < 8
    assert lookup != replay


def test_hours_count_what_is_still_to_be_asked(site):
    site["http://slow.example/robots.txt"] = "User-agent: *\nCrawl-delay: 36"
    site["http://slow.example/0"] = PAGE
    with Web(quick(site, delay=3.6)) as web:
        web.get("http://slow.example/0")
        urls = [f"http://slow.example/{n}" for n in range(11)]
        urls += [f"http://news.example/{n}" for n in range(10)] * 2 + ["no URL"]
        assert web.hours(urls) == pytest.approx({"slow.example": 0.1, "news.example": 0.01})
        assert list(web.hours(urls)) == ["slow.example", "news.example"]


# --- Refresh -----------------------------------------------------------------------------------


def test_a_refresh_asks_conditionally_and_once(site):
    headers = {"ETag": '"1"', "Last-Modified": "Mon, 05 Jan 2015 10:00:00 GMT"}
    site["http://news.example/a"] = [Answer(PAGE, headers=headers), Answer("", 304)]
    with Web(quick(site)) as web:
        first = web.get("http://news.example/a", block=True)
    later = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    time.sleep(0.3)
    for _ in range(2):
        with Web(quick(site, refresh=later)) as web:
            second = web.get("http://news.example/a", block=True)
    assert (second.body, second.sha256) == (first.body, first.sha256)
    assert len(site.asked()) == 2
    sent = site.log[-1][2]
    assert sent["If-None-Match"] == '"1"' and sent["If-Modified-Since"].startswith("Mon, 05 Jan")


def test_a_refresh_takes_what_changed_and_keeps_what_cannot_be_had_now(site):
    site["http://news.example/a"] = [PAGE, PAGE + "<p>And again.</p>"]
    site["http://news.example/b"] = [PAGE, Answer("", 500)]
    with Web(quick(site)) as web:
        web.get("http://news.example/a", block=True)
        web.get("http://news.example/b", block=True)
    later = (datetime.now(UTC) + timedelta(seconds=0.1)).isoformat()
    time.sleep(0.2)
    with Web(quick(site, refresh=later)) as web:
        assert "And again" in web.get("http://news.example/a", block=True).text()
        assert web.get("http://news.example/b", block=True).text() == PAGE


# --- Killed and resumed ------------------------------------------------------------------------

RUN = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from builder.web import Web, WebSettings
    from tiebe.errors import FetchError
    web = Web(WebSettings(rewrite=sys.argv[1], delay=0.005, backoff=0.01))

    def get(n):
        try:
            web.get(f"http://news{n % 7}.example/{n}", block=True)
        except FetchError:
            pass

    print("ready", flush=True)
    with ThreadPoolExecutor(7) as pool:
        list(pool.map(get, range(210)))
"""


def test_a_killed_run_repeats_no_request_but_those_in_flight(site):
    expected: Counter[str] = Counter()
    for n in range(210):
        url = f"http://news{n % 7}.example/{n}"
        replies = {0: [Answer("", 404)], 1: [Answer("", 500), PAGE], 2: [Answer("", 503)]}
        site[url] = replies.get(n % 10, [PAGE])
        expected[url] = {1: 2, 2: 4}.get(n % 10, 1)
    command = [sys.executable, "-c", textwrap.dedent(RUN), site.rewrite]
    kills = 0
    for asked in (40, 90, 150):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
            while run.poll() is None and len(site.log) < asked:
                time.sleep(0.002)
            if run.poll() is None:
                os.kill(run.pid, signal.SIGKILL)
                kills += 1
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert kills == 3
    seen = Counter(url for url, _, _ in site.log if not url.endswith("robots.txt"))
    assert seen.keys() == expected.keys()
    extra = {url: n - expected[url] for url, n in seen.items() if n > expected[url]}
    assert sum(extra.values()) <= 7 * kills  # one in flight per host
    assert all(seen[url] >= n for url, n in expected.items())


def test_in_an_engine_no_worker_sleeps_for_a_host(site):
    class Cited:
        def __init__(self, url):
            self.id = self.url = url

    urls = [f"http://news{h}.example/{n}" for h in range(6) for n in range(4)]
    for url in urls:
        site[url] = Answer(PAGE, delay=0.01)
    with Web(quick(site, delay=0.4)) as web:

        def run(record):
            web.get(record.url)
            yield Drop("fetch", record.id, "seen")

        stage = Stage("fetch", 1, run, (Drop,), owner=lambda r: web.settings.owner(r.url))
        object.__setattr__(stage, "key", lambda r: zlib.crc32(r.id.encode()).to_bytes(32).hex())
        start = time.monotonic()
        outcome = run_stage(stage, map(Cited, urls), Journal(None), workers=2, progress=False)
    assert outcome.counts()["dropped"] == {"seen": 24}
    assert time.monotonic() - start < 4  # workers that slept would take 24 / 2 * 0.4 = 4.8 s
    assert len(site.asked()) == 24


# --- URLs and settings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("  HTTP://Example.ORG ", "http://example.org/"),
        ("https://example.org:443/a?b=c#d", "https://example.org/a?b=c"),
        ("http://example.org:8080/a", "http://example.org:8080/a"),
        ("http://user:pw@example.org/", "http://example.org/"),
        ("http://bücher.example/ä b?q=ü|%7C", "http://xn--bcher-kva.example/%C3%A4%20b?q=%C3%BC%7C%7C"),
        ("http://example.org/100%", "http://example.org/100%25"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://[2606:2800:220:1::1]/", "http://[2606:2800:220:1::1]/"),
        (
            "https://web.archive.org/web/2020id_/http://a.example/b",
            "https://web.archive.org/web/2020id_/http://a.example/b",
        ),
    ],
)  # fmt: skip
def test_canonical_urls(url, canonical):
    assert canonical_url(url) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org/", "http://", "http:///a", "http://[::1", "//a.example/",
     "http://a b.example/", "http://" + "a" * 300 + ".example/", "http://./", "http://a:99999999/",
     "mailto:a@b.example", "http://example.org/" + "a" * 5000],
)  # fmt: skip
def test_what_is_no_url(url):
    with pytest.raises(FetchError) as caught:
        canonical_url(url)
    assert caught.value.reason == "bad_url"


@given(st.text(max_size=80))
@example("é%zz/../..//?#[]")
@example("a.example:0/")
def test_any_url_is_refused_or_made_canonical_for_good(text):
    try:
        url = canonical_url("http://" + text)
    except FetchError as error:
        assert error.reason == "bad_url"
    else:
        assert url.isascii() and canonical_url(url) == url


@pytest.mark.parametrize(
    "changes",
    [
        {"delay": -1},
        {"workers": 0},
        {"deadline": 0},
        {"archive": "maybe"},
        {"rewrite": "http://127.0.0.1:1/"},
        {"rewrite": "{url}"},
        {"contact": "a@b.example\r\nCookie: x"},
        {"refresh": "yesterday"},
        {"delays": {"slow.example": -1}},
        {"delays": {"https://slow.example": 5}},
        {"delays": {"slow.example/": 5}},
    ],
)
def test_settings_that_cannot_be_used(changes):
    with pytest.raises(SettingsError, match=next(iter(changes))):
        WebSettings(**changes)


def test_the_cache_lies_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TIEBE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("TIEBE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == Path(tmp_path / "xdg" / "tiebe")
