"""Long requests and answers of clients cross a link in pieces: neither side is blocked by one of
them, and short messages are sent between its pieces.

A piece is a frame with PIECE set in its length: call id, bytes that are left after it, content.
The pieces of a request follow its LongRequest and fill a body that is allocated once; those of an
answer become a LongFrame. Pieces of several messages take turns.
"""

import asyncio
import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from kbroker.ipc.messages import ClientRequest, LongRequest, Reply
from kbroker.ipc.wire import Malformed
from kbroker.protocol.long_frame import LongFrame

PIECE: Final = 1 << 30
LONG_BYTES: Final = 1 << 19
"""Requests and answers from this length on cross in pieces. Answers up to it may be cached."""
PIECE_BYTES: Final = 1 << 17
MAX_LEFT: Final = 1 << 30
REPEATABLE_BYTES: Final = 1 << 16
"""No kernel repeats the answer to a longer request."""
GIVE_BACK_BYTES: Final = 1 << 22
HEAD: Final = struct.Struct("<qq")
HEADED: Final = struct.Struct("<Iqq")

Parts = Iterable[bytes | bytearray | memoryview]


def is_piece(length: int) -> bool:
    """Whether a piece may have this length, its head included."""
    return HEAD.size < length <= HEAD.size + PIECE_BYTES


class IncomingMessages:
    """Long messages of one link that have arrived in part. Owner: the link's FrameReader."""

    def __init__(self) -> None:
        self._requests: dict[int, tuple[ClientRequest, memoryview]] = {}
        self._answers: dict[int, list[memoryview]] = {}

    def announce(self, call_id: int, long: LongRequest) -> None:
        """A request follows. Its body takes no memory before its bytes come."""
        if not 0 < long.body_bytes <= MAX_LEFT:
            raise Malformed(f"a long request of {long.body_bytes} bytes")
        room = mmap.mmap(-1, long.body_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._requests[call_id] = long.request, memoryview(room)

    def take(self, payload: bytearray) -> Iterator[tuple[int, Any]]:
        """Add a piece; returns the message that it completes. Raises Malformed."""
        call_id, left = HEAD.unpack_from(payload)
        if not 0 <= left <= MAX_LEFT:
            raise Malformed(f"a piece with {left} bytes left")
        content = memoryview(payload)[HEAD.size :]
        if call_id in self._requests:
            request, body = self._requests[call_id]
            end = len(body) - left
            if end < len(content):
                raise Malformed(f"a piece with {left} of {len(body)} bytes left")
            body[end - len(content) : end] = content
            if not left:
                del self._requests[call_id]
                yield call_id, replace(request, body=body)
            return
        parts = self._answers.setdefault(call_id, [])
        parts.append(content)
        if not left:
            del self._answers[call_id]
            yield 0, Reply(call_id, LongFrame(parts, sum(map(len, parts))))


class Outgoing:
    """One long message that is being sent. left: bytes that are not sent yet."""

    __slots__ = ("_call_id", "_parts", "left", "sent")

    def __init__(self, call_id: int, parts: Parts, sent: Callable[[], None] = lambda: None) -> None:
        self._call_id = call_id
        self._parts = deque(memoryview(part) for part in parts if len(part))
        self.left = sum(map(len, self._parts))
        self.sent = sent

    def next_piece(self) -> bytes:
        """The next frame, while bytes are left."""
        first = self._parts.popleft()
        content = first[:PIECE_BYTES]
        if len(first) > PIECE_BYTES:
            self._parts.appendleft(first[PIECE_BYTES:])
        self.left -= len(content)
        return HEADED.pack(PIECE | HEAD.size + len(content), self._call_id, self.left) + content


class OutgoingMessages:
    """Long messages that are being sent by one link: one piece of one of them in each turn of the
    loop, while the socket takes bytes. Owner: the link."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._messages: deque[Outgoing] = deque()
        self._turn_requested = False
        self._paused = False

    def add(self, message: Outgoing) -> None:
        """Send a message. Its `sent` is called once its parts are no longer needed."""
        self._messages.append(message)
        self._request_turn()

    def pause(self) -> None:
        """The socket is full: pause."""
        self._paused = True

    def resume(self) -> None:
        """The socket takes bytes again: resume."""
        self._paused = False
        self._request_turn()

    def drop(self) -> None:
        """The link is lost."""
        messages, self._messages = self._messages, deque()
        for message in messages:
            message.sent()

    def _request_turn(self) -> None:
        if self._messages and not self._turn_requested and not self._paused:
            self._turn_requested = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_requested = False
        if self._messages and not self._paused:
            message = self._messages.popleft()
            self._write(message.next_piece())
            if message.left:
                self._messages.append(message)
            else:
                message.sent()
        self._request_turn()


async def give_back(body: bytes | memoryview) -> None:
    """Release the memory of a body that was read, a part in each turn: a hundred megabytes take
    milliseconds."""
    room = body.obj if isinstance(body, memoryview) else None
    if not isinstance(room, mmap.mmap):
        return
    for start in range(0, len(room), GIVE_BACK_BYTES):
        room.madvise(mmap.MADV_DONTNEED, start, min(GIVE_BACK_BYTES, len(room) - start))
        await asyncio.sleep(0)
