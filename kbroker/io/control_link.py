"""The IO worker's link to control: messages are served in groups, whose replies share a frame.
While control restarts there is no link.
"""

import logging
import select
import socket
from collections.abc import Callable, Sequence
from typing import Any

from kbroker.ipc.link import TOGETHER, LinkClosed
from kbroker.ipc.messages import Hello, Reply
from kbroker.ipc.polled_link import PolledLink

log = logging.getLogger(__name__)

Serve = Callable[[Sequence[tuple[int, Any]]], list[Reply]]
"""Serves messages, each with the id of its call; returns the replies."""


class ControlLink:
    """Runs in: io. Owner: the IO worker. poll: is readable when `take` has something to do.
    on_lost: called when control has died. Nothing may be replied to its calls any more: the calls
    of its successor have the same ids."""

    def __init__(
        self, connector: socket.socket, hello: Hello, poll: select.epoll, on_lost: Callable[[], None]
    ) -> None:
        self._connector = connector
        self._hello = hello
        self._poll = poll
        self._on_lost = on_lost
        self._link: PolledLink | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a link."""
        return self._link is not None

    def connect(self) -> bool:
        """Try once to open a link, if there is none; returns whether there is one."""
        if self._link is not None:
            return True
        try:
            link = PolledLink(self._connector)
            link.send(self._hello)
        except OSError:
            return False
        self._link = link
        self._poll.register(link.fileno(), select.EPOLLIN)
        return True

    def take(self, serve: Serve) -> None:
        """Serve the messages that have arrived."""
        if self._link is None:
            return
        try:
            messages = self._link.receive()
            for first in range(0, len(messages), TOGETHER):
                self._link.reply_all(serve(messages[first : first + TOGETHER]))
        except LinkClosed:
            self._poll.unregister(self._link.fileno())
            self._link.close()
            self._link = None
            self._on_lost()

    def send(self, body: object) -> None:
        """A message without an answer; it is lost while there is no link."""
        if self._link is not None:
            try:
                self._link.send(body)
            except LinkClosed:
                log.debug("no link to control; it is notified later")

    def reply(self, replies: list[Reply]) -> None:
        """Replies to earlier calls; they are lost with the link, and the next control calls
        again."""
        if self._link is not None:
            try:
                self._link.reply_all(replies)
            except LinkClosed:
                log.debug("control went away before a reply")
