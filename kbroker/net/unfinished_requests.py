"""Requests that have arrived in part: the bytes of the arena that they hold, and which of them are
closed when the arena is nearly full.

Runs in: network. Owner: the process's upkeep. The client that holds the most (a principal once it
is logged in, before that an address, or an IPv6 network) loses its oldest request first. So a
client that sends slowly on many connections does not stop other clients.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from kbroker.config.client_network import network_of
from kbroker.config.principals import ANONYMOUS
from kbroker.net.connections.connection import Connection
from kbroker.net.process import NetworkProcess
from kbroker.net.rows import Chunk, Context, Flag
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.usage.request_counts import SHORT

Words = NDArray[np.int64]

GRACE_NS = 2_000_000_000  # a request that is sent at once never gets this old
EMPTY_GRACE_NS = 900_000_000  # when there is no room for small requests either
STALLED_GRACE_NS = 5_000_000_000  # of a request that waits for room itself
FREE_SHARE = 8  # one in eight of the arena's chunks is free afterwards


class UnfinishedRequests:
    """The time since when each connection's current request is unfinished, updated once a
    second."""

    def __init__(self, process: NetworkProcess) -> None:
        self._process = process
        self._tables = process.tables
        self._seen: Words = np.zeros(
            (0, 2), np.int64
        )  # of a connection row: generation, requests before this one
        self._since: Words = np.zeros(0, np.int64)  # 0: nothing is unfinished

    def update(self, now_ns: int) -> None:
        """Note which requests have begun or ended since the last call."""
        table = self._tables.connections
        if len(self._since) < len(table):
            self._seen = np.concatenate([self._seen, np.zeros((len(table) - len(self._seen), 2), np.int64)])
            self._since = np.concatenate([self._since, np.zeros(len(table) - len(self._since), np.int64)])
        flags = table[:, ConnectionRow.FLAGS]
        unfinished = (flags & Flag.OPEN != 0) & (flags & Flag.BUSY == 0)
        unfinished &= (table[:, ConnectionRow.CHUNK] >= 0) & (table[:, ConnectionRow.HEAD] < 0)
        now_seen = table[:, [ConnectionRow.GENERATION, ConnectionRow.REQUESTS]]
        fresh = (self._since == 0) | (now_seen != self._seen).any(axis=1)
        self._since = np.where(unfinished, np.where(fresh, now_ns, self._since), 0)
        self._seen = now_seen

    def close_oldest(self, now_ns: int) -> int:
        """Close connections until enough of the arena is free, if it is nearly full; returns how
        many."""
        words = self._tables.words
        free, count = int(words[Context.FREE_CHUNK_COUNT]), int(words[Context.CHUNK_COUNT])
        if words[Context.STALLED] < 0 or free > count // Chunk.RESERVED_SHARE:
            return 0
        waiting = self._by_owner(now_ns - (GRACE_NS if free else EMPTY_GRACE_NS), now_ns - STALLED_GRACE_NS)
        closed = 0
        while waiting and words[Context.FREE_CHUNK_COUNT] < max(1, count // FREE_SHARE):
            owner = max(waiting, key=lambda name: waiting[name][0])
            held, connections = waiting[owner]
            size, connection = connections.popleft()
            if connections:
                waiting[owner] = (held - size, connections)
            else:
                del waiting[owner]
            self._process.refuse(connection, SHORT)
            closed += 1
        return closed

    def _by_owner(
        self, before_ns: int, stalled_before_ns: int
    ) -> dict[str, tuple[int, deque[tuple[int, Connection]]]]:
        """Bytes and connections of each owner: those that wait for room themselves last, else the
        oldest first."""
        table = self._tables.connections[: len(self._since)]
        stalled = table[:, ConnectionRow.FLAGS] & Flag.STALLED != 0
        since = self._since
        rows = np.flatnonzero((since > 0) & (since <= np.where(stalled, stalled_before_ns, before_ns)))
        found: dict[str, tuple[int, deque[tuple[int, Connection]]]] = {}
        for row in rows[np.lexsort((since[rows], stalled[rows]))].tolist():
            connection = self._process.connections.get(row)
            if connection is not None:
                size = int(table[row, ConnectionRow.LIMIT] - table[row, ConnectionRow.START])
                owner = owner_of(connection)
                held, connections = found.setdefault(owner, (0, deque()))
                connections.append((size, connection))
                found[owner] = (held + size, connections)
        return found


def owner_of(connection: Connection) -> str:
    """The client that a connection counts for: its user, without a login its network."""
    anonymous = connection.user == ANONYMOUS
    return network_of(connection.accepted.host) if anonymous else connection.user
