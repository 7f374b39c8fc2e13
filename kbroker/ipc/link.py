"""Links: duplex message channels between processes over Unix sockets, with calls, replies and
one-way messages.

A frame holds messages (`wire.py`), or, with the highest bit of its length set, a block of requests
or answers (`block.py`), or, with the next bit set, a piece of a long message (`long_messages.py`).
Any other bytes close the link. The caller chooses the call ids; 0 means no reply, and a negative id
means that the reply is sent in a block. ``AsyncLink`` is for processes with an event loop (network,
control), ``PolledLink`` (`polled_link.py`) for the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, cast

import numpy as np

from kbroker.ipc.block import FAILED, pack_answer
from kbroker.ipc.block_kernel import block_is_whole
from kbroker.ipc.long_messages import (
    LONG_BYTES,
    PIECE,
    IncomingMessages,
    Outgoing,
    OutgoingMessages,
    is_piece,
)
from kbroker.ipc.messages import (
    ClientRequest,
    DeleteRecords,
    DescribeProducers,
    EpochEndOffset,
    LongRequest,
    Reply,
)
from kbroker.ipc.wire import LENGTH, Decoder, Malformed, pack, pack_all, reply_decoder, unpack
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.long_frame import LongFrame

BLOCK: Final = 1 << 31
MAX_BYTES: Final = PIECE - 1
"""Maximum of a frame: an image of all topics is by far the largest."""
FREQUENT = frozenset((Reply, ClientRequest, EpochEndOffset, DescribeProducers, DeleteRecords))
"""Messages that every request causes: several of them are sent in one frame."""
TOGETHER = 16
"""Maximum of messages in one frame: the other side begins with them while this one makes the next
ones."""
MAX_TOGETHER = 64
"""Maximum of answers in one frame, once this number of them was sent in this turn of the loop: the
other side has work then, and each write costs both sides as much as several answers."""
TOGETHER_BYTES = 1 << 16
"""Maximum of answers that an answer waits for."""

log = logging.getLogger(__name__)

Answered = Callable[[Reply | None], None]
"""Called with the reply to a call, None when the link is lost."""


def frame_block(block: bytes) -> bytes:
    """One frame of a block."""
    return LENGTH.pack(len(block) | BLOCK) + block


class FrameReader:
    """Cuts received bytes into ``(call_id, body)`` messages.

    decoder_of: takes the decoder of the reply to a call; None for a call without a waiter, whose
    reply is skipped. on_block: called with each block, in order; without it a block is
    malformed. of_requests: what blocks hold, else answers.
    """

    def __init__(
        self,
        decoder_of: Callable[[int], Decoder | None],
        on_block: Callable[[bytearray], None] | None = None,
        of_requests: bool = True,
    ) -> None:
        self._buffer = bytearray()
        self._decoder_of = decoder_of
        self._on_block = on_block
        self._of_requests = of_requests
        self._incoming = IncomingMessages()

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[int, Any]]:
        """Add bytes; yields each message that is now complete. Raises Malformed."""
        self._buffer += data
        position = 0
        while len(self._buffer) - position >= 4:
            (word,) = LENGTH.unpack_from(self._buffer, position)
            length = word & MAX_BYTES
            if word & PIECE and (word & BLOCK or not is_piece(length)):
                raise Malformed(f"a frame of {word:#x} bytes")
            if len(self._buffer) - position - 4 < length:
                break
            payload = self._buffer[position + 4 : position + 4 + length]
            position += 4 + length
            if word & BLOCK:
                self._block(payload)
            elif word & PIECE:
                yield from self._incoming.take(payload)
            else:
                yield from self._messages(payload)
        del self._buffer[:position]

    def _block(self, block: bytearray) -> None:
        if self._on_block is None:
            raise Malformed("a block on a link that takes none")
        address = int(np.frombuffer(block, np.uint8).ctypes.data)
        if not block_is_whole(address, len(block), self._of_requests):
            raise Malformed(f"a block of {len(block)} bytes whose lengths do not fit")
        self._on_block(block)

    def _messages(self, payload: bytearray) -> Iterator[tuple[int, Any]]:
        for call_id, body in unpack(payload, self._decoder_of):
            if type(body) is LongRequest:
                self._incoming.announce(call_id, body)
            else:
                yield call_id, body


class LinkClosed(ConnectionError):
    """The peer has closed the link or died; the outcome of a call in progress is unknown."""


Handler = Callable[["AsyncLink", int, Any], None]


class AsyncLink(asyncio.Protocol):
    """One end of a link inside an event loop. Runs in: network, control. Owner: the process's main.

    on_message(link, call_id, body) is called for everything but replies and blocks; on_block(link,
    block) for those (without it, a block closes the link); on_lost(link) once at the end, before
    the pending calls end. of_requests: what blocks hold, else answers.
    """

    def __init__(
        self,
        on_message: Handler,
        on_lost: Callable[["AsyncLink"], None] | None = None,
        on_block: Callable[["AsyncLink", bytearray], None] | None = None,
        of_requests: bool = True,
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        taken = None if on_block is None else partial(on_block, self)
        self._reader = FrameReader(self._decoder_of, taken, of_requests)
        self._calls: dict[int, tuple[Answered, Decoder]] = {}
        self._next_call = 1
        self._out: list[bytes | tuple[int, Any] | list[bytes]] = []
        self._waiting = self._waiting_bytes = 0
        self._left = 0  # answers of this turn
        self._transport: asyncio.Transport | None = None
        self._outgoing = OutgoingMessages(self._write_piece)
        self.on_long_answer: Callable[[int, LongFrame], None] | None = None
        """Called with the call and the answer of a request in a block, if the answer is long."""
        self.peer: Any = None  # the owner's data about the other side

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self._transport.set_write_buffer_limits(high=0)  # written bytes are sent now, not after the turn

    def data_received(self, data: bytes) -> None:
        try:
            for call_id, body in self._reader.feed(data):
                if isinstance(body, Reply):
                    self._settle(body)
                else:
                    self._on_message(self, call_id, body)
        except Malformed as error:
            log.error("a link is closed, because of an invalid message: %s", error)
            if self._transport is not None:
                self._transport.abort()

    def _decoder_of(self, call_id: int) -> Decoder | None:
        called = self._calls.get(call_id)
        return None if called is None else called[1]

    def _settle(self, reply: Reply) -> None:
        called = self._calls.pop(reply.call_id, None)
        if called is not None:
            called[0](reply)
        elif reply.call_id < 0 and self.on_long_answer is not None:
            self.on_long_answer(reply.call_id, reply.value)

    def pause_writing(self) -> None:
        self._outgoing.pause()

    def resume_writing(self) -> None:
        self._outgoing.resume()

    def _write_piece(self, piece: bytes) -> None:
        if self._transport is not None:
            self._transport.write(piece)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio.Protocol's signature
        self._transport = None
        self._outgoing.drop()
        calls, self._calls = self._calls, {}
        if self._on_lost is not None:
            self._on_lost(self)
        for answered, _ in calls.values():
            answered(None)

    def _write(self, call_id: int, body: Any, now: bool = False) -> None:
        """Send the messages of one turn of the loop in few writes. now: encode at once, the body
        may change."""
        self._put(pack(call_id, body) if now or type(body) not in FREQUENT else (call_id, body))

    def _put(self, message: bytes | tuple[int, Any] | list[bytes]) -> None:
        out = self._out
        if not out:
            asyncio.get_running_loop().call_soon(self._end_turn)
        out.append(message)
        self._waiting += 1
        if self._waiting >= TOGETHER:
            self._flush()

    def answer(self, messages: bytes) -> None:
        """Send packed answers of a block, together with the other messages of this turn."""
        out = self._out
        self._waiting_bytes += len(messages)
        if not out or not isinstance(out[-1], list):
            self._put([messages])
            return
        out[-1].append(messages)
        self._waiting += 1
        many = self._left >= MAX_TOGETHER and self._waiting_bytes < TOGETHER_BYTES
        if self._waiting >= (MAX_TOGETHER if many else TOGETHER):
            self._left += self._waiting
            self._flush()

    def _end_turn(self) -> None:
        self._flush()
        self._left = 0

    def send_block(self, block: bytes) -> None:
        """Send a block of requests at once."""
        self._flush()
        if self._transport is not None:
            self._transport.write(frame_block(block))

    def _flush(self) -> None:
        out, self._out = self._out, []
        self._waiting = self._waiting_bytes = 0
        if not out or self._transport is None:
            return
        frames: list[bytes] = []
        frequent: list[tuple[int, Any]] = []
        for message in out:
            if isinstance(message, tuple):
                frequent.append(message)
                continue
            if frequent:
                frames.append(pack_all(frequent))
                frequent = []
            frames.append(message if isinstance(message, bytes) else frame_block(b"".join(message)))
        if frequent:
            frames.append(pack_all(frequent))
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def send(self, body: Any) -> None:
        """One-way message; silently dropped when the link is down."""
        if self._transport is not None:
            self._write(0, body)

    def ask(self, body: Any, answered: Answered) -> None:
        """Send a call; `answered` gets the reply, or at once None when the link is down."""
        if self._transport is None:
            answered(None)
            return
        call_id = self._next_call
        self._next_call += 1
        self._calls[call_id] = answered, reply_decoder(body)
        self._write(call_id, body)

    def ask_long(
        self, request: ClientRequest, body: memoryview, answered: Answered, sent: Callable[[], None]
    ) -> None:
        """As `ask`, of a request without its body, which follows in pieces. sent: called once the
        body is no longer needed."""
        if self._transport is None:
            sent()
            answered(None)
            return
        call_id = self._next_call
        self._next_call += 1
        self._calls[call_id] = answered, reply_decoder(request)
        self._write(call_id, LongRequest(request, len(body)))
        self._flush()
        self._outgoing.add(Outgoing(call_id, (body,), sent))

    def call(self, body: Any) -> "Awaitable[Any]":
        """Send and await the reply's value; raises KafkaError for an error reply, LinkClosed if the
        peer dies."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ask(body, partial(_settle_future, future))
        return future

    def reply(self, call_id: int, value: Any = None, error: int = 0, message: str = "") -> None:
        """Answer a call; a no-op for one-way messages."""
        if not call_id or self._transport is None:
            return
        if isinstance(value, LongFrame):
            self._outgoing.add(Outgoing(call_id, value.parts))
        elif isinstance(value, bytes) and len(value) > LONG_BYTES:
            self._outgoing.add(Outgoing(call_id, (value,)))
        elif call_id < 0:
            self.answer(pack_answer(call_id, value, FAILED if error else 0))
        elif value is None or isinstance(value, bytes):
            self._write(0, Reply(call_id, value and bytes(value), error, message))
        else:
            self._write(0, Reply(call_id, value, error, message), now=True)

    def close(self) -> None:
        """Close once all written bytes are sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()


def _settle_future(future: "asyncio.Future[Any]", reply: Reply | None) -> None:
    if future.done():
        return
    if reply is None:
        future.set_exception(LinkClosed("the other process went away"))
    elif reply.error:
        future.set_exception(KafkaError(ErrorCode(reply.error), reply.message))
    else:
        future.set_result(reply.value)
