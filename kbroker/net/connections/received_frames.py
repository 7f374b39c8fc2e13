"""Requests that the kernel has left to Python: short ones are copied out of the arena, long ones
stay there until they are read or sent to control. Malformed requests close their connections.

Runs in: network. Owner: the process.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from kbroker.ipc.long_messages import LONG_BYTES
from kbroker.net.connections.connection import Connection, State
from kbroker.net.connections.server import Server
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rate_limited_log import bad_size, not_served
from kbroker.net.rows import Context
from kbroker.net.rows.chunk_kernel import release_chunk


class Process(Protocol):
    """The part of the process that is used here."""

    tables: NetworkTables
    connections: dict[int, Connection]
    server: Server

    def request_turn(self) -> None:
        """Request a turn."""

    def refuse(self, connection: Connection, why: str) -> None:
        """Close for a client's fault, with one log line."""


class ReceivedFrames:
    """Handlers of the events that bring a frame: (connection row, arena offset, bytes, chunk), or
    name one that is answered."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tables = process.tables

    def request(self, row: int, offset: int, length: int, chunk: int) -> None:
        """A request to be served."""
        connection = self._process.connections.get(row)
        if length > LONG_BYTES and connection is not None and connection.state is State.READY:
            frame = memoryview(self._tables.arena_bytes)[offset : offset + length]
            self._process.server.take_long(connection, frame, partial(self._release, chunk))
        else:
            self._serve(self._process.server.take, connection, offset, length, chunk)

    def wait(self, row: int, offset: int, length: int, chunk: int) -> None:
        """A fetch that waits for bytes."""
        connection = self._process.connections.get(row)
        self._serve(self._process.server.wait, connection, offset, length, chunk)

    def introduced(self, row: int, number: int, *_: int) -> None:
        """ApiVersions, which the kernel has answered."""
        if (connection := self._process.connections.get(row)) is not None:
            self._process.server.introduced(connection, number)

    def _serve(
        self,
        serve: Callable[[Connection, bytes], None],
        connection: Connection | None,
        offset: int,
        length: int,
        chunk: int,
    ) -> None:
        frame = bytes(self._tables.arena_bytes[offset : offset + length])
        release_chunk(self._tables.address, chunk)
        if connection is not None:
            serve(connection, frame)

    def _release(self, chunk: int) -> None:
        """Release a chunk; request a turn if requests wait for room."""
        release_chunk(self._tables.address, chunk)
        if self._tables.words[Context.STALLED] >= 0:
            self._process.request_turn()


class RefusedFrames:
    """Handlers of the events that name a bad frame; the first argument is the connection's row."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tables = process.tables

    def bad_size(self, row: int, size: int, *_: int) -> None:
        """A frame of an impossible size."""
        self._refuse(row, bad_size(size, int(self._tables.words[Context.MAX_FRAME])))

    def unserved(self, row: int, api_key: int, version: int, _: int) -> None:
        """A request of an API or a version that the broker does not serve."""
        self._refuse(row, not_served(api_key, version))

    def bad_request(self, row: int, offset: int, length: int, chunk: int) -> None:
        """A Produce request that is not well formed."""
        head = bytes(self._tables.arena_bytes[offset : offset + min(length, 16)])
        release_chunk(self._tables.address, chunk)
        version = int.from_bytes(head[2:4], "big", signed=True)
        self._refuse(row, f"a Produce request v{version} of {length} bytes cannot be parsed")

    def _refuse(self, row: int, why: str) -> None:
        if (connection := self._process.connections.get(row)) is not None:
            self._process.refuse(connection, why)
