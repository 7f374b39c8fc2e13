"""The advertised addresses of listeners, here and at the other replica sites."""

import functools
import logging
import socket

from msgspec.structs import replace

from kbroker.config.listeners import Endpoint
from kbroker.config.sites import port_key, sites_of
from kbroker.ipc.child import ChildContext

ANY = ("", "0.0.0.0", "::")

log = logging.getLogger(__name__)


@functools.cache
def own_name() -> str:
    """This host's name, which clients get for an empty host. It is logged if it has no address
    here: they may have none for it, either."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError) as error:
        log.warning(
            "clients get this host's name %s as the broker's address, but it has no address here (%s): set "
            "advertised.listeners to a name or an address that they can reach",
            name,
            getattr(error, "strerror", error),
        )
    return name


def advertised_endpoint(endpoint: Endpoint, bound_port: int) -> Endpoint:
    """The advertised address with its gaps filled: the bound port for port 0, this host's name for
    an empty host."""
    host = own_name() if endpoint.host in ANY else endpoint.host
    return replace(endpoint, host=host, port=endpoint.port or bound_port)


def site_endpoints(context: ChildContext) -> dict[str, Endpoint]:
    """The advertised endpoints of the replica sites after the first: the same hosts, ports of their
    own."""
    named = {endpoint.listener: endpoint for endpoint in context.config.advertised_listeners}
    found = {}
    for site in sites_of(context.config)[1:]:
        for endpoint in context.config.listeners:
            shown = named.get(endpoint.listener, endpoint)
            shown = replace(shown, port=shown.port and shown.port + site.number)
            key = port_key(endpoint.listener, site.number)
            found[key] = advertised_endpoint(shown, context.ports.get(key, 0))
    return found


def advertised_endpoints(context: ChildContext) -> dict[str, Endpoint]:
    """The advertised endpoints by listener: port 0 and an empty host are replaced by what the
    listener was bound to."""
    named = {endpoint.listener: endpoint for endpoint in context.config.advertised_listeners}
    return {
        endpoint.listener: advertised_endpoint(
            named.get(endpoint.listener, endpoint), context.ports.get(endpoint.listener, 0)
        )
        for endpoint in context.config.listeners
    }
