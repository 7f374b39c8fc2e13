"""Calls from a cleaner thread to control and, through it, to IO workers: one at a time, answered
before the next."""

import select
import socket
import threading
import time
from typing import Any

from kbroker.ipc.cleaning_messages import AskWorker
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Reply
from kbroker.ipc.polled_link import PolledLink
from kbroker.protocol.errors import ErrorCode, KafkaError

ANSWER_S = 30.0
STOPPING_S = 2.0
"""Maximum wait for an answer during a stop, so that a hung control does not delay it."""
POLL_S = 0.5


class ControlLink:
    """A link to control, opened on first use. Runs in: cleaner. Owner: one thread."""

    def __init__(self, connector: socket.socket, stop: threading.Event, answer_s: float = ANSWER_S) -> None:
        self._connector = connector
        self._stop = stop
        self._answer_s = answer_s
        self._link: PolledLink | None = None
        self._next_call = 1

    def ask(self, worker: int, body: Any) -> Any:
        """Call an IO worker. Raises KafkaError for its error reply, LinkClosed if the outcome is
        unknown."""
        return self.call(AskWorker(worker, body))

    def call(self, body: Any) -> Any:
        """Call control. Raises KafkaError for its error reply, LinkClosed if the outcome is
        unknown."""
        try:
            if self._link is None:
                self._link = PolledLink(self._connector)
            call_id, self._next_call = self._next_call, self._next_call + 1
            self._link.send(body, call_id)
            reply = self._wait(self._link, call_id)
        except OSError as error:
            self.close()
            raise error if isinstance(error, LinkClosed) else LinkClosed(str(error)) from error
        if reply.error:
            raise KafkaError(ErrorCode(reply.error), reply.message)
        return reply.value

    def _wait(self, link: PolledLink, call_id: int) -> Reply:
        poll = select.poll()
        poll.register(link.fileno(), select.POLLIN)
        deadline = time.monotonic() + self._answer_s
        stopping = False
        while (left := deadline - time.monotonic()) > 0:
            if self._stop.is_set() and not stopping:
                stopping = True
                deadline = min(deadline, time.monotonic() + STOPPING_S)
                continue
            if not poll.poll(min(left, POLL_S) * 1000):
                continue
            for _, body in link.receive():
                if isinstance(body, Reply) and body.call_id == call_id:
                    return body
        raise LinkClosed("no answer in time")

    def close(self) -> None:
        """Close the link; the next call opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None
