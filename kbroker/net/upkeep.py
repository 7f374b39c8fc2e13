"""The upkeep of a network process: its work once a second, at start and at stop.

Runs in: network. Owner: the process's main.
"""

import time
from collections.abc import Callable

import numpy as np

from kbroker.ipc.ring import ring_length
from kbroker.net.fetch.loop_reads import LoopReads
from kbroker.net.process import NetworkProcess
from kbroker.net.produce.queue_kernel import settle_lost
from kbroker.net.pump_kernel import pump
from kbroker.net.rows import Connection, Flag
from kbroker.net.unfinished_requests import UnfinishedRequests


class Upkeep:
    """Idle connections, memory of the arena, requests that were lost with an IO worker."""

    def __init__(self, process: NetworkProcess) -> None:
        self._process = process
        self._tables = process.tables
        self._unfinished = UnfinishedRequests(process)
        self._reads = LoopReads(process.tables.shared.counters[process.tables.client])
        self._idle_ns = process.config.get_int("connections.max.idle.ms") * 1_000_000

    def old_entries(self) -> bool:
        """Whether a predecessor's appends still point into the arena; its completions are dropped
        meanwhile."""
        shared = self._tables.shared
        pump(self._tables.address)
        rings = [shared.append_ring(self._tables.client, w) for w in range(shared.sizes.workers)]
        return any(ring_length(ring) for ring in rings)

    def steps(self, late_s: float) -> tuple[Callable[[], object], ...]:
        """The work of each second. late_s: its delay.

        The caller lets requests be served between two steps, which together take milliseconds."""
        process = self._process
        counts = process.counts
        return (
            lambda: counts.tick(late_s, process.senders.used()),
            self._log_requests,
            lambda: counts.clients.tick(process.quotas.use),
            lambda: counts.from_disk(self._reads.count(process.topics.slots_in_use())),
            self._close_idle,
            self._tables.trim,
            self._settle_lost,
            self._close_unfinished,
        )

    def _log_requests(self) -> None:
        """Write the logs of slow requests and of the audit, if they are due."""
        if self._process.counts.slow.on:
            self._process.counts.slow.tick(self._process.connections)
        self._process.access.audit.tick()

    def _close_idle(self) -> None:
        """Close connections that are idle for too long, and those that take no byte of an answer:
        it would keep files of deleted segments open, and their space on the disk."""
        if self._idle_ns >= 0:
            for row in self._quiet_since(time.monotonic_ns() - self._idle_ns):
                self._process.close(self._process.connections[row], "idle")

    def _settle_lost(self) -> None:
        """Answer requests that were lost with an IO worker."""
        self._process.turn()
        if settle_lost(self._tables.address, len(self._tables.results)):
            self._process.turn()

    def _close_unfinished(self) -> None:
        """Close connections whose unfinished requests hold too much memory."""
        now = time.monotonic_ns()
        self._unfinished.update(now)
        if self._unfinished.close_oldest(now):
            self._process.turn()

    def release_memory(self) -> bool:
        """Release some memory of the arena; False when there is no more to release."""
        return self._tables.release_chunk()

    def _quiet_since(self, before_ns: int) -> list[int]:
        table = self._tables.connections
        flags = table[:, Connection.FLAGS]
        waits = (flags & Flag.BUSY != 0) | (table[:, Connection.HEAD] >= 0)
        quiet = (flags & Flag.OPEN != 0) & (~waits | (flags & Flag.OUT_BLOCKED != 0))
        quiet &= table[:, Connection.LAST_NS] < before_ns
        found: list[int] = np.flatnonzero(quiet).tolist()
        return [row for row in found if row in self._process.connections]

    def stop_reading(self) -> None:
        """Take no new connections and no new requests."""
        self._process.handoff.stop()
        self._process.quotas.stop()
        for row in list(self._process.connections):
            self._tables.connections[row, Connection.FLAGS] |= Flag.MUTED

    def unanswered(self) -> int:
        """Connections that still wait for an answer."""
        table = self._tables.connections
        flags = table[:, Connection.FLAGS]
        waiting = (table[:, Connection.HEAD] >= 0) | (flags & (Flag.BUSY | Flag.OUT_BLOCKED) != 0)
        return int(np.count_nonzero(waiting & (flags & Flag.OPEN != 0)))

    def close_all(self) -> None:
        """Close every connection."""
        for connection in list(self._process.connections.values()):
            self._process.close(connection, "the broker stops")
