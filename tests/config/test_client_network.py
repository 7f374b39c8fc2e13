"""Limits by address count an IPv6 network as one client; addresses of this host."""

import pytest

from kbroker.config.client_network import is_loopback, is_this_host, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("a:b", "a:b"),
    ],
)
def test_addresses_of_an_ipv6_network_are_one(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.0.1", "::1", "0:0:0:0:0:0:0:1", "::1%lo", "::ffff:127.0.0.1"]
)
def test_loopback_addresses_never_leave_this_host(address: str) -> None:
    assert is_loopback(address)
    assert is_this_host(address)


@pytest.mark.parametrize(
    "text",
    ["", "0.0.0.0", "::", "::2", "10.0.0.1", "::ffff:10.0.0.1", "127.evil.example", "localhost.evil.example",
     "127.0.0.1:9092", "[::1]", "127.1", "2130706433"],
)  # fmt: skip
def test_other_addresses_and_names_are_of_other_hosts(text: str) -> None:
    """Nor is a text with a port or brackets: its reader separates them."""
    assert not is_loopback(text)
    assert not is_this_host(text)


def test_the_name_of_this_host_is_no_address() -> None:
    for name in ("localhost", "LOCALHOST"):
        assert is_this_host(name)
        assert not is_loopback(name)
