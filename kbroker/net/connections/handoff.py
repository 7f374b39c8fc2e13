"""The channel to the acceptor: it brings new connections, and takes reports of closed ones."""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kbroker.ipc.fds import LOST, RESTARTED, Accepted, receive_connections, send_closed
from kbroker.net.rate_limited_log import RateLimitedLog

OPENING_SECONDS: Final = 0.0005
"""New connections are opened for this time before existing ones have a turn, but at least one:
with TLS, each takes some 0.2 ms."""
WAITING_MAX: Final = 16
"""Number of connections waiting to be opened at which no further message is received. A message may
bring several."""


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
        self._waiting: deque[tuple[Accepted, int]] = deque()
        self._opening_later = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive connections from now on."""
        self._loop = loop
        loop.add_reader(self._channel.fileno(), self._take)

    def stop(self) -> None:
        """Take no more connections, and close those that wait to be opened."""
        self._loop.remove_reader(self._channel.fileno())
        for accepted, fd in self._waiting:
            if fd != LOST:
                os.close(fd)
            self.closed_ids.append(accepted.connection_id)
        self._waiting.clear()

    def _take(self) -> None:
        """Messages of the acceptor; clients that come one by one have a message each."""
        try:
            while len(self._waiting) < WAITING_MAX and (found := receive_connections(self._channel)):
                self._waiting.extend(found)
        except EOFError:
            self._loop.remove_reader(self._channel.fileno())
        if not self._opening_later:
            self._open_some()

    def _open_some(self) -> None:
        """Open connections in the order of their arrival, the rest in a later turn of the loop."""
        self._opening_later = False
        ends = time.monotonic() + OPENING_SECONDS
        try:
            while self._waiting:
                self._take_one(*self._waiting.popleft())
                if time.monotonic() >= ends:
                    break
        finally:
            if self._waiting:
                self._opening_later = True
                self._loop.call_soon(self._open_some)

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
