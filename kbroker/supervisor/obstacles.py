"""What would end a start, found before the kernels are compiled: log dirs and addresses in use.

Runs in: acceptor, before anything is forked.
"""

from kbroker.config.broker import BrokerConfig
from kbroker.net.accept.listening import endpoints, listen
from kbroker.supervisor import http_listener
from kbroker.supervisor.http_listener import HTTP_LISTEN, REGISTRY_LISTEN
from kbroker.supervisor.log_dirs import check_usable
from kbroker.supervisor.stored_settings import with_stored_settings


def check(config: BrokerConfig) -> None:
    """Take everything that the start will take, and release it. Raises LogDirsUnusable, or OSError
    with the address."""
    check_usable(config.log_dirs)
    config = with_stored_settings(config)
    opened = []
    try:
        for _, _, endpoint in endpoints(config):
            opened.append(listen(endpoint, 1))
        if HTTP_LISTEN in config.static:
            address = config.get_optional_str(HTTP_LISTEN) or ""
            opened += filter(None, [http_listener.listen(address)])
        registry = config.get_optional_str(REGISTRY_LISTEN) or ""
        opened += filter(None, [http_listener.listen(registry, REGISTRY_LISTEN)])
    finally:
        for each in opened:
            each.close()
