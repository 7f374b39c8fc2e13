"""The controller's links to the other processes: the connected ones, and broadcasts to all of them.

Control does not wait for a process that dies: a network process's successor starts with a full
Image, an IO worker's successor with OpenPartition calls for everything it owns, so both get the
changes that were being sent to their predecessor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from kbroker.ipc.background import Background
from kbroker.ipc.link import AsyncLink, LinkClosed
from kbroker.ipc.messages import Image, Reply
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
CALLS_AT_ONCE = 64
"""Maximum of pending calls of one change to the IO workers."""


class Links:
    """Connected network processes and IO workers, by index. Runs in: control. Owner: the Broker."""

    def __init__(self) -> None:
        self.networks: dict[int, AsyncLink] = {}
        self._workers: dict[int, AsyncLink] = {}
        self._worker_arrived = asyncio.Event()
        self._again = Background(log, "a call of an IO worker failed")
        self.observers: set[AsyncLink] = set()
        """Links of processes that get topic images but are not waited for (http)."""

    def add_network(self, index: int, link: AsyncLink) -> None:
        """A network process has sent Hello; an older link of the same index is forgotten."""
        self.networks[index] = link

    def add_worker(self, index: int, link: AsyncLink) -> None:
        """An IO worker has opened all its partitions and takes calls."""
        self._workers[index] = link
        self._worker_arrived.set()
        self._worker_arrived = asyncio.Event()

    def lost(self, link: AsyncLink) -> None:
        """A link ended."""
        self.observers.discard(link)
        self.networks = {index: other for index, other in self.networks.items() if other is not link}
        self._workers = {index: other for index, other in self._workers.items() if other is not link}

    def worker(self, index: int) -> AsyncLink | None:
        """The link of an IO worker; None if the worker is not ready."""
        return self._workers.get(index)

    async def announce(self, image: Image) -> None:
        """Send an image to every network process and wait until each has applied it or has died."""
        for observer in self.observers:
            observer.send(image)
        waits = [self._confirmed(index, link, image) for index, link in list(self.networks.items())]
        await asyncio.gather(*waits)

    async def _confirmed(self, index: int, link: AsyncLink, image: Image) -> None:
        try:
            await asyncio.wait_for(link.call(image), CALL_TIMEOUT_S)
        except LinkClosed:
            return
        except TimeoutError:
            log.error("network process %d has not applied image %d in time; dropped", index, image.version)
            link.close()

    async def call_worker(self, index: int, body: Any, answer_s: float | None = None) -> Any:
        """Call an IO worker; while it restarts, wait for its successor. Raises KafkaError for its
        error reply, and REQUEST_TIMED_OUT when no successor comes, or no answer in answer_s. Then
        the worker still has the call, and executes it when it continues.

        Only for calls that may be repeated: a call that was pending when a worker died is sent
        again.
        """
        return await self.call_with(index, lambda: body, answer_s)

    async def call_with(self, index: int, make: Callable[[], Any], answer_s: float | None = None) -> Any:
        """As `call_worker`, with a body that is made when it is sent: for a successor it may be
        another one. make: may raise KafkaError."""
        while True:
            link = self._workers.get(index)
            if link is None:
                await self._arrival(index)
                continue
            try:
                async with asyncio.timeout(answer_s):
                    return await link.call(make())
            except LinkClosed:
                self.lost(link)
            except TimeoutError:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"IO worker {index} does not answer") from None

    def ask_worker(self, index: int, body: Any, on_answer: Callable[[Any], object]) -> None:
        """As `call_worker`, without a task if the worker is there. Calls `on_answer` with the value
        or KafkaError."""
        link = self._workers.get(index)
        if link is None:
            self._again.start(self._call_again(index, body, on_answer))
        else:
            link.ask(body, partial(self._replied, index, link, body, on_answer))

    def _replied(
        self, index: int, link: AsyncLink, body: Any, on_answer: Callable[[Any], object], reply: Reply | None
    ) -> None:
        if reply is None:
            self.lost(link)
            self._again.start(self._call_again(index, body, on_answer))
        elif reply.error:
            on_answer(KafkaError(ErrorCode(reply.error), reply.message))
        else:
            on_answer(reply.value)

    async def _call_again(self, index: int, body: Any, on_answer: Callable[[Any], object]) -> None:
        try:
            value = await self.call_worker(index, body)
        except KafkaError as error:
            on_answer(error)
        else:
            on_answer(value)

    async def _arrival(self, index: int) -> None:
        try:
            await asyncio.wait_for(self._worker_arrived.wait(), CALL_TIMEOUT_S)
        except TimeoutError:
            why = f"IO worker {index} has been away for {CALL_TIMEOUT_S:g} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from None


async def bounded(limit: int, calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run the calls, at most `limit` at a time; returns each one's result, or the KafkaError it
    raised."""
    results: list[Any] = [None] * len(calls)
    pending = iter(enumerate(calls))

    async def run() -> None:
        for number, call in pending:
            try:
                results[number] = await call()
            except KafkaError as error:
                results[number] = error.without_frames()

    await asyncio.gather(*(run() for _ in range(min(limit, len(calls)))))
    return results
