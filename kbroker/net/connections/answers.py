"""Answers of Python, and the rest of those of kernels that a socket did not take at once."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kbroker.kernels.libc import Epoll
from kbroker.net.connections.connection import Connection, FilePart, Part, State
from kbroker.net.connections.server import Server
from kbroker.net.network_tables import NetworkTables
from kbroker.net.pump_kernel import arm_row
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context, Flag
from kbroker.net.usage.quotas import Quotas
from kbroker.net.usage.request_counts import RequestCounts


class Process(Protocol):
    """The part of the process that is used here."""

    tables: NetworkTables
    connections: dict[int, Connection]
    counts: RequestCounts
    quotas: Quotas
    server: Server

    def close(self, connection: Connection, reason: str = "") -> None:
        """End a connection."""

    def resume(self, row: int) -> None:
        """Continue a connection that had to stop reading."""


class Answers:
    """Runs in: network. Owner: the process. Bytes that a socket does not take stay with its
    connection (`unsent`), and kernels send nothing on it meanwhile."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tables = process.tables
        self._connections = process.connections
        self._counts = process.counts
        self._quotas = process.quotas

    def send(self, connection: Connection, parts: Sequence[Part], ends_login: bool = False) -> None:
        """Send the answer to a request that Python served, then resume the connection. ends_login:
        it is the last answer of a login, which has no quota."""
        if connection.state is State.CLOSED:
            return
        if self._quotas.active and not ends_login and connection.state is State.READY:
            parts = self._quotas.answered(connection, parts)
        self._counts.answered(connection, parts)
        if self._write(connection, parts):
            then = self.wait_sent if connection.unsent else self._sent
            then(connection)

    def send_produced(self, connection: Connection, parts: Sequence[Part]) -> None:
        """Send the answer to a Produce: the connection reads meanwhile, and kernels may have sent
        the answers before it."""
        if not self._write(connection, parts):
            return
        if connection.unsent:
            self._hold_rest(connection)
        else:
            self._unblock(connection.row)

    def wait_sent(self, connection: Connection) -> None:
        """Resume the connection when its unsent bytes are sent."""
        self._hold(connection, partial(self._sent, connection))

    def clear_busy(self, row: int) -> None:
        """The connection may read again: the answer to its request is sent."""
        if self._tables.connections[row, ConnectionRow.FLAGS] & Flag.OPEN:
            self._unblock(row, ~Flag.BUSY)

    # --- events of kernels ----------------------------------------------------------------------------

    def on_unsent(self, row: int, address: int, length: int, _: int) -> None:
        """Event: the socket did not take all bytes of an answer."""
        if (connection := self._connections.get(row)) is None:
            return
        start = address - int(self._tables.words[Context.OUT])
        connection.unsent.append(self._tables.out[start : start + length].tobytes())
        self._hold_rest(connection)

    def on_unsent_file(self, row: int, fd: int, position: int, length: int) -> None:
        """Event: the socket did not take all bytes of a file."""
        if (connection := self._connections.get(row)) is None:
            return
        connection.unsent.append(FilePart(self._process.server.source(fd), position, length))
        self._hold_rest(connection)

    def on_writable(self, row: int, *_: int) -> None:
        """Event: the socket takes bytes again."""
        if (connection := self._connections.get(row)) is None:
            return
        if self._write(connection, []) and not connection.unsent:
            then, connection.on_sent = connection.on_sent, None
            if then is not None:
                then()
            else:
                self._disarm(row)

    # --- bytes ----------------------------------------------------------------------------------------

    def _write(self, connection: Connection, parts: Sequence[Part]) -> bool:
        """False: the peer has disconnected, and the connection is closed."""
        row = self._tables.connections[connection.row]
        try:
            sent = connection.send(parts) if parts else connection.flush()
        except OSError as error:
            self._process.close(connection, f"send: {error}")
            return False
        if sent:
            row[ConnectionRow.BYTES_OUT] += sent
            self._counts.sent(sent)
            row[ConnectionRow.LAST_NS] = time.monotonic_ns()
        return True

    def _sent(self, connection: Connection) -> None:
        self._counts.answer_sent(connection)
        self.clear_busy(connection.row)

    def _hold_rest(self, connection: Connection) -> None:
        """Let the kernel send again when the unsent bytes are sent."""
        self._hold(connection, partial(self._unblock, connection.row))

    def _hold(self, connection: Connection, then: Callable[[], None]) -> None:
        connection.on_sent = then
        self._tables.connections[connection.row, ConnectionRow.FLAGS] |= Flag.OUT_BLOCKED
        arm_row(self._tables.address, connection.row, Epoll.OUT)

    def _disarm(self, row: int) -> None:
        """All bytes are sent and the connection is not read yet, because it is throttled or busy:
        else epoll would report the whole time that its socket takes bytes."""
        words = self._tables.connections[row]
        if words[ConnectionRow.ARMED] & Epoll.OUT and not words[ConnectionRow.FLAGS] & Flag.SENDING:
            arm_row(self._tables.address, row, 0)

    def _unblock(self, row: int, keep: int = -1) -> None:
        """Let the kernel send again, unless older bytes still wait here. keep: flags that remain
        set."""
        words = self._tables.connections[row]
        flags = int(words[ConnectionRow.FLAGS]) & keep
        if not self._connections[row].unsent and not flags & Flag.SENDING:
            flags &= ~Flag.OUT_BLOCKED
        words[ConnectionRow.FLAGS] = flags
        self._process.resume(row)
