"""The http process: answers scrapes from shared memory and serves the console. Kafka clients do not
depend on it, so it starts when the first client connects.

Runs in: http. Modules that only this process needs are imported after the fork, to save memory in
the others.
"""

import os
import threading
import time
from typing import TYPE_CHECKING

from kbroker.ipc.child import ChildContext, on_stop
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.messages import Hello

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbroker.http.console.live import Live
    from kbroker.http.console.service import Console
    from kbroker.http.console.tuner import Page
    from kbroker.http.control_view import ControlView
    from kbroker.http.health import Health
    from kbroker.http.host_limits import HostLimits
    from kbroker.http.registry.server import Registry
    from kbroker.http.time_to_full import TimeToFull
    from kbroker.http.tls import HttpTls

REFRESH_S = 5.0


def main(context: ChildContext) -> None:
    """Entry of the role "http": serve until the parent asks for a stop."""
    from kbroker.http.basic_logins import metrics_logins
    from kbroker.http.collector import BrokerCollector
    from kbroker.http.control_view import INFORMED_S, ControlView
    from kbroker.http.health import Health
    from kbroker.http.page_cache import PageCache
    from kbroker.http.server import MetricsServer
    from kbroker.http.tls import HttpTls

    listener = context.http_listener
    if listener is None:
        raise RuntimeError("the http process was given no listening socket")
    stop = threading.Event()
    on_stop(lambda *_: stop.set())
    acceptor = os.getppid()
    view = ControlView(context.control_sockets.connector, Hello("http", context.index, context.epoch))
    view.start()
    health = Health(context.shared, view, acceptor)
    page_cache = PageCache(context.shared, context.config.get_int("kbroker.metrics.partitions.max"))
    collector = BrokerCollector(context, view, health, page_cache, acceptor)
    page = lambda names: collector.text(names=names).decode()  # noqa: E731
    tls = HttpTls.of(context.config)
    registry = _serve_registry(context, view, tls)
    console, live = _console(
        context, view, health, acceptor, page, registry, collector.limits, collector.forecasts
    )
    view.informed.wait(INFORMED_S)
    server = MetricsServer(listener, collector, health, console, tls, metrics_logins(context, view))
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    line = context.shared.processes[context.process]
    line[ProcessLine.READY] = context.epoch
    while not stop.wait(REFRESH_S):
        page_cache.refresh(view.directory, collector.progress.lagging_folders)
        collector.progress.refresh(view.directory, view.groups)
        if tls is not None:
            tls.reload_changed()
        line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns()
    server.shutdown()
    if live is not None:
        live.close()
    view.close()


def _serve_registry(context: ChildContext, view: "ControlView", tls: "HttpTls | None") -> "Registry | None":
    """Start the schema registry, if it is configured."""
    listener = context.registry_listener
    if listener is None:
        return None
    from kbroker.http.registry.server import RegistryServer, registry_of

    found = registry_of(context, view, listener.getsockname()[0])
    if found is not None:
        server = RegistryServer(listener, found, tls)
        threading.Thread(target=server.serve_forever, name="registry", daemon=True).start()
    return found


def _console(
    context: ChildContext,
    view: "ControlView",
    health: "Health",
    acceptor: int,
    page: "Page",
    registry: "Registry | None",
    limits: "HostLimits",
    forecasts: "Mapping[str, TimeToFull]",
) -> "tuple[Console | None, Live | None]":
    """The console, if it is enabled and may be served on this address."""
    if not context.config.get_bool("kbroker.console.enable"):
        return None, None
    from kbroker.http.console.listener import Access
    from kbroker.http.console.live import Live
    from kbroker.http.console.readings import Reader
    from kbroker.http.console.service import Console
    from kbroker.http.console.setup import Setup
    from kbroker.http.console.space import Space
    from kbroker.http.console.static_files import load
    from kbroker.ipc.log_dir_errors import LogDirErrors

    space = Space(LogDirErrors(context.config.log_dirs, context.shared), forecasts)
    live = Live(
        context.shared, view, health, Reader(context.shared, acceptor, context.log_dirs, limits), space
    )
    listener = context.http_listener
    host = listener.getsockname()[0] if listener is not None else ""
    schemas = None
    if registry is not None:
        from kbroker.http.registry.decoder import SchemaDecoder

        schemas = SchemaDecoder(registry.topic)
    setup = Setup(context, view, live, host, page, schemas)
    if setup.listener.access is Access.CLOSED:
        return None, None  # the acceptor has logged the reason
    live.start()
    return Console(setup, load()), live
