"""Tables of a network process, for kernels that are called without one."""

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.shared import Shared, Sizes
from kbroker.net.network_tables import NetworkTables


def new_tables(settings: dict[str, str] | None = None, arena_bytes: int = 64 << 20) -> NetworkTables:
    """The tables of the first of two clients of one IO worker, in separate shared memory."""
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **(settings or {})})
    return NetworkTables(Shared(Sizes(2, 1, 64, 64, arena_bytes)), 0, config)
