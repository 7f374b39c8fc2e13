"""The channel to the acceptor: it brings new connections, and takes reports of closed ones."""

import asyncio
import socket
from collections.abc import Callable

from kbroker.ipc.fds import LOST, RESTARTED, Accepted, receive_connections, send_closed
from kbroker.net.rate_limited_log import RateLimitedLog

TAKEN_PER_TURN = 16
"""New connections before existing ones have a turn; the last message may bring more."""


class Handoff:
    """Runs in: network. Owner: the process.

    opened: called with each new connection and its descriptor. request_turn: requests a turn, at
    whose end the process calls `report`. closed_ids: connections that are to be reported.
    """

    def __init__(
        self,
        channel: socket.socket,
        opened: Callable[[Accepted, int], None],
        request_turn: Callable[[], None],
        warn: RateLimitedLog,
    ) -> None:
        self.closed_ids: list[int] = [RESTARTED]
        self._channel = channel
        self._opened = opened
        self._request_turn = request_turn
        self._warn = warn
        self._loop: asyncio.AbstractEventLoop

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive connections from now on."""
        self._loop = loop
        loop.add_reader(self._channel.fileno(), self._take)

    def stop(self) -> None:
        """Take no more connections."""
        self._loop.remove_reader(self._channel.fileno())

    def _take(self) -> None:
        """Messages of the acceptor; clients that come one by one have a message each."""
        taken = 0
        try:
            while taken < TAKEN_PER_TURN and (found := receive_connections(self._channel)):
                taken += len(found)
                for accepted, fd in found:
                    self._take_one(accepted, fd)
        except EOFError:
            self.stop()

    def _take_one(self, accepted: Accepted, fd: int) -> None:
        if fd == LOST:
            self.lose(accepted, "too many open files")
        else:
            self._opened(accepted, fd)

    def lose(self, accepted: Accepted, why: str) -> None:
        """A new connection cannot be served: report it as closed."""
        self._warn("the connection from %s is lost: %s", accepted.host, why)
        self.closed_ids.append(accepted.connection_id)
        self._request_turn()

    def report(self) -> None:
        """Report closed connections, as many as the channel takes."""
        try:
            sent = send_closed(self._channel, self.closed_ids)
        except EOFError as error:
            self._warn("%d closed connections are not reported: %s", len(self.closed_ids), error)
            sent = len(self.closed_ids)
        del self.closed_ids[:sent]
