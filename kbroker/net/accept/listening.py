"""The listening sockets of a broker's listeners. It knows no kernel: a start uses it before it
compiles them, too."""

import socket
from collections.abc import Iterator

from msgspec.structs import replace

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.config.sites import sites_of


def endpoints(config: BrokerConfig) -> Iterator[tuple[int, Endpoint, Endpoint]]:
    """For each replica site and listener: the site's number, the listener, and the endpoint to
    bind. Each further site has the next port."""
    for site in sites_of(config):
        for endpoint in config.listeners:
            yield site.number, endpoint, replace(endpoint, port=endpoint.port and endpoint.port + site.number)


def listen(endpoint: Endpoint, backlog: int) -> socket.socket:
    """Listen on an endpoint. OSError names it."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    if not endpoint.host and socket.has_dualstack_ipv6():
        family = socket.AF_INET6
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not endpoint.host else 1)
        host = endpoint.host
        if host:
            host = str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0])
        listening.bind((host, endpoint.port))
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"{endpoint}: {error.strerror or error}") from error
    return listening
