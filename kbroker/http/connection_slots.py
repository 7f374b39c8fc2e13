"""A bounded number of connections of an HTTP server. Idle connections are closed to accept new
ones.

Neither idle connections nor slow readers exclude other clients: when there is no room, a connection
that is idle, or whose answer has been in progress for long, is closed: one of the address that has
most of them, and of those the oldest. One that was just accepted has a second to send its first
request while others of its address have had theirs. When all are at work, a few more are taken for
the health probes alone.
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kbroker.config.client_network import network_of
from kbroker.http.tls import cut

CONNECTIONS: Final = 64
FOR_PROBES: Final = 8
AT_WORK_S: Final = 5.0
"""A connection keeps its slot for at least this time, even if others wait."""
FIRST_REQUEST_S: Final = 1.0
BREAK_S: Final = 0.1
"""Requests with shorter breaks between them are one piece of work: a client that sends the next one
before it has its answer has a slot no longer than one whose answer takes long."""


class Slot(Struct, eq=False):
    """A connection. host: its network. busy: requests are being answered since `busy_since_s`; else
    it has been idle since `idle_since_s`. probes_only: it was accepted beyond the limit."""

    connection: socket.socket
    host: str
    idle_since_s: float
    busy_since_s: float = 0.0
    busy: bool = False
    has_worked: bool = False
    probes_only: bool = False

    def work(self, busy: bool, now_s: float) -> None:
        """busy: a request has arrived; else its answer is sent."""
        if not busy:
            self.idle_since_s = now_s
        elif now_s - self.idle_since_s > BREAK_S or not self.has_worked:
            self.has_worked = True
            self.busy_since_s = now_s
        self.busy = busy

    def is_new(self, now_s: float) -> bool:
        """Whether its first request may still arrive."""
        return not self.has_worked and now_s - self.idle_since_s < FIRST_REQUEST_S

    @property
    def since_s(self) -> float:
        """Monotonic time since which the connection is busy, or idle."""
        return self.busy_since_s if self.busy else self.idle_since_s


class ConnectionSlots:
    """Runs in: http, called by all of its threads. Owner: the BoundedServer."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._slots: dict[socket.socket, Slot] = {}

    def take(self, connection: socket.socket, host: str) -> Slot | None:
        """A slot for a new connection; None if it must be refused."""
        with self._lock:
            for probes_only, max_connections in ((False, CONNECTIONS), (True, FOR_PROBES)):
                others = [slot for slot in self._slots.values() if slot.probes_only is probes_only]
                if len(others) < max_connections or self._make_room(others):
                    slot = Slot(connection, network_of(host), self._clock_s(), probes_only=probes_only)
                    self._slots[connection] = slot
                    return slot
            return None

    def leave(self, connection: socket.socket) -> None:
        """The connection has ended."""
        with self._lock:
            self._slots.pop(connection, None)

    def work(self, connection: socket.socket, busy: bool) -> bool:
        """busy: a request has arrived; else its answer is sent. Returns whether the connection may
        only send probes."""
        with self._lock:
            slot = self._slots.get(connection)
            if slot is None:
                return False
            slot.work(busy, self._clock_s())
            return slot.probes_only

    def _make_room(self, slots: list[Slot]) -> bool:
        now = self._clock_s()
        waiting = [slot for slot in slots if not slot.busy]
        late = [slot for slot in slots if slot.busy and now - slot.since_s > AT_WORK_S]
        found = waiting or late
        if not found:
            return False
        counts = Counter(slot.host for slot in slots)
        victim = min(found, key=lambda slot: (-counts[slot.host], slot.is_new(now), slot.since_s))
        del self._slots[victim.connection]
        cut(victim.connection)  # its thread wakes up and ends
        return True
