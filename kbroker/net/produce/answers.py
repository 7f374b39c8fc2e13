"""Answers to Produce that Python sends: answers with error messages, and those of clients that may
have a quota.
"""

from functools import partial
from typing import Final, Protocol

from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection, Part, State
from kbroker.net.connections.server import Server
from kbroker.net.network_tables import NetworkTables
from kbroker.net.produce.checks import ProduceChecks
from kbroker.net.produce.queue_kernel import build_answer, pop_answered
from kbroker.net.rows import AnswerBy, Context, Request
from kbroker.net.usage.quotas import Quotas
from kbroker.net.usage.request_counts import RequestCounts
from kbroker.protocol.frame import parse_request
from kbroker.protocol.long_frame import LongFrame
from kbroker.protocol.schema import ProtocolError

LONG_BYTES: Final = 1 << 15
"""Maximum bytes of an answer that is built at once: about seven hundred partitions."""


class Process(Protocol):
    """The part of the process that is used here."""

    tables: NetworkTables
    connections: dict[int, Connection]
    answers: Answers
    checks: ProduceChecks
    counts: RequestCounts
    quotas: Quotas
    server: Server

    def refuse(self, connection: Connection, why: str) -> None:
        """Close for a client's fault, with one log line."""


class ProduceAnswers:
    """Runs in: network. Owner: the process. number: of a complete request."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tables = process.tables
        self._checks = process.checks
        self._quotas = process.quotas
        self._counts = process.counts
        self._slow = process.counts.slow
        self._sliced: set[Connection] = set()
        """Connections whose answer is built in slices."""

    def on_answer(self, row: int, number: int, *_: int) -> None:
        """Event: a request at the head of a connection's queue is complete. It is reported again if
        the connection resumes for another reason, such as a check of a later request, while its
        answer is built."""
        connection = self._process.connections.get(row)
        if connection is None or connection in self._sliced:
            return
        if self._tables.requests[number, Request.BOUND] > LONG_BYTES:
            self._sliced.add(connection)
            self._process.server.in_slices(connection, partial(self._send_sliced, connection, number))
        else:
            self._send(connection, number)

    def _send_sliced(self, connection: Connection, number: int) -> None:
        try:
            self._send(connection, number)
        finally:
            self._sliced.discard(connection)

    def _send(self, connection: Connection, number: int) -> None:
        try:
            parts = self._answer(connection, number)
        except ProtocolError as error:  # text that is not UTF-8, which the kernel does not check
            self._process.refuse(connection, str(error))
            return
        if connection.state is State.CLOSED:  # closed meanwhile, and its request is freed
            return
        pop_answered(self._tables.address, connection.row)
        self._counts.produced(sum(map(len, parts)))
        self._process.answers.send_produced(connection, parts)

    def _answer(self, connection: Connection, number: int) -> list[Part]:
        """The parts of the framed answer to a complete request; none for acks=0, or if the
        connection is closed meanwhile. Raises ProtocolError."""
        request = self._tables.requests[number].tolist()
        throttle_ms = self._throttle_ms(connection, request) if self._quotas.active else 0
        if self._slow.on:
            self._slow.produced(connection, request, throttle_ms)
        if request[Request.ACKS] == 0:
            return []
        if request[Request.ANSWER] != AnswerBy.PYTHON and (frame := self._ordinary(number, throttle_ms)):
            return [frame]
        found = self._checks.refusals.answer(number, throttle_ms, lambda: connection.state is State.CLOSED)
        return found.parts if isinstance(found, LongFrame) else [found]

    def _throttle_ms(self, connection: Connection, request: list[int]) -> int:
        start, size = request[Request.FRAME], request[Request.FRAME_BYTES]
        header, _ = parse_request(self._tables.arena_bytes[start : start + size])
        began_ns = request[Request.RECEIVED_NS] if request[Request.ACKS] else 0
        return self._quotas.produced(connection, header.client_id, size, began_ns)

    def _ordinary(self, number: int, throttle_ms: int) -> bytes:
        """The answer as the kernel builds it; empty when its scratch has no room."""
        words = self._tables.words
        words[Context.THROTTLE_MS] = throttle_ms
        length = build_answer(self._tables.address, number)
        words[Context.THROTTLE_MS] = 0
        start = int(words[Context.OUT_USED])
        return self._tables.out[start : start + length].tobytes()
