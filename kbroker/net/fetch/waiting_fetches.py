"""Delayed fetches that the kernel answers as soon as there are enough bytes, or their time is up.

Runs in: network. Owner: the process. The request is kept as it came; one kernel call checks and
answers it.
"""

import time
from collections.abc import Callable, Hashable

import numpy as np

from kbroker.net.connections.connection import Connection
from kbroker.net.fetch.fetch_kernel import plan_fetch, serve_fetch
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, Outcome, Plan
from kbroker.purgatory.delayed_operation import DelayedOperation
from kbroker.purgatory.purgatory import Purgatory

Serve = Callable[[Connection, bytes], None]


class WaitingFetch(DelayedOperation):
    """One request. ended(waiting, served): called when the kernel has answered it, or Python
    must."""

    __slots__ = ("_address", "_ended", "_frame", "_tables", "began_ns", "connection")

    def __init__(
        self,
        tables: NetworkTables,
        connection: Connection,
        frame: bytes,
        ended: "Callable[[WaitingFetch, bool], None]",
    ) -> None:
        super().__init__(0)
        self._tables = tables
        self._frame = frame
        self._address = int(np.frombuffer(frame, np.uint8).ctypes.data)
        self._ended = ended
        self.connection = connection
        self.began_ns = time.monotonic_ns()

    @property
    def frame(self) -> bytes:
        return self._frame

    def plan_again(self) -> int:
        """Plan again: WAITING, READY or TO_PYTHON."""
        return plan_fetch(self._tables.address, self.connection.row, self._address, len(self._frame))

    def can_complete(self) -> bool:
        return self.plan_again() != Outcome.WAITING

    def can_complete_after(self, key: Hashable) -> bool:  # noqa: ARG002  one call checks all of them
        return self.plan_again() != Outcome.WAITING

    def on_complete(self, expired: bool) -> None:  # noqa: ARG002  the answer has the bytes that exist
        row = self.connection.row
        served = serve_fetch(self._tables.address, row, self._address, len(self._frame), 1)
        self._ended(self, served == Outcome.SERVED)


class WaitingFetches:
    """purgatory: shared with the fetches that Python serves. serve(connection, frame): let Python
    serve it.

    ended(connection): the kernel has answered; takes the kernel's events and lets the connection
    continue."""

    def __init__(
        self,
        tables: NetworkTables,
        purgatory: Purgatory[int],
        serve: Serve,
        ended: Callable[[Connection], None],
    ) -> None:
        self._tables = tables
        self._purgatory = purgatory
        self._serve = serve
        self._on_ended = ended

    def take(self, connection: Connection, frame: bytes, now_ms: int) -> None:
        """Delay a request for which there are too few bytes."""
        waiting = WaitingFetch(self._tables, connection, frame, self._ended)
        state = waiting.plan_again()
        if state == Outcome.TO_PYTHON:
            self._serve(connection, frame)
            return
        words = self._tables.words
        waiting.expiry_ms = now_ms + int(words[Context.PLAN_MAX_WAIT])
        slots = self._tables.plan[: int(words[Context.PLAN_COUNT]), Plan.SLOT].tolist()
        connection.on_close = lambda: self._cancel(waiting)
        if state == Outcome.READY:
            self._purgatory.complete(waiting)
        else:
            self._purgatory.watch(waiting, slots)

    def _cancel(self, waiting: WaitingFetch) -> None:
        self._purgatory.cancel(waiting)

    def _ended(self, waiting: WaitingFetch, served: bool) -> None:
        connection = waiting.connection
        connection.on_close = None
        if served:
            self._on_ended(connection)
        else:
            waited_ns = time.monotonic_ns() - waiting.began_ns
            connection.purgatory_ns = connection.earlier_ns = waited_ns
            self._serve(connection, waiting.frame)
