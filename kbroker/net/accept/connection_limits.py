"""Connection limits: max.connections, limits per listener and per address, and the rate of new
connections, which a listener may have besides the broker's.

Kafka's ConnectionQuotas: at max.connections the listener stops accepting; at the limit of an
address the new connection is closed. Runs in: acceptor. Pure but for the clock.
"""

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import literal
from kbroker.ipc.rate_limit import TokenBucket

UNLIMITED = (1 << 31) - 1
RATE = "max.connection.creation.rate"
PER_IP_OVERRIDES = "max.connections.per.ip.overrides"


class ConnectionLimits:
    """Counts by listener and address. clock: seconds, monotonic."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_host: Counter[str] = Counter()
        rate = config.get_int(RATE)
        self._new = TokenBucket(rate, rate, clock())
        self._new_of_listener: dict[str, TokenBucket] = {}  # those with a rate of their own
        self._static = config.get_str(PER_IP_OVERRIDES)
        self._of_static = parse_overrides(self._static)
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Set new limits, which apply from the next connection on; open connections stay. Only the
        first ones may have host names: later ones have addresses (acceptor_updates.py)."""
        self._max = config.get_int("max.connections")
        limits = {
            each.listener: config.of_listener(each.listener, "max.connections") for each in config.listeners
        }
        self._of_listener = {name: limit for name, limit in limits.items() if isinstance(limit, int)}
        self._per_host = config.get_int("max.connections.per.ip")
        text = config.get_str(PER_IP_OVERRIDES)
        self._overrides = self._of_static if text == self._static else parse_overrides(text, resolve=False)
        self._new.capacity = self._new.per_second = config.get_int(RATE)
        known, self._new_of_listener = self._new_of_listener, {}
        for each in config.listeners:
            rate = config.of_listener(each.listener, RATE)
            if isinstance(rate, int) and config.is_set_for_listener(each.listener, RATE):
                bucket = known.get(each.listener) or TokenBucket(rate, rate, self._clock())
                bucket.capacity = bucket.per_second = rate
                self._new_of_listener[each.listener] = bucket

    def may_accept(self, listener: str) -> bool:
        """Whether the listener may take a connection now; a later call may return True."""
        if self._total >= self._max:
            return False
        if self._by_listener[listener] >= self._of_listener.get(listener, UNLIMITED):
            return False
        return all(
            bucket.per_second == UNLIMITED or bucket.refill(self._clock()) >= 1
            for bucket in self._new_on(listener)
        )

    def refusal(self, host: str) -> str:
        """The reason to close a connection from this address at once; empty when it may stay."""
        limit = self._overrides.get(host, self._per_host)
        if self._by_host[host] < limit:
            return ""
        return f"too many connections from {host} (maximum = {limit})"

    def opened(self, listener: str, host: str) -> None:
        """Count a connection."""
        self._total += 1
        self._by_listener[listener] += 1
        self._by_host[host] += 1
        for bucket in self._new_on(listener):
            bucket.take()

    def _new_on(self, listener: str) -> tuple[TokenBucket, ...]:
        """The buckets from which a new connection takes: the broker's and the listener's."""
        own = self._new_of_listener.get(listener)
        return (self._new,) if own is None else (self._new, own)

    def closed(self, listener: str, host: str) -> None:
        """Stop counting a connection."""
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def parse_overrides(text: str, resolve: bool = True) -> dict[str, int]:
    """Parse host:count pairs. resolve: a host name is replaced by its addresses, which may take
    seconds."""
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        host = host.strip().strip("[]")
        address = literal(host)
        addresses = {host if address is None else str(address)}
        if resolve and address is None:
            with suppress(OSError, UnicodeError):  # of a name such as a..b
                addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        found.update(dict.fromkeys(addresses, int(count)))
    return found
