"""Bytes of a network process's connections by client id, since the last report to control.

The pump counts the bytes of each connection in its row; once a second the moved bytes are added up
by client id. A connection has the client id of its last request that Python has served, which is
ApiVersions with nearly every client. The same readings give the rates of each connection.
"""

import time
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.client_messages import OTHER, MovedBytes
from kbroker.net.connections.connection import Connection
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Connection as ConnectionRow

MAX_REPORTED: Final = 200
"""Client ids in a report; the rest is reported as OTHER."""
MAX_KEPT: Final = 4096
"""Numbers of client ids that may be in use before unused numbers are freed: closed connections keep
theirs until the next report."""
MAX_CLIENT_ID: Final = 128
"""Maximum length of a client id in a report."""
WEIGHT: Final = 0.3
"""Weight of the last second in a rate: a rate follows a change within some five seconds."""
WORDS: Final = [int(ConnectionRow.BYTES_IN), int(ConnectionRow.BYTES_OUT)]


class ClientBytes:
    """Runs in: network. Owner: ClientUse. Client ids have numbers; 0 is that of clients without
    one."""

    def __init__(self, tables: NetworkTables, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._tables = tables
        self._clock_s = clock_s
        self._rated_at_s = clock_s()
        self._names = [""]
        self._numbers = {"": 0}
        self._of_row: NDArray[np.int64] = np.zeros(0, np.int64)
        self._seen: NDArray[np.int64] = np.zeros((0, 2), np.int64)  # of a row: bytes that were added
        self._rated: NDArray[np.int64] = np.zeros((0, 2), np.int64)  # of a row: bytes at the last report
        self._rates: NDArray[np.float64] = np.zeros((0, 2))  # of a row: bytes per second
        self._moved: dict[str, tuple[int, int]] = {}

    def opened(self, connection: Connection) -> None:
        """Start counting its row from 0."""
        self._grow()
        self._of_row[connection.row] = self._seen[connection.row] = 0
        self._rated[connection.row] = self._rates[connection.row] = 0

    def named(self, connection: Connection, client_id: str | None) -> None:
        """A request has this client id."""
        name = (client_id or "")[:MAX_CLIENT_ID]
        if name == connection.bytes_of:
            return
        if connection.bytes_of is not None:
            self._settle(connection.row, connection.bytes_of)
        connection.bytes_of = name
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        self._of_row[connection.row] = number

    def closed(self, connection: Connection) -> None:
        """Keep the bytes that a closed connection has moved."""
        self._settle(connection.row, connection.bytes_of or "")
        self._of_row[connection.row] = 0

    def take(self) -> tuple[MovedBytes, ...]:
        """The moved bytes; the next report starts from zero."""
        self._grow()
        now = np.array(self._tables.connections[:, WORDS])
        self._rate(now)
        moved = now - self._seen
        self._seen = now
        rows = np.flatnonzero(moved.any(axis=1))
        sums = np.zeros((len(self._names), 2), np.int64)
        np.add.at(sums, self._of_row[rows], moved[rows])
        for number in np.flatnonzero(sums.any(axis=1)).tolist():
            self._add(self._names[number], *sums[number].tolist())
        self.free_unused()
        found, self._moved = self._moved, {}
        return _largest(found)

    def free_unused(self) -> None:
        """Free the numbers of client ids that no connection has, if there are many; `take` does it,
        too."""
        if len(self._names) > MAX_KEPT:
            self._renumber()

    def rates(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """Bytes per second of connections, received and sent: averages of the last seconds."""
        self._grow()
        return self._rates[rows]

    def _rate(self, now: NDArray[np.int64]) -> None:
        at_s = self._clock_s()
        if at_s > self._rated_at_s:
            self._rates += WEIGHT * ((now - self._rated) / (at_s - self._rated_at_s) - self._rates)
            self._rated, self._rated_at_s = now.copy(), at_s

    def _grow(self) -> None:
        more = len(self._tables.connections) - len(self._seen)
        if more > 0:
            self._seen = np.concatenate([self._seen, np.zeros((more, 2), np.int64)])
            self._of_row = np.concatenate([self._of_row, np.zeros(more, np.int64)])
            self._rated = np.concatenate([self._rated, np.zeros((more, 2), np.int64)])
            self._rates = np.concatenate([self._rates, np.zeros((more, 2))])

    def _settle(self, row: int, name: str) -> None:
        words = self._tables.connections[row]
        received, sent = int(words[ConnectionRow.BYTES_IN]), int(words[ConnectionRow.BYTES_OUT])
        received_before, sent_before = self._seen[row].tolist()
        self._add(name, received - received_before, sent - sent_before)
        self._seen[row] = received, sent

    def _add(self, name: str, received: int, sent: int) -> None:
        if name not in self._moved and len(self._moved) >= MAX_KEPT:
            name = OTHER
        before = self._moved.get(name, (0, 0))
        self._moved[name] = before[0] + received, before[1] + sent

    def _renumber(self) -> None:
        used = np.union1d(self._of_row, [0])
        self._of_row = np.searchsorted(used, self._of_row)
        self._names = [self._names[number] for number in used.tolist()]
        self._numbers = {name: number for number, name in enumerate(self._names)}


def _largest(moved: dict[str, tuple[int, int]]) -> tuple[MovedBytes, ...]:
    chosen = dict(nlargest(MAX_REPORTED, moved.items(), key=lambda item: sum(item[1])))
    found = [MovedBytes(name, *each) for name, each in chosen.items() if sum(each)]
    others = [each for name, each in moved.items() if name not in chosen]
    received, sent = sum(each[0] for each in others), sum(each[1] for each in others)
    return (*found, MovedBytes(OTHER, received, sent)) if received or sent else tuple(found)
