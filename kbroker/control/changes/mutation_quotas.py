"""controller_mutation_rate: how many partitions a client may create and delete in a second
(KIP-599).

Kafka's TokenBucket: credits grow with the rate up to (samples x window), and all credits may be
spent at once; below zero every request is refused. Clients that do not know
THROTTLING_QUOTA_EXCEEDED are throttled instead.
"""

import time

from kbroker.config.client_quotas import CONTROLLER_MUTATION_RATE, Bound
from kbroker.config.principals import kept_name, name_of
from kbroker.control.broker import Broker
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.messages import ClientRequest
from kbroker.ipc.rate_limit import TokenBucket
from kbroker.ipc.sensors import Sensors, sensor_of
from kbroker.protocol.errors import ErrorCode, KafkaError

EXCEEDED = "The throttling quota has been exceeded."
REMEMBERED = 10_000
"""Buckets; beyond them those that owe nothing are dropped, and begin full again. If most owe, the
older ones of them are dropped, too: a client may come again and again by another client id."""


class MutationQuotas:
    """Buckets by the clients that share them. Runs in: control. Owner: Services."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        samples = config.get_int("controller.quota.window.num")
        self._broker = broker
        self._seconds = samples * config.get_int("controller.quota.window.size.seconds")
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        window_ms = config.get_int("quota.window.size.seconds") * 1000
        self._sensors = Sensors(broker.shared, broker.shared.control_client, window_ms)

    def of_client(self, client: ClientRequest, strict_from: int) -> "MutationQuota":
        """The quota of a request; from this version on it may be refused, older versions are only
        throttled."""
        user = name_of(client.principal)
        bound = self._broker.quotas.bound(CONTROLLER_MUTATION_RATE, user, client.client_id or "")
        return MutationQuota(self, bound, client.api_version >= strict_from)

    def bucket(self, bound: Bound, now_s: float) -> TokenBucket:
        """The bucket of a quota, with its current credits."""
        key = (kept_name(bound.user), kept_name(bound.client_id))
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= REMEMBERED:
                self._forget(now_s)
            bucket = self._buckets[key] = TokenBucket(bound.limit * self._seconds, bound.limit, now_s)
        bucket.per_second = bound.limit
        bucket.capacity = bound.limit * self._seconds
        bucket.refill(now_s)
        return bucket

    def _forget(self, now_s: float) -> None:
        debts = [(key, bucket) for key, bucket in self._buckets.items() if bucket.refill(now_s) < 0]
        self._buckets = dict(debts[max(0, len(debts) - REMEMBERED // 2) :])

    def used(self, bound: Bound, partitions: int) -> None:
        """Count allowed mutations, for /metrics."""
        sensor = sensor_of(CONTROLLER_MUTATION_RATE, bound)
        if sensor is not None:
            self._sensors.add(sensor, partitions, monotonic_ms())


class MutationQuota:
    """The quota of one request."""

    def __init__(self, quotas: MutationQuotas, bound: Bound | None, strict: bool) -> None:
        self._quotas = quotas
        self._bound = bound
        self._strict = strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises THROTTLING_QUOTA_EXCEEDED if the
        quota is strict."""
        if self._bound is None:
            return
        bucket = self._quotas.bucket(self._bound, time.monotonic())
        if not self._strict or bucket.tokens >= 0:
            bucket.take(partitions)
            self._quotas.used(self._bound, partitions)
            if self._strict:
                return
        if bucket.tokens < 0:
            self.throttle_ms = bucket.wait_ms()
            if self._strict:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
