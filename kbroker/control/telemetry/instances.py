"""Client instances: the metrics that a client should push, and the time of its last request. Their
number is bounded as in Kafka's cache."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from kbroker.config.client_metrics import CLIENT_METRICS, ClientMetricsConfig
from kbroker.protocol.crc32c import crc32c
from kbroker.protocol.errors import ErrorCode

MAX_INSTANCES: Final = 16_384
EXPIRY_MS: Final = 60_000
INTERVALS: Final = 3
"""An instance that is silent for this number of its intervals, and for EXPIRY_MS, is forgotten."""
SWEEP_MS: Final = 5_000
ALL: Final = "*"
NEVER: Final = -(1 << 62)


class ClientSubscription(Struct, frozen=True):
    """The union of the subscriptions that match a client. metrics: prefixes, sorted."""

    metrics: tuple[str, ...]
    interval_ms: int

    @classmethod
    def of(
        cls, subscriptions: Mapping[str, ClientMetricsConfig], client: Mapping[str, str]
    ) -> "ClientSubscription":
        """All metrics that any of them names, as often as the most frequent."""
        names: set[str] = set()
        interval = CLIENT_METRICS["interval.ms"].default_value()
        assert isinstance(interval, int)
        for subscription in subscriptions.values():
            if subscription.matches(client):
                names.update(subscription.metrics)
                interval = min(interval, subscription.interval_ms)
        return cls((ALL,) if ALL in names else tuple(sorted(names)), interval)

    def subscription_id(self, instance_id: bytes) -> int:
        """As Kafka computes it: a checksum of the subscription, mixed with the client's id."""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}".encode()
        mixed = crc32c(text)
        for start in range(0, 16, 4):
            mixed ^= int.from_bytes(instance_id[start : start + 4])
        return mixed - (1 << 32) if mixed >= 1 << 31 else mixed


@dataclass(slots=True)
class ClientInstance:
    """One client. client: its attributes by the names that `match` has. version: of the
    subscriptions."""

    instance_id: bytes
    client: Mapping[str, str]
    connection_id: int
    subscription: ClientSubscription
    version: int
    subscription_id: int = field(init=False)
    last_get_ms: int = NEVER
    last_push_ms: int = NEVER
    terminating: bool = False
    last_error: int = ErrorCode.NONE
    expires_ms: int = 0

    def __post_init__(self) -> None:
        self.subscription_id = self.subscription.subscription_id(self.instance_id)

    def may_get(self, now_ms: int) -> bool:
        """Whether its interval has passed since it last came; then it has come now."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.subscription.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether its interval has passed, or it has just got its subscription: clients spread
        their first push."""
        waited = now_ms - self.last_push_ms >= self.subscription.interval_ms
        if self.last_get_ms <= self.last_push_ms and not waited:
            return False
        self.last_push_ms = now_ms
        return True


class Instances:
    """Runs in: control. Owner: the telemetry service. on_gone(instance id): it is forgotten."""

    def __init__(self, on_gone: Callable[[bytes], None]) -> None:
        self._on_gone = on_gone
        self._by_id: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._by_connection: dict[int, bytes] = {}
        self._swept_ms = NEVER

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, instance_id: bytes) -> ClientInstance | None:
        """The instance, which is now the last that was used."""
        found = self._by_id.get(instance_id)
        if found is not None:
            self._by_id.move_to_end(instance_id)
        return found

    def put(self, instance: ClientInstance) -> None:
        """Add an instance, or replace it by one with other subscriptions. The table is bounded: the
        instance that was used longest ago is removed."""
        earlier = self._by_id.pop(instance.instance_id, None)
        if earlier is not None:
            self._drop(earlier)
        self.closed(instance.connection_id)  # a connection has one client
        if len(self._by_id) >= MAX_INSTANCES:
            self.remove(next(iter(self._by_id)))
        self._by_id[instance.instance_id] = instance
        self._by_connection[instance.connection_id] = instance.instance_id

    def remove(self, instance_id: bytes) -> None:
        """Forget an instance, if it is known."""
        instance = self._by_id.pop(instance_id, None)
        if instance is not None:
            self._drop(instance)
            self._on_gone(instance_id)

    def closed(self, connection_id: int) -> None:
        """The client's connection is no more."""
        instance_id = self._by_connection.get(connection_id)
        if instance_id is not None:
            self.remove(instance_id)

    def used(self, instance: ClientInstance, now_ms: int) -> None:
        """An instance has sent a request."""
        instance.expires_ms = now_ms + max(EXPIRY_MS, INTERVALS * instance.subscription.interval_ms)

    def sweep(self, now_ms: int) -> None:
        """Forget instances that have been silent for too long; checks every SWEEP_MS."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for instance_id in [key for key, one in self._by_id.items() if one.expires_ms <= now_ms]:
            self.remove(instance_id)

    def _drop(self, instance: ClientInstance) -> None:
        if self._by_connection.get(instance.connection_id) == instance.instance_id:
            del self._by_connection[instance.connection_id]
