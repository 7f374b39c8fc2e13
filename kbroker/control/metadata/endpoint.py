"""The advertised address of a listener."""

import socket
from dataclasses import replace

from kbroker.config.listeners import Endpoint

ANY = ("", "0.0.0.0", "::")


def advertised_endpoint(endpoint: Endpoint, bound_port: int) -> Endpoint:
    """The advertised address with its gaps filled: the bound port for port 0, this host's name for
    an empty host."""
    host = socket.getfqdn() if endpoint.host in ANY else endpoint.host
    return replace(endpoint, host=host, port=endpoint.port or bound_port)
