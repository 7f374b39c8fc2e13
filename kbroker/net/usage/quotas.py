"""Client quotas in a network process: the quotas of a connection, its use of them, and its throttle
time.

As in Kafka (KIP-13, KIP-124, KIP-219) the answer is sent at once with throttle_time_ms, and for
this time nothing more is read from the connection. While no quota is set, the only cost is a test
of ``active``. While quotas are set, the kernels serve a connection without Python once its client
is known to have none. The quotas are looked up again with every request that Python serves; a
client that changes its client id between requests may not be noticed at once.

The time of a request is what the network process or control spends on it; for Produce, until the
batch is written.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaTable,
)
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.sensors import NS_PER_PERCENT, Sensor, Sensors, sensor_of
from kbroker.metrics.slots import bind
from kbroker.net.connections.connection import Connection, FilePart, Part, State
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context, Flag
from kbroker.net.usage.quota_use import QuotaUse
from kbroker.net.usage.throttled_answer import throttle_time_ms, with_throttle_time
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.slices import paced

MUTATIONS = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS)
REMEMBERED = 10_000
MAX_REMEMBERED_NAME = 512
"""Characters of a user and a client id; longer ones, which a client may invent, are looked up each
time."""
THROTTLED = {
    name: bind("kbroker_throttled_requests_total", quota=name)
    for name in ("produce", "fetch", "request", "mutation")
}
KEYS = {
    "produce": PRODUCER_BYTE_RATE,
    "fetch": CONSUMER_BYTE_RATE,
    "request": REQUEST_PERCENTAGE,
    "mutation": CONTROLLER_MUTATION_RATE,
}


class Limits(NamedTuple):
    """The quotas of one user and client id."""

    produce: Sensor | None
    fetch: Sensor | None
    request: Sensor | None


class Quotas:
    """Runs in: network. Owner: the process. resume_row(row): resumes a connection."""

    def __init__(
        self, tables: NetworkTables, config: BrokerConfig, resume_row: Callable[[int], None]
    ) -> None:
        window_ms = config.get_int("quota.window.size.seconds") * 1000
        self._tables = tables
        self._sensors = Sensors(tables.shared, tables.client, window_ms)
        self._resume_row = resume_row
        self._table = QuotaTable({})
        self._known: dict[tuple[str, str], Limits] = {}
        self._stopping = False
        self.active = False
        self.use = QuotaUse()

    # --- quotas in force -------------------------------------------------------------------------

    def change(self, changed: QuotaTable, connections: Iterable[Connection], full: bool) -> None:
        """Called when quotas have changed, in slices. full: forget all others."""
        if full:
            self._table = QuotaTable({})
        self._table.merge(changed)
        self._known.clear()
        self.active = self._table.has(*KEYS.values())
        self._tables.words[Context.QUOTAS] = self.active
        for connection in paced(connections):
            self.start(connection)

    def start(self, connection: Connection) -> None:
        """The quotas of a connection are not known, or no longer: Python serves all of its requests
        to which quotas may apply."""
        connection.quota_known = False
        connection.throttle_ms = 0
        if connection.state is State.READY:
            self._mark(connection, self.active, self.active)

    def client_known(self, connection: Connection, client_id: str | None) -> Limits:
        """The quotas of a connection's client, whose client id has just been read."""
        name = client_id or ""
        known = connection.quota_known and connection.client_id == name
        connection.client_id = name
        limits = self._of(connection)
        if not known and connection.state is State.READY:
            connection.quota_known = True
            asks = limits.request is not None
            self._mark(connection, asks or limits.produce is not None, asks or limits.fetch is not None)
        return limits

    def _of(self, connection: Connection) -> Limits:
        """The quotas of the client that was last looked up. If quotas have changed since, it is
        looked up again."""
        key = (connection.user, connection.client_id)
        limits = self._known.get(key)
        if limits is None:
            limits = self._limits(*key)
            if len(key[0]) + len(key[1]) > MAX_REMEMBERED_NAME:
                return limits
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = limits
        return limits

    def _limits(self, user: str, client_id: str) -> Limits:
        if any(self._table.bound(key, user, client_id) for key in KEYS.values()):
            self.use.client_seen(user, client_id)

        def sensor(key: str, unit: float = 1.0) -> Sensor | None:
            return sensor_of(key, self._table.bound(key, user, client_id), unit)

        return Limits(
            sensor(PRODUCER_BYTE_RATE), sensor(CONSUMER_BYTE_RATE), sensor(REQUEST_PERCENTAGE, NS_PER_PERCENT)
        )

    def _mark(self, connection: Connection, produce: bool, fetch: bool) -> None:
        words = self._tables.connections[connection.row]
        flags = int(words[ConnectionRow.FLAGS]) & ~(Flag.QUOTA | Flag.FETCH)
        if connection.login is None or not connection.login.expired:  # else it must log in again first
            flags |= Flag.AUTHENTICATED | (0 if fetch else Flag.FETCH)
        words[ConnectionRow.FLAGS] = flags | (Flag.QUOTA if produce else 0)

    # --- use -----------------------------------------------------------------------------

    def produced(self, connection: Connection, client_id: str | None, size: int, began_ns: int) -> int:
        """A Produce request is answered. began_ns: 0 for acks=0, whose time does not count. Returns
        ms to throttle."""
        limits = self.client_known(connection, client_id)
        bytes_ms = self._used(limits.produce, size)
        spent_ms = self._spent(limits.request, time.monotonic_ns() - began_ns) if began_ns else 0
        return self._hold(connection, {"request": spent_ms, "produce": bytes_ms})

    def fetched(self, connection: Connection, size: int) -> int:
        """A Fetch is about to be answered. size: bytes of the answer. Returns ms to throttle: then
        the answer has no records, and these bytes do not count."""
        limits = self._of(connection)
        spent_ms = self._spent(limits.request, self._time_of(connection))
        bytes_ms = self._used(limits.fetch, size)
        throttle_ms = self._hold(connection, {"request": spent_ms, "fetch": bytes_ms})
        if throttle_ms and limits.fetch is not None:
            self._sensors.add(limits.fetch, -size, monotonic_ms())
        return throttle_ms

    def max_fetch_bytes(self, connection: Connection) -> float:
        """The bytes that one Fetch can return without being throttled for this single answer."""
        limits = self._of(connection)
        return float("inf") if limits.fetch is None else self._sensors.max_amount(limits.fetch)

    def answered(self, connection: Connection, parts: Sequence[Part]) -> Sequence[Part]:
        """Any other request is answered; returns the answer, perhaps with a throttle time."""
        key = connection.api_key
        if key == ApiKey.FETCH or not parts or isinstance(parts[0], FilePart):
            return parts
        first = bytes(parts[0])
        limits = self._of(connection)
        reported_ms = throttle_time_ms(first, key, connection.api_version) if key in MUTATIONS else 0
        # control has counted the request's time
        times = {"request": self._spent(limits.request, 0), "mutation": reported_ms}
        if key == ApiKey.SHARE_FETCH:
            times["fetch"] = self._used(limits.fetch, sum(len(part) for part in parts))
        throttle_ms = self._hold(connection, times)
        if throttle_ms > reported_ms:
            whole = len(parts) == 1
            return [with_throttle_time(first, key, connection.api_version, throttle_ms, whole), *parts[1:]]
        return parts

    def _time_of(self, connection: Connection) -> int:
        waited_ns = connection.purgatory_ns + connection.cold_ns
        return time.monotonic_ns() - connection.began_ns - (waited_ns - connection.earlier_ns)

    def _used(self, sensor: Sensor | None, size: int) -> int:
        if sensor is None:
            return 0
        now_ms = monotonic_ms()
        self._sensors.add(sensor, size, now_ms)
        return self._sensors.throttle_ms(sensor, now_ms)

    def _spent(self, sensor: Sensor | None, nanoseconds: int) -> int:
        """Request time is throttled for one window at most."""
        return min(self._used(sensor, nanoseconds), self._sensors.window_ms)

    # --- throttling ------------------------------------------------------------------------------

    def _hold(self, connection: Connection, times: dict[str, int]) -> int:
        """Read nothing from the connection for the longest of these times, in ms by quota, which
        counts under the quota that asks for it: the first of several. Returns it."""
        quota = max(times, key=times.__getitem__)
        throttle_ms = times[quota]
        connection.throttle_ms = max(0, throttle_ms)
        if throttle_ms <= 0:
            return throttle_ms
        self._tables.metrics.words[THROTTLED[quota]] += 1
        bound = self._table.bound(KEYS[quota], connection.user, connection.client_id)
        if bound is not None:
            self.use.throttled(KEYS[quota], bound, throttle_ms)
        self._tables.connections[connection.row, ConnectionRow.FLAGS] |= Flag.MUTED
        asyncio.get_running_loop().call_later(throttle_ms / 1000, self._resume, connection)
        return throttle_ms

    def _resume(self, connection: Connection) -> None:
        if connection.state is State.CLOSED or self._stopping:
            return
        self._tables.connections[connection.row, ConnectionRow.FLAGS] &= ~Flag.MUTED
        self._resume_row(connection.row)

    def stop(self) -> None:
        """The broker stops: throttled connections stay throttled."""
        self._stopping = True
