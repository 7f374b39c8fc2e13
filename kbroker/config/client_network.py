"""The network of a client: what limits by address count, and whether it is this host."""

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


def is_loopback(address: str) -> bool:
    """Whether an address never leaves this host, also one of IPv4 on an IPv6 socket. No name
    does."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def is_this_host(host: str) -> bool:
    """Whether a host, without brackets and port, is `localhost` or a loopback address."""
    return host.lower() == "localhost" or is_loopback(host)
