"""The errors that would end a start, found before the kernels are compiled: log dirs and addresses
in use.

Runs in: acceptor, before anything is forked.
"""

from kbroker.config.broker import BrokerConfig
from kbroker.net.accept.listening import endpoints, is_alone, listen
from kbroker.supervisor.http_listeners import HttpListeners
from kbroker.supervisor.log_dirs import check_usable
from kbroker.supervisor.stored_settings import with_stored_settings


def check(config: BrokerConfig) -> None:
    """Take everything that the start will take, and release it. Raises LogDirsUnusable, or OSError
    with the address."""
    check_usable(config.log_dirs)
    config = with_stored_settings(config)
    http, opened = HttpListeners(config), []
    try:
        for _, endpoint, at in endpoints(config):
            opened.append(listen(at, 1, is_alone(config, endpoint)))
        http.open_required()
    finally:
        http.close()
        for each in opened:
            each.close()
