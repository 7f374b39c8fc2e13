"""The network of a client: what limits by address count, and whether it is this host."""

import ipaddress

PREFIX = 64
"""Bits of an IPv6 network: each host of it has as many addresses as it likes."""


def literal(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is, one of IPv4 on an IPv6 socket as IPv4; None for any other
    text."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def network_of(address: str) -> str:
    """An address of IPv4, or the network of one of IPv6. Any other text is returned unchanged."""
    if ":" not in address:
        return address
    found = literal(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((found, PREFIX), strict=False))
    return str(found or address)


def is_loopback(address: str) -> bool:
    """Whether an address never leaves this host, also one of IPv4 on an IPv6 socket. No name
    does."""
    found = literal(address)
    return found is not None and found.is_loopback


def is_this_host(host: str) -> bool:
    """Whether a host, without brackets and port, is `localhost` or a loopback address."""
    return host.lower() == "localhost" or is_loopback(host)
