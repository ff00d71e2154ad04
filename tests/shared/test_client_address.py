from ipaddress import ip_network

import pytest

from nexarch.client_address import client_address

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "expected"),
    [
        ("198.51.100.7", [], "198.51.100.7"),
        ("198.51.100.7", ["203.0.113.9"], "198.51.100.7"),  # who is no proxy of ours may say what it likes
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),  # the client's own claim stands to the left
        ("10.0.0.1", ["1.2.3.4", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.9, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("fd00::1%eth0", ["2001:db8::5"], "2001:db8::5"),
        (None, ["203.0.113.9"], None),
        ("unknown", ["203.0.113.9"], None),
    ],
)
def test_the_address_is_the_nearest_that_is_no_trusted_proxy(
    peer: str | None, forwarded_for: list[str], expected: str | None
) -> None:
    assert client_address(peer, forwarded_for, TRUSTED) == expected
