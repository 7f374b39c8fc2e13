"""The log of slow requests, while kbroker.slow.request.ms is set: the stage that took the time, and
the client.

Requests that Python or control answers are written one by one, and so are Produce requests of
clients that may have a quota. Of those that kernels answer there are samples, once a second:
Produce requests that have waited for long by then, and for each stage the number of requests that
it delayed that long.

A Fetch is not slow because it waits for records.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

import numpy as np

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.block import heads, row_of
from kbroker.metrics import layout as slot
from kbroker.metrics.bounds import UPPER_NS
from kbroker.metrics.labels import STAGES
from kbroker.metrics.slots import bind
from kbroker.net.connections.connection import Connection
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag, Request
from kbroker.net.usage.client_bytes import MAX_CLIENT_ID
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import parse_request

log = logging.getLogger(__name__)

MAX_A_SECOND: Final = 10
"""Maximum of lines that a network process logs in a second."""
NOT_SLOW: Final = ("total", "purgatory")
Fields = dict[str, str | int | float | bool]


class SlowRequests:
    """Runs in: network. Owner: RequestCounts. on: whether the log is enabled; if not, no method may
    be called."""

    def __init__(self, tables: NetworkTables, config: BrokerConfig) -> None:
        self._limit_ns = config.get_int("kbroker.slow.request.ms") * 1_000_000
        self.on = self._limit_ns > 0
        self._tables = tables
        self._lines = self._left_out = 0
        self._sampled: dict[int, int] = {}
        self._first = min(bisect_left(UPPER_NS, self._limit_ns) + 1, slot.HISTOGRAM_BUCKETS - 1)
        self._counted = self._counts() if self.on else {}

    # --- one by one -----------------------------------------------------------------------------------

    def answered(self, connection: Connection, local_ns: int, send_ns: int) -> None:
        """A request that Python has served."""
        slow_ns = connection.queued_ns + local_ns + connection.cold_ns + send_ns
        if slow_ns < self._limit_ns:
            return
        stages = {
            "queue": connection.queued_ns,
            "local": local_ns,
            "purgatory": connection.purgatory_ns,
            "cold_read": connection.cold_ns,
            "send": send_ns,
        }
        if connection.api_key != ApiKey.FETCH:
            del stages["purgatory"], stages["cold_read"]
        fields = _request(connection, connection.api_key, connection.api_version, connection.bytes_of or "")
        self._write(fields | _times(stages) | {"throttle_ms": connection.throttle_ms})

    def forwarded(self, block: bytearray, connections: Mapping[int, Connection]) -> None:
        """Control's answers are about to be sent. local: from its block to the answer."""
        now_ns = time.monotonic_ns()
        rows = self._tables.connections
        for _, call, _, _ in heads(block):
            number = row_of(call)
            connection = connections.get(number)
            if connection is None or rows[number, ConnectionRow.CALL] != call:
                continue
            row = rows[number].tolist()
            stages = {
                "queue": max(0, row[ConnectionRow.QUEUED_NS]),
                "local": now_ns - row[ConnectionRow.BEGAN_NS],
            }
            if sum(stages.values()) >= self._limit_ns:
                api = row[ConnectionRow.API]
                fields = _request(connection, api & 0xFFFF, api >> 16, connection.bytes_of or "")
                self._write(fields | _times(stages))

    def produced(self, connection: Connection, request: list[int], throttle_ms: int) -> None:
        """A Produce request is complete, and Python sends its answer."""
        received_ns, now_ns = request[Request.RECEIVED_NS], time.monotonic_ns()
        written_ns = max(received_ns, request[Request.WRITTEN_NS])
        ended_ns = max(written_ns, request[Request.ENDED_NS])
        stages = {
            "queue": max(0, request[Request.QUEUED_NS]),
            "append": written_ns - received_ns,
            "flush": ended_ns - written_ns,
            "respond": max(0, now_ns - ended_ns),
        }
        if sum(stages.values()) >= self._limit_ns:
            fields = self._produce(connection, request)
            self._write(fields | _times(stages) | {"throttle_ms": throttle_ms})

    # --- samples --------------------------------------------------------------------------------------

    def tick(self, connections: Mapping[int, Connection]) -> None:
        """Once a second: what the kernels serve, and how many lines were left out."""
        self._unfinished(connections)
        now = self._counts()
        for api in {api for api, _ in now}:
            slow = {
                phase: count - self._counted[api, phase]
                for (each, phase), count in now.items()
                if each == api and count > self._counted[api, phase]
            }
            if slow:
                at_least: Fields = {"api": api, "at_least_ms": round(UPPER_NS[self._first - 1] / 1e6, 3)}
                log.warning("slow stages", extra={"fields": at_least | slow})
        self._counted = now
        if self._left_out:
            log.warning("%d more slow requests were not logged", self._left_out)
        self._lines = self._left_out = 0

    def _unfinished(self, connections: Mapping[int, Connection]) -> None:
        """Produce requests that wait: of each connection the oldest, once."""
        now_ns = time.monotonic_ns()
        rows, requests = self._tables.connections, self._tables.requests
        heads = rows[:, ConnectionRow.HEAD]
        waiting = np.flatnonzero((rows[:, ConnectionRow.FLAGS] & Flag.OPEN != 0) & (heads >= 0))
        received = requests[heads[waiting], Request.RECEIVED_NS]
        late = now_ns - received >= self._limit_ns
        found = dict(zip(waiting[late].tolist(), received[late].tolist(), strict=True))
        for number, received_ns in found.items():
            connection = connections.get(number)
            if connection is None or self._sampled.get(number) == received_ns:
                continue
            request = requests[heads[number]].tolist()
            stages = {"queue": max(0, request[Request.QUEUED_NS]), "waiting": now_ns - received_ns}
            self._write(self._produce(connection, request) | _times(stages) | {"unfinished": True})
        self._sampled = found

    def _counts(self) -> dict[tuple[str, str], int]:
        """Requests whose stage was slow, by API and stage."""
        words = self._tables.metrics.words
        found = {}
        for api, phases in STAGES.items():
            for phase in phases:
                if phase not in NOT_SLOW:
                    start = bind("kbroker_request_phase_seconds", api=api, phase=phase)
                    found[api, phase] = sum(words[start + self._first : start + slot.HISTOGRAM_BUCKETS])
        return found

    # --- lines ----------------------------------------------------------------------------------------

    def _produce(self, connection: Connection, request: list[int]) -> Fields:
        start, size = request[Request.FRAME], request[Request.FRAME_BYTES]
        header, _ = parse_request(self._tables.arena_bytes[start : start + size])
        client_id = (header.client_id or "")[:MAX_CLIENT_ID]
        return _request(connection, ApiKey.PRODUCE, request[Request.VERSION], client_id)

    def _write(self, fields: Fields) -> None:
        if self._lines >= MAX_A_SECOND:
            self._left_out += 1
            return
        self._lines += 1
        log.warning("slow request", extra={"fields": fields})


def _request(connection: Connection, api_key: int, version: int, client_id: str) -> Fields:
    return {
        "api": ApiKey(api_key).title,
        "version": version,
        "client_id": client_id,
        "principal": connection.principal,
        "connection": connection.peer,
        "listener": connection.listener.listener,
    }


def _times(stages: Mapping[str, int]) -> Fields:
    found: Fields = {"total_ms": round(sum(stages.values()) / 1e6, 3)}
    return found | {f"{name}_ms": round(spent_ns / 1e6, 3) for name, spent_ns in stages.items()}
