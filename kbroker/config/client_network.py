"""The network of a client: what limits by address count."""

import ipaddress

PREFIX = 64
"""Bits of an IPv6 network: each host of it has as many addresses as it likes."""


def network_of(address: str) -> str:
    """An address of IPv4, or the network of one of IPv6. Any other text is returned unchanged."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped
    return str(mapped or ipaddress.IPv6Network((found, PREFIX), strict=False))
