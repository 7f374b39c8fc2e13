"""One client connection on the Python side: its client, its state, and the bytes that are still to
be sent.

The kernels keep their state of it in a row of the connection table. A connection that is idle or
only produces never touches this object.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbroker.config.listeners import Endpoint
from kbroker.config.principals import ANONYMOUS, user_principal
from kbroker.ipc.fds import Accepted
from kbroker.net.security.grant import Grant
from kbroker.net.security.login import Login

GATHER = 64  # buffers of one writev
AT_ONCE = 1 << 19  # bytes that one turn sends to one client, besides those of files


class State(Enum):
    """Kind of the next bytes of a connection."""

    HANDSHAKE = "TLS handshake"
    AUTHENTICATING = "SASL exchange"
    READY = "requests"
    CLOSED = "closed"


class FileSource(Protocol):
    """An open file that stays open while something refers to it."""

    fd: int


class FilePart:
    """Bytes of a file in an answer, sent by sendfile."""

    __slots__ = ("length", "position", "source")

    def __init__(self, source: FileSource, position: int, length: int) -> None:
        self.source = source
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length


Part = bytes | bytearray | memoryview | FilePart

PARTS = 16
"""Parts of an answer by which its memory is estimated; it may have a hundred thousand."""


def held_bytes(unsent: Sequence[Part]) -> int:
    """About the memory of an answer's rest; ranges of files hold none."""
    first = [0 if isinstance(part, FilePart) else len(part) for part in islice(unsent, PARTS)]
    return sum(first) * len(unsent) // len(first) if first else 0


class Connection:
    """Runs in: network. Owner: the process that got the descriptor; only it closes it."""

    __slots__ = (
        "accepted",
        "access",
        "answer_bytes",
        "answer_scope",
        "answered_ns",
        "api_key",
        "api_version",
        "began_ns",
        "bytes_of",
        "client_id",
        "cold_ns",
        "earlier_ns",
        "end",
        "fd",
        "grant",
        "listener",
        "login",
        "long_peer",
        "on_answer_sent",
        "on_close",
        "on_end",
        "on_gone",
        "on_sent",
        "purgatory_ns",
        "queued_ns",
        "quota_known",
        "relayed",
        "request_bytes",
        "row",
        "software_name",
        "software_version",
        "state",
        "throttle_ms",
        "token_authenticated",
        "unsent",
        "user",
    )

    def __init__(self, accepted: Accepted, fd: int, row: int, listener: Endpoint) -> None:
        self.accepted = accepted
        self.fd = fd
        self.row = row
        self.listener = listener
        self.state = State.READY
        self.user = ANONYMOUS
        self.token_authenticated = False  # the user has logged in by a delegation token
        self.client_id = ""  # of its last request that Python served while quotas were set
        self.quota_known = False  # the quotas of its client are known
        self.bytes_of: str | None = None  # the client id that its bytes are counted for
        self.throttle_ms = 0  # of its last answer, while there are quotas
        self.unsent: deque[Part] = deque()
        self.on_sent: Callable[[], None] | None = None  # once, when unsent has become empty
        self.on_close: Callable[[], None] | None = None  # cancels operations that wait for this client
        self.api_key = -1  # of the request that Python is answering
        self.api_version = self.request_bytes = 0
        self.answer_bytes = 0
        self.began_ns = self.queued_ns = 0  # of that request, see RequestCounts
        self.purgatory_ns = self.cold_ns = 0  # times that it waited for records, and for the disk
        self.earlier_ns = 0  # of it, the time before Python got the request
        self.answered_ns = 0  # when its answer was built
        # called once, when its answer is sent
        self.on_answer_sent: Callable[[Connection], None] | None = None
        self.long_peer: NDArray[np.uint8] | None = None  # see PackedPeers
        self.end = ""  # why it was closed
        self.login: Login | None = None  # on SASL listeners
        self.grant: Grant | None = None  # its permissions; None: everything is allowed
        # the access row of the kernels, and the objects that the row refers to
        self.access: tuple[NDArray[np.int64], object] | None = None
        self.relayed = False  # a TLS relay has sockets of it
        self.answer_scope = 0  # of answers that depend on the client
        # as on_close, but it stays for the life of the connection
        self.on_end: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None  # notifies control, if control requested it
        self.software_name = self.software_version = ""  # of the client, by its ApiVersions request

    def is_closed(self) -> bool:
        """Whether it has been closed, perhaps while its request was served."""
        return self.state is State.CLOSED

    @property
    def peer(self) -> str:
        """Address for log lines."""
        return f"{self.accepted.host}:{self.accepted.port}"

    @property
    def principal(self) -> str:
        """The client's identity, as Kafka writes it."""
        return user_principal(self.user)

    def unsent_bytes(self) -> int:
        """About the memory of the bytes that are still to be sent."""
        return held_bytes(self.unsent)

    def send(self, parts: Sequence[Part]) -> int:
        """Send in order, after the unsent bytes; returns the bytes that were sent now. OSError: the
        peer has disconnected."""
        first = parts[0]
        if len(parts) == 1 and not self.unsent and isinstance(first, bytes) and len(first) <= AT_ONCE:
            return self._send_whole(first)
        self.unsent += parts
        return self.flush()

    def _send_whole(self, answer: bytes) -> int:
        """Send an answer in one call: nearly every answer of control fits into the socket."""
        try:
            sent = os.write(self.fd, answer)
        except BlockingIOError:
            sent = 0
        if sent < len(answer):
            self.unsent.append(memoryview(answer)[sent:])
        return sent

    def flush(self) -> int:
        """Send until the socket is full, or enough for a turn; returns the bytes that were sent.
        OSError when the peer has disconnected."""
        unsent = self.unsent
        total = 0
        while unsent and total < AT_ONCE:
            first = unsent[0]
            if isinstance(first, FilePart):
                sent = self._send_file(first)
                if first.length:
                    return total + sent
                unsent.popleft()
            else:
                sent = self._send_buffers()
                if sent < 0:
                    return total
            total += sent
        return total

    def _send_file(self, part: FilePart) -> int:
        total = 0
        while part.length:
            try:
                sent = os.sendfile(self.fd, part.source.fd, part.position, part.length)
            except BlockingIOError:
                break
            if sent == 0:
                raise OSError(
                    f"a segment file became shorter while it was sent ({part.length} bytes missing)"
                )
            part.position += sent
            part.length -= sent
            total += sent
        return total

    def _send_buffers(self) -> int:
        """One writev of the leading buffers; -1 when the socket is full."""
        unsent = self.unsent
        buffers: list[bytes | bytearray | memoryview] = []
        room = AT_ONCE
        for part in unsent:
            if isinstance(part, FilePart) or len(buffers) == GATHER or room <= 0:
                break
            buffers.append(part if len(part) <= room else memoryview(part)[:room])
            room -= len(part)
        try:
            sent = os.writev(self.fd, buffers)
        except BlockingIOError:
            return -1
        left = sent
        while left or (unsent and not isinstance(unsent[0], FilePart) and len(unsent[0]) == 0):
            first = unsent[0]
            assert not isinstance(first, FilePart)
            if len(first) > left:
                unsent[0] = memoryview(first)[left:]
                break
            left -= len(first)
            unsent.popleft()
        return sent
