"""The listening sockets of a broker's listeners. It knows no kernel: a start uses it before it
compiles them, too."""

import errno
import socket
from collections.abc import Iterator

from msgspec.structs import replace

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.config.sites import sites_of

ANY_OF_IPV6 = "::"
"""All addresses of a host, those of IPv4, too, as in Java."""
NO_NAME = "not a valid host name"


def endpoints(config: BrokerConfig) -> Iterator[tuple[int, Endpoint, Endpoint]]:
    """(site number, listener, endpoint to bind) of each replica site and listener. Each further
    site has the next port."""
    for site in sites_of(config):
        for endpoint in config.listeners:
            yield site.number, endpoint, replace(endpoint, port=endpoint.port and endpoint.port + site.number)


def is_alone(config: BrokerConfig, endpoint: Endpoint) -> bool:
    """Whether no other listener has the port of this one: one of IPv4 and one of IPv6 may share
    it."""
    return not endpoint.port or sum(each.port == endpoint.port for each in config.listeners) == 1


def listen(endpoint: Endpoint, backlog: int, alone: bool = True) -> socket.socket:
    """Listen on an endpoint. alone: its port is that of no other one. OSError names it."""
    try:
        family, host = _address(endpoint.host)
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _named(error, endpoint) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            takes_ipv4 = not endpoint.host or (alone and host == ANY_OF_IPV6)
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not takes_ipv4)
        listening.bind((host, endpoint.port))
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise _named(error, endpoint) from error
    return listening


def _address(host: str) -> tuple[socket.AddressFamily, str]:
    """The family and the address of a host; an empty one means all addresses. A name with addresses
    of both families stands for one of IPv4, as in Java. Raises OSError."""
    if not host:
        return socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET, ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:  # of a name such as a..b
        raise OSError(errno.EINVAL, NO_NAME) from None
    family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, str(address[0])


def _named(error: OSError, endpoint: Endpoint) -> OSError:
    reason = error.strerror or str(error)
    if error.errno == errno.EACCES:  # of ports below net.ipv4.ip_unprivileged_port_start
        reason += "; a port below 1024 needs CAP_NET_BIND_SERVICE: set a higher one"
    return OSError(error.errno, f"{endpoint}: {reason}")
