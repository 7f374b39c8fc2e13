"""The http process: answers scrapes from shared memory. It owns nothing that a client of the broker needs.

Runs in: http. Imports that only it needs happen after the fork, so that no other process carries them.
"""

import logging
import os
import signal
import threading
import time

from kbroker.ipc import layout
from kbroker.ipc.child import ChildContext
from kbroker.ipc.messages import Hello

log = logging.getLogger(__name__)

LOOK_S = 5.0


def main(context: ChildContext) -> None:
    """Entry of the role "http": serve until SIGTERM."""
    from kbroker.http.collector import BrokerCollector
    from kbroker.http.control_view import ControlView
    from kbroker.http.health import Health
    from kbroker.http.page_cache import PageCache
    from kbroker.http.server import MetricsServer

    listener = context.http_listener
    if listener is None:
        raise RuntimeError("the http process was given no listening socket")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    acceptor = os.getppid()
    view = ControlView(context.ways.connector, Hello("http", context.index, context.epoch))
    view.start()
    health = Health(context.shared, view, acceptor)
    page_cache = PageCache()
    collector = BrokerCollector(context, view, health, page_cache, acceptor)
    server = MetricsServer(listener, collector, health)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    line = context.shared.processes[context.process]
    line[layout.PROCESS_READY] = context.epoch
    while not stop.wait(LOOK_S):
        page_cache.look(view.directory)
        line[layout.PROCESS_HEARTBEAT_NS] = time.monotonic_ns()
    server.shutdown()
    view.close()
