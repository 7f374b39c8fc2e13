"""Answers to Produce that Python sends: answers with error messages, and those of clients that may
have a quota.
"""

from typing import Final

from kbroker.net.connection import Connection, Part, State
from kbroker.net.context import Context
from kbroker.net.produce.checks import ProduceChecks
from kbroker.net.produce.queue_kernel import build_answer
from kbroker.net.rows import Context as ContextRow
from kbroker.net.rows import Request
from kbroker.net.usage.quotas import Quotas
from kbroker.net.usage.slow_requests import SlowRequests
from kbroker.protocol.frame import parse_request
from kbroker.protocol.long_frame import LongFrame

LONG_BYTES: Final = 1 << 15
"""Maximum bytes of an answer that is built at once: about seven hundred partitions."""


class ProduceAnswers:
    """Runs in: network. Owner: the process."""

    def __init__(self, context: Context, checks: ProduceChecks, quotas: Quotas, slow: SlowRequests) -> None:
        self._context = context
        self._checks = checks
        self._quotas = quotas
        self._slow = slow

    def is_long(self, number: int) -> bool:
        """Whether a complete request names so many partitions that its answer is built in
        slices."""
        return bool(self._context.requests[number, Request.BOUND] > LONG_BYTES)

    def answer(self, connection: Connection, number: int) -> list[Part]:
        """The parts of the framed answer to a complete request; none for acks=0, or if the
        connection is closed meanwhile. Raises ProtocolError."""
        request = self._context.requests[number].tolist()
        throttle_ms = self._throttle_ms(connection, request) if self._quotas.active else 0
        if self._slow.on:
            self._slow.produced(connection, request, throttle_ms)
        if request[Request.ACKS] == 0:
            return []
        if request[Request.PYTHON] != 1 and (frame := self._ordinary(number, throttle_ms)):
            return [frame]
        found = self._checks.answer(number, throttle_ms, lambda: connection.state is State.CLOSED)
        return found.parts if isinstance(found, LongFrame) else [found]

    def _throttle_ms(self, connection: Connection, request: list[int]) -> int:
        start, size = request[Request.FRAME], request[Request.FRAME_BYTES]
        header, _ = parse_request(self._context.arena_bytes[start : start + size])
        began_ns = request[Request.RECEIVED_NS] if request[Request.ACKS] else 0
        return self._quotas.produced(connection, header.client_id, size, began_ns)

    def _ordinary(self, number: int, throttle_ms: int) -> bytes:
        """The answer as the kernel builds it; empty when its scratch has no room."""
        words = self._context.words
        words[ContextRow.THROTTLE_MS] = throttle_ms
        length = build_answer(self._context.address, number)
        words[ContextRow.THROTTLE_MS] = 0
        start = int(words[ContextRow.OUT_USED])
        return self._context.out[start : start + length].tobytes()
