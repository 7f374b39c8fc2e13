"""Limits by address count an IPv6 network as one client."""

import pytest

from kbroker.config.client_network import network_of


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
