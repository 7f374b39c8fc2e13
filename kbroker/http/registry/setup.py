"""The registry's objects, created once from the context of the http process."""

import importlib.util
import logging
import threading

from kbroker.config.sites import sites_of
from kbroker.http.console.caller import AT_A_TIME, Caller
from kbroker.http.console.listener import Access, listener_of
from kbroker.http.console.scram_client import ScramClient
from kbroker.http.console.setup import own_listener
from kbroker.http.registry.formats import EXTRA
from kbroker.http.registry.server import Login, Registry
from kbroker.ipc.child import ChildContext

log = logging.getLogger(__name__)

NEEDED = ("avro", "grpc_tools", "jsonschema")


def registry(context: ChildContext, host: str) -> Registry | None:
    """The registry; None if no listener accepts the http process as a client."""
    listener = listener_of(host, context.config)
    if listener.access is Access.CLOSED:
        log.error("the schema registry is not served: %s", listener.why)
        return None
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        log.warning("the schema registry lacks %s: pip install '%s'", ", ".join(missing), EXTRA)
    tls = own_listener() if listener.tls else None
    nodes = tuple(site.node_id for site in sites_of(context.config))
    turns = threading.Semaphore(AT_A_TIME)

    def caller(login: Login | None) -> Caller:
        client = ScramClient(listener.mechanism, *login) if login else None
        return Caller(lambda site: listener.address(context.ports, site), nodes, tls, turns, client)

    return Registry(caller, context.cluster_id, listener.access is Access.LOGIN)
