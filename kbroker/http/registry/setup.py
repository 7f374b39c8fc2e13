"""The registry's objects, created once from the context of the http process."""

import importlib.util
import logging

from kbroker.http.console.caller import callers_of
from kbroker.http.console.listener import Access, listener_of
from kbroker.http.control_view import ControlView
from kbroker.http.registry.formats import EXTRA
from kbroker.http.registry.server import Registry
from kbroker.ipc.child import ChildContext

log = logging.getLogger(__name__)

NEEDED = ("avro", "grpc_tools", "jsonschema")


def registry(context: ChildContext, control: ControlView, host: str) -> Registry | None:
    """The registry; None if no listener accepts the http process as a client."""
    listener = listener_of(host, context.config)
    if listener.access is Access.CLOSED:
        return None  # the acceptor has logged the reason
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        log.warning("the schema registry lacks %s: pip install '%s'", ", ".join(missing), EXTRA)
    callers = callers_of(context, control, listener)
    return Registry(callers, context.cluster_id, listener.access is Access.LOGIN)
