"""Control's link to an IO worker, as a queue: calls and replies arrive when a test says so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import ErrorCode, KafkaError


class HeldLink:
    """held: types of calls that wait in `calls`, by id; serve: answers all others at once. sent:
    called with each call that is held."""

    def __init__(
        self,
        held: tuple[type, ...],
        serve: Callable[[Any], object] = lambda _: None,
        sent: Callable[[Any], object] = lambda _: None,
    ) -> None:
        self.closed = False
        self.calls: dict[int, Any] = {}
        self._held, self._serve, self._sent = held, serve, sent
        self._answers: dict[int, asyncio.Future[Any]] = {}

    def call(self, body: Any) -> Awaitable[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.closed:
            answer.set_exception(LinkClosed())
        elif isinstance(body, self._held):
            number = len(self._answers) + 1
            self.calls[number], self._answers[number] = body, answer
            self._sent(body)
        else:
            try:
                answer.set_result(self._serve(body))
            except KafkaError as error:
                answer.set_exception(error)
        return answer

    def reply(self, reply: Reply) -> None:
        """The answer to a call arrives."""
        answer = self._answers[reply.call_id]
        if answer.done():
            return  # the link has ended before, or nobody waits any more
        if reply.error:
            answer.set_exception(KafkaError(ErrorCode(reply.error)))
        else:
            answer.set_result(reply.value)

    def close(self, *kept: int) -> None:
        """The worker has died; replies to the calls in `kept` are on their way."""
        self.closed = True
        self.calls.clear()
        for number, answer in self._answers.items():
            if not answer.done() and number not in kept:
                answer.set_exception(LinkClosed())
                answer.exception()  # nobody may wait for it any more
