"""The upkeep of a network process: its work once a second, at start and at stop.

Runs in: network. Owner: the process's main.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.ring import ring_length
from kbroker.net.fetch.loop_reads import LoopReads
from kbroker.net.network_tables import NetworkTables
from kbroker.net.process import NetworkProcess
from kbroker.net.produce.queue_kernel import settle_lost
from kbroker.net.pump_kernel import pump
from kbroker.net.rows import Connection, Flag
from kbroker.net.unfinished_requests import UnfinishedRequests, owner_of
from kbroker.net.usage.request_counts import UNREAD

MIN_TAKEN_BYTES: Final = 1024
"""A client takes so many of its answers a second, on average over connections.max.idle.ms: clients
give up such an answer far earlier. A socket takes more only after a third of its buffer is free, so
a client that takes a byte now and then looks as if it took tens of kilobytes."""

MAX_UNREAD_BYTES: Final = 256 << 20
"""Bytes of answers that the clients of a process have not taken. Beyond it, connections that have
taken nothing for UNREAD_GRACE_NS are closed, those of the client with the most bytes first."""
UNREAD_GRACE_NS: Final = 5_000_000_000
LOOKED_AT: Final = 1000
"""Connections whose unread bytes are added up, those that have taken nothing for longest: some 3
ms."""
CLOSING_NS: Final = 5_000_000
"""Time for closing connections; the rest is closed a second later."""

Table = NDArray[np.int64]
"""Rows of connections."""
Chosen = NDArray[np.bool_]
"""A mask of them."""


class Upkeep:
    """Idle connections, memory of the arena, requests that were lost with an IO worker."""

    def __init__(self, process: NetworkProcess) -> None:
        self._process = process
        self._tables = process.tables
        self._unfinished = UnfinishedRequests(process)
        self._reads = LoopReads(process.tables.shared.counters[process.tables.client])
        self._idle_ns = process.config.get_int("connections.max.idle.ms") * 1_000_000
        self._slow = SlowReaders(process.tables, self._idle_ns)

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
            self._close_unread,
        )

    def _log_requests(self) -> None:
        """Write the logs of slow requests and of the audit, if they are due."""
        if self._process.counts.slow.on:
            self._process.counts.slow.tick(self._process.connections)
        self._process.access.audit.tick()

    def _close_idle(self) -> None:
        """Close connections that are idle for too long, and those that take nothing of an answer,
        or hardly anything: it would keep files of deleted segments open, and their space on the
        disk."""
        if self._idle_ns >= 0:
            now_ns = time.monotonic_ns()
            rows = sorted({*self._quiet_since(now_ns - self._idle_ns), *self._slow.update(now_ns)})
            self._close_some(rows, "idle")

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

    def _close_unread(self) -> None:
        """Close connections whose answers hold too much memory."""
        table, connections = self._tables.connections, self._process.connections
        blocked = np.flatnonzero(_blocked(table))
        order = np.argsort(table[blocked, Connection.LAST_NS], kind="stable")
        rows = [row for row in blocked[order[:LOOKED_AT]].tolist() if row in connections]
        held = {row: connections[row].unsent_bytes() for row in rows}
        excess = sum(held.values()) - MAX_UNREAD_BYTES
        if excess <= 0:
            return
        owners = {row: owner_of(connections[row]) for row in rows}
        of_owner: Counter[str] = Counter()
        for row, size in held.items():
            of_owner[owners[row]] += size
        before_ns = time.monotonic_ns() - UNREAD_GRACE_NS
        quiet = [row for row in rows if table[row, Connection.LAST_NS] < before_ns]
        victims = []
        for row in sorted(quiet, key=lambda row: (-of_owner[owners[row]], -held[row])):
            if excess > 0:
                victims.append(row)
                excess -= held[row]
        self._close_some(victims, UNREAD)

    def _close_some(self, rows: Iterable[int], why: str) -> None:
        """Close connections, as many as there is time for: thousands may be due at once."""
        close = self._process.refuse if why == UNREAD else self._process.close
        ends_ns = time.monotonic_ns() + CLOSING_NS
        for row in rows:
            if (connection := self._process.connections.get(row)) is not None:
                close(connection, why)
                if time.monotonic_ns() >= ends_ns:
                    break

    def release_memory(self) -> bool:
        """Release some memory of the arena; False when there is no more to release."""
        return self._tables.release_chunk()

    def _quiet_since(self, before_ns: int) -> list[int]:
        table = self._tables.connections
        quiet = (_open(table) & ~_unanswered(table)) | _blocked(table)
        quiet &= table[:, Connection.LAST_NS] < before_ns
        found: list[int] = np.flatnonzero(quiet).tolist()
        return found

    def stop_reading(self) -> None:
        """Take no new connections and no new requests."""
        self._process.handoff.stop()
        self._process.quotas.stop()
        for row in list(self._process.connections):
            self._tables.connections[row, Connection.FLAGS] |= Flag.MUTED

    def unanswered(self) -> int:
        """Connections that still wait for an answer."""
        table = self._tables.connections
        return int(np.count_nonzero((_open(table) & _unanswered(table)) | _blocked(table)))

    def close_all(self) -> None:
        """Close every connection."""
        for connection in list(self._process.connections.values()):
            self._process.close(connection, "the broker stops")


def _open(table: Table) -> Chosen:
    return table[:, Connection.FLAGS] & Flag.OPEN != 0


def _unanswered(table: Table) -> Chosen:
    """Connections with a request that is being served."""
    return (table[:, Connection.HEAD] >= 0) | (table[:, Connection.FLAGS] & Flag.BUSY != 0)


def _blocked(table: Table) -> Chosen:
    """Open connections whose clients have not taken all of an answer."""
    return _open(table) & (table[:, Connection.FLAGS] & Flag.OUT_BLOCKED != 0)


class SlowReaders:
    """Clients whose answers have been on their way since `window_ns` or longer. Owner: Upkeep."""

    def __init__(self, tables: NetworkTables, window_ns: int) -> None:
        self._tables = tables
        self._window_ns = window_ns
        self._seen: NDArray[np.int64] = np.zeros((0, 3), np.int64)
        """Rows of connections: generation, bytes sent until the window began, and its beginning; 0
        while the client has taken all."""

    def update(self, now_ns: int) -> list[int]:
        """Called once a second. The rows of connections that have taken less than MIN_TAKEN_BYTES
        a second in the window that ends now."""
        table = self._tables.connections
        if (more := len(table) - len(self._seen)) > 0:
            self._seen = np.concatenate([self._seen, np.zeros((more, 3), np.int64)])
        generation, sent = table[:, Connection.GENERATION], table[:, Connection.BYTES_OUT]
        since = self._seen[:, 2]
        blocked = _blocked(table)
        same = blocked & (since > 0) & (self._seen[:, 0] == generation)
        ends = same & (now_ns - since >= self._window_ns)
        least = MIN_TAKEN_BYTES * ((now_ns - since) // 1_000_000_000)
        slow = ends & (sent - self._seen[:, 1] < least)
        found: list[int] = np.flatnonzero(slow).tolist()
        begins = blocked & ~slow & (ends | ~same)
        self._seen[~blocked] = 0
        self._seen[begins] = np.column_stack([generation, sent, np.full(len(table), now_ns)])[begins]
        return found
