"""A link's end in a process without an event loop."""

import logging
import socket
from typing import Any

from kbroker.ipc import connecting
from kbroker.ipc.link import FrameReader, LinkClosed
from kbroker.ipc.messages import Reply
from kbroker.ipc.wire import Decoder, Malformed, pack, pack_all, reply_decoder

RECEIVE_BYTES = 1 << 18

log = logging.getLogger(__name__)


class PolledLink:
    """One end of a link for a process that polls. Runs in: io. Owner: the worker's loop. Not
    thread-safe.

    The socket is non-blocking for reading; sending blocks, which is fine towards control, whose
    loop never waits for an IO worker.
    """

    def __init__(self, connector: socket.socket) -> None:
        self.socket = connecting.connect(connector)
        self._calls: dict[int, Decoder] = {}
        self._reader = FrameReader(lambda call_id: self._calls.pop(call_id, None))

    def fileno(self) -> int:
        """The socket's descriptor, for epoll."""
        return self.socket.fileno()

    def receive(self) -> list[tuple[int, Any]]:
        """Every message that has arrived; raises LinkClosed when the peer is gone."""
        messages: list[tuple[int, Any]] = []
        while True:
            try:
                data = self.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return messages
            except OSError as error:
                raise LinkClosed(str(error)) from error
            if not data:
                raise LinkClosed("control went away")
            try:
                messages += self._reader.feed(data)
            except Malformed as error:
                log.error("the link to control is closed, because of an invalid message: %s", error)
                raise LinkClosed(str(error)) from error

    def send(self, body: Any, call_id: int = 0) -> None:
        """Send a message (a call when call_id is given)."""
        if call_id:
            self._calls[call_id] = reply_decoder(body)
        self._send(pack(call_id, body))

    def reply(self, call_id: int, value: Any = None, error: int = 0, message: str = "") -> None:
        """Answer a call."""
        if call_id:
            self._send(pack(0, Reply(call_id, value, error, message)))

    def reply_all(self, replies: list[Reply]) -> None:
        """Answer several calls by one frame."""
        if replies:
            self._send(pack_all([(0, reply) for reply in replies]))

    def _send(self, frame: bytes) -> None:
        try:
            self.socket.sendall(frame)
        except OSError as error:
            raise LinkClosed(str(error)) from error

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
