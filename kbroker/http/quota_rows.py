"""Samples of quotas: their use, and throttled requests."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from kbroker.config.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kbroker.http.families import Families
from kbroker.http.recent_readings import RecentReadings
from kbroker.ipc.client_messages import QuotaUse

WINDOW_S: Final = 10.0
RESOURCES: Final = {
    PRODUCER_BYTE_RATE: ("Produce", "kafka_server_quota_byte_rate"),
    CONSUMER_BYTE_RATE: ("Fetch", "kafka_server_quota_byte_rate"),
    REQUEST_PERCENTAGE: ("Request", "kafka_server_quota_request_time"),
    CONTROLLER_MUTATION_RATE: ("ControllerMutation", "kafka_server_quota_mutation_rate"),
}
"""Kafka's type of the metrics of a quota, and the name of the rate."""


class QuotaRows:
    """Runs in: http. Owner: the collector. Control bounds the number of quotas, and the length of
    their texts."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._recent = RecentReadings(clock_s)

    def add(self, families: Families, quotas: Sequence[QuotaUse], left_out: int) -> None:
        """Add every quota. Quotas without clients only have a limit."""
        families.add("kbroker_quotas_left_out", (), left_out)
        rows = {(one.quota, one.user, one.client_id): one for one in quotas}
        for who, one in rows.items():
            families.add("kbroker_quota_limit", who, one.limit)
            if one.used is not None:
                families.add("kbroker_quota_used", who, one.used)
                families.add("kbroker_quota_throttled_requests_total", who, one.throttled_requests)
                families.add("kbroker_quota_throttled_seconds_total", who, one.throttled_ms / 1000)
        if families.kafka:
            self._kafka(families, [one for one in rows.values() if one.used is not None])

    def _kafka(self, families: Families, quotas: Sequence[QuotaUse]) -> None:
        readings = {
            (one.quota, f"{one.user}\0{one.client_id}"): np.array([one.throttled_requests, one.throttled_ms])
            for one in quotas
        }
        before = self._recent.remember(readings, WINDOW_S)
        for one, (key, now) in zip(quotas, readings.items(), strict=True):
            resource, rate = RESOURCES[one.quota]
            values = resource, one.user, one.client_id
            families.add(rate, values, one.used or 0.0)
            requests, milliseconds = (now - before.get(key, now)).tolist()
            mean_ms = milliseconds / requests if requests > 0 else 0.0
            families.add("kafka_server_quota_throttle_time", values, mean_ms)
