"""Descriptors of network processes: how many their connections may take, and how many the segment
files that they read.

Connections beyond that stay in the listen backlog until others close, as with Apache Kafka, whose
acceptor cannot accept them either. Here the acceptor could, and another process would close them.
"""

import resource
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kbroker.config.listeners import Endpoint

PLAIN_CONNECTION: Final = 1
TLS_CONNECTION: Final = 4
"""The client's socket, the two ends of the inner one, and during the handshake a second descriptor
of the client's."""
OWN: Final = 128
"""Descriptors that a network process opens beside those that it inherits: its event loop, two
epolls and two pipes, the link to control and its successor, 48 connections that are received and
not opened yet, a key store that is read again, the sockets of a resolver."""
MAX_FILES_OPEN: Final = 8192
"""Segment files and indexes: a half is cached by recent use, a quarter is in the read table (two
for each of its segments), a quarter is left to answers that are being sent."""
MIN_FILES_OPEN: Final = 64
FILES_SHARE: Final = 32
"""One in this many descriptors is left to files, however many connections there are."""
MIN_CONNECTIONS: Final = 16
UNLIMITED_FILES: Final = 1 << 20
AHEAD: Final = 256
"""Connections may take so many more until files are closed again."""


def cost_of(endpoint: Endpoint) -> int:
    """The descriptors that a connection of a listener takes in a network process."""
    return TLS_CONNECTION if endpoint.protocol.tls else PLAIN_CONNECTION


def open_now() -> int:
    """Descriptors that this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def hard_limit() -> int:
    """Descriptors that a process of the broker may have: the soft limit is raised to it."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return limit if limit != resource.RLIM_INFINITY else UNLIMITED_FILES


def min_files(limit: int) -> int:
    """Descriptors that are left to files under a limit, however many connections there are."""
    return min(max(limit // FILES_SHARE, MIN_FILES_OPEN), MAX_FILES_OPEN)


def for_connections(limit: int, inherited: int) -> int:
    """Descriptors that the connections of a network process may take. inherited: open at its
    fork."""
    return max(limit - inherited - OWN - min_files(limit), MIN_CONNECTIONS)


class ProcessRoom:
    """Runs in: acceptor. Connections of each network process, and the descriptors that they take
    there; those that are accepted and not passed on yet will take theirs in one of them.

    descriptors: for the connections of one process.
    """

    def __init__(self, processes: int, descriptors: int) -> None:
        self.descriptors = descriptors
        self.load = [0] * processes
        self._taken = [0] * processes
        self._waiting = 0

    def fits(self, cost: int) -> bool:
        """Whether one process has room for all that wait and for one more of this cost. So each of
        them finds a process, in whatever order they come."""
        if not self._taken:
            return True
        return min(self._taken) + self._waiting + cost <= self.descriptors

    def accepted(self, cost: int) -> None:
        """A connection waits for a process."""
        self._waiting += cost

    def choose(self, takers: Iterable[int], cost: int) -> int | None:
        """The process with the fewest connections that has room; None when none of them has."""
        room = self.descriptors - cost
        fitting = [process for process in takers if self._taken[process] <= room]
        return min(fitting, key=self.load.__getitem__) if fitting else None

    def give(self, process: int, cost: int) -> None:
        """A connection that waited goes to a process."""
        self._waiting -= cost
        self._taken[process] += cost
        self.load[process] += 1

    def take_back(self, process: int, costs: Sequence[int]) -> None:
        """The process takes these connections not now: they wait again."""
        self._waiting += sum(costs)
        self._taken[process] -= sum(costs)
        self.load[process] -= len(costs)

    def closed(self, process: int, cost: int) -> None:
        """A connection has ended."""
        self._taken[process] -= cost
        self.load[process] -= 1


class OwnDescriptors:
    """Runs in: network. Owner: the process. Descriptors that its files may have: what connections
    leave, within bounds. limit: of the process; opened: before the first connection."""

    def __init__(self, limit: int, opened: int) -> None:
        self._min_files = min_files(limit)
        self._room = limit - opened - OWN
        self._taken = 0
        self.files = 0
        """Descriptors that files may have now."""
        self.divide()

    def divide(self) -> int:
        """Set how many files may be open from now on; returns the number."""
        self.files = min(max(self._room - self._taken - AHEAD, self._min_files), MAX_FILES_OPEN)
        return self.files

    def connected(self, cost: int) -> bool:
        """A connection takes descriptors; returns whether files must be closed for the next ones
        (`divide`)."""
        self._taken += cost
        return self._room - self._taken < self.files > self._min_files

    def closed(self, cost: int) -> None:
        """A connection has given its descriptors back."""
        self._taken -= cost
