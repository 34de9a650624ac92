from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from builder.transport import is_public, may_be_public, retry_after


@pytest.mark.parametrize(
    "address",
    """127.0.0.1 127.8.8.8 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
    169.254.0.1 100.64.0.1 100.100.100.200 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.9
    224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16 192.88.99.1
    :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 fe80::1 fe80::1%eth0
    fec0::1 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 64:ff9b::7f00:1
    64:ff9b::a9fe:a9fe 64:ff9b:1::1 2001:0:7f00:1:: 100::1 localhost 1.2.3 nonsense""".split(),
)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    """8.8.8.8 1.1.1.1 93.184.216.34 207.241.224.2 172.32.0.1 100.128.0.1 2606:2800:220:1::1
    2a00:1450:4001::200e ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1""".split(),
)
def test_addresses_that_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("news.example", True),
        ("8.8.8.8", True),
        ("[2606:2800:220:1::1]", True),
        ("127.0.0.1", False),
        ("[::1]", False),
        ("169.254.169.254", False),
        ("localhost", False),
        ("router", False),
        ("a.localhost", False),
        ("printer.local", False),
        ("metadata.google.internal", False),
    ],
)
def test_hosts_that_may_be_public(host, expected):
    assert may_be_public(host) == expected


@pytest.mark.parametrize("naive", [False, True])
def test_retry_after_as_a_date(naive):
    later = datetime.now(UTC) + timedelta(seconds=90)
    value = format_datetime(later.replace(tzinfo=None) if naive else later)
    assert 85 < retry_after(value) <= 90


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 5 ", 5.0),
        ("0", 0.0),
        ("Mon, 05 Jan 2015 10:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("9" * 40, None),
    ],
)
def test_retry_after(value, seconds):
    assert retry_after(value) == seconds
