"""One connection of the load: a request, then its answer. It blocks, so each has a thread."""

import socket
import struct
from types import TracebackType

from tuning.verify import wire

WAIT_S = 40.0
MAX_BYTES = 8 << 20


class Connection:
    """Owner: the thread that uses it. Raises OSError for a broker that is gone or silent."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self.topic = topic
        self._socket = socket.create_connection(address, timeout=WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = memoryview(bytearray(MAX_BYTES))

    def create_topic(self, partitions: int) -> None:
        wire.check_created(self._ask(wire.create_topic(self.topic, partitions)), self.topic)

    def produce(self, request: bytes) -> None:
        """Send a request of `wire.produce` and wait for the acknowledgement. Raises Refused."""
        wire.check_produced(self._ask(request), self.topic)

    def fetch(self, partition: int, offset: int, max_bytes: int) -> int:
        """Fetch records and drop them; returns their bytes. Raises Refused."""
        answer = self._ask(wire.fetch(self.topic, partition, offset, max_bytes))
        return wire.fetched_bytes(answer, self.topic)

    def _ask(self, request: bytes) -> bytes:
        """The answer's first bytes: all that is looked at."""
        self._socket.sendall(request)
        self._receive(4)
        (length,) = struct.unpack_from(">i", self._room)
        if not 0 < length <= MAX_BYTES:
            raise wire.Refused(f"an answer of {length} bytes")
        self._receive(length)
        return bytes(self._room[: min(length, wire.fetch_head_bytes(self.topic) + 16)])

    def _receive(self, length: int) -> None:
        have = 0
        while have < length:
            got = self._socket.recv_into(self._room[have:length])
            if not got:
                raise ConnectionError("the broker closed the connection")
            have += got

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
