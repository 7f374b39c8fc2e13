"""Rates of clients for quotas, over all client processes: Kafka's Rate on samples in shared memory.

Runs in: network and control, each of which writes its own table.
"""

import hashlib
from typing import NamedTuple

from kbroker.config.client_quotas import Bound
from kbroker.ipc.rate_limit import excess_ms, samples_ms
from kbroker.ipc.sensor_kernel import sensor_add, sensor_total
from kbroker.ipc.shared import Shared

NS_PER_PERCENT = 1e7
"""Nanoseconds in one percent of a second, the unit of request_percentage."""


class Sensor(NamedTuple):
    """One measured quota. limit: of the sum of amounts, per second."""

    limit: float
    high: int
    low: int


def sensor_of(key: str, bound: Bound | None, unit: float = 1.0) -> Sensor | None:
    """The sensor of a quota: all clients of its entity share it. unit: amounts that make one of the
    quota."""
    if bound is None:
        return None
    text = "\0".join((key, bound.user, bound.client_id)).encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    high, low = (int.from_bytes(digest[at : at + 8], "big", signed=True) for at in (0, 8))
    return Sensor(bound.limit * unit, high or 1, low)


class Sensors:
    """client: number of the process among those with a table. window_ms:
    quota.window.size.seconds."""

    def __init__(self, shared: Shared, client: int, window_ms: int) -> None:
        self._shared = shared  # keeps the memory at the addresses
        self._own = int(shared.sensors[client].ctypes.data)
        self._tables = [int(table.ctypes.data) for table in shared.sensors]
        self._samples = shared.sizes.quota_samples
        self.window_ms = window_ms

    def add(self, sensor: Sensor, amount: int, now_ms: int) -> None:
        """Count an amount. now_ms: of the clock that all processes have in common (monotonic)."""
        window = now_ms // self.window_ms
        sensor_add(self._own, self._samples, sensor.high, sensor.low, window, amount)

    def throttle_ms(self, sensor: Sensor, now_ms: int) -> int:
        """Milliseconds until the rate is the limit again."""
        total, elapsed_ms = self._total(sensor, now_ms)
        return excess_ms(total, sensor.limit, elapsed_ms)

    def rate(self, sensor: Sensor, now_ms: int) -> float:
        """The amount of a second, over the samples."""
        total, elapsed_ms = self._total(sensor, now_ms)
        return total * 1000 / elapsed_ms

    def _total(self, sensor: Sensor, now_ms: int) -> tuple[int, int]:
        """The amount of all samples, and the time that they cover."""
        window, into_ms = divmod(now_ms, self.window_ms)
        total = sum(
            sensor_total(table, self._samples, sensor.high, sensor.low, window) for table in self._tables
        )
        return int(total), samples_ms(self._samples, self.window_ms, into_ms)

    def max_amount(self, sensor: Sensor) -> float:
        """The largest single amount that is not throttled."""
        return sensor.limit * (self._samples - 1) * self.window_ms / 1000
