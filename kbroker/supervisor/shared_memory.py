"""The size of the memory that the processes share: it follows from the settings. Runs in:
acceptor."""

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.ipc.shared import Shared, Sizes
from kbroker.supervisor.roles import network_count, worker_count

SIZES = (
    "kbroker.arena.bytes", "kbroker.max.partitions", "kbroker.ring.entries", "quota.window.num",
    "num.network.threads", "num.io.threads",
)  # fmt: skip
"""Settings that decide how much memory the processes share."""


def shared_memory(config: BrokerConfig) -> Shared:
    """The memory that all processes share. Raises ConfigError when this host has no room for it."""
    try:
        return Shared(_sizes(config))
    except (OSError, OverflowError) as error:
        sizes = ", ".join(f"{name}={config.get_int(name)}" for name in SIZES)
        raise ConfigError(
            f"the shared memory cannot be allocated ({error}); its size follows from {sizes}"
        ) from None


def _sizes(config: BrokerConfig) -> Sizes:
    return Sizes(
        clients=network_count(config) + 1,
        workers=worker_count(config),
        max_partitions=config.get_int("kbroker.max.partitions"),
        ring_entries=config.get_int("kbroker.ring.entries"),
        arena_bytes=config.get_int("kbroker.arena.bytes"),
        log_dirs=len(config.log_dirs),
        quota_samples=config.get_int("quota.window.num"),
    )
