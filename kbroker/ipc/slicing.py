"""Time slices for long requests: at each turn of the event loop, one of them runs for one slice.
`in_turns` is for long loops that no request has begun."""

import asyncio
import gc
import logging
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

from kbroker.ipc.background import Background
from kbroker.protocol.slices import SLICE_NS, Work

T = TypeVar("T")
Spent = Callable[[int], None]
LONG_SLICES: Final = 8
"""Number of slices after which work counts as long."""
FEW: Final = 8
"""The number of works that take turns before they count as long."""
QUEUE_BYTES: Final = (1 << 16, 1 << 20)
"""Sizes of requests up to which long work has a separate queue: a million entries take a minute
and more."""
REST_S: Final = 0.5
MAX_RESTS: Final = 60
MANY_OBJECTS: Final = 20_000
"""New objects that the collector examines in some five milliseconds."""
_REST: Final = Background(logging.getLogger(__name__), "work in slices failed")


class Slicing:
    """Runs in: control, network. Owner: its creator.

    Short work does not wait for long work before it: all work begins with a slice, and a few take
    turns for the next ones. Work that is not finished then runs one after the other in the queue of
    its size, because the objects of long requests take much memory; the queues take turns. Work
    that waits for anything but its next slice lets the next work run. The garbage collector is off
    meanwhile: one pass over the millions of objects of one request would stop all clients for as
    long.
    """

    def __init__(self) -> None:
        self._queues = [asyncio.Lock() for _ in range(len(QUEUE_BYTES) + 1)]
        self._queue_turns = asyncio.Lock()
        self._first_slices = asyncio.Lock()
        self._few = asyncio.Semaphore(FEW)
        self._turns = asyncio.Lock()
        self._collector_off = 0

    async def run(self, function: Callable[[], Any], spent: Spent | None = None, size: int = 0) -> Any:
        """Run the function in slices and return its result; coroutines that it starts by way of
        `in_slices` continue in slices.

        spent: called with the nanoseconds of each slice. size: bytes of the request."""
        work = self._work(function, spent, size)
        found = await _in_turn(self._first_slices, work, spent)
        return found if work.done else await self.finish(work, spent, size)

    async def run_steps(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine whose steps run in slices, the first slice of each at once; its waits are
        unchanged."""
        return await _Steps(work, self._at_once)

    async def _at_once(self, function: Callable[[], Any]) -> Any:
        work, found = self.begin(function)
        return found if work.done else await self.finish(work)

    def start(self, function: Callable[[], object]) -> None:
        """Run the first slice of a function at once, and the rest, if any, in the background."""
        work, _ = self.begin(function)
        if not work.done:
            _REST.start(self.finish(work))

    def begin(
        self, function: Callable[[], Any], spent: Spent | None = None, size: int = 0
    ) -> tuple[Work, Any]:
        """Run the first slice of a function at once. If the work is not done then, `finish` runs
        the rest; else this is what the function returned."""
        work = self._work(function, spent, size)
        return work, _slice(work, spent)

    async def finish(self, work: Work, spent: Spent | None = None, size: int = 0) -> Any:
        """Run all further slices; the result of the function."""
        async with self._few:
            while work.slices < LONG_SLICES:
                found = await _in_turn(self._turns, work, spent)
                if work.done:
                    return found
        async with self._queues[bisect_left(QUEUE_BYTES, size)]:
            self._stop_collector()
            try:
                while not work.done:
                    found = await _in_turn(self._queue_turns, work, spent)
            finally:
                self._start_collector_later(MAX_RESTS)
            return found

    def _work(self, function: Callable[[], Any], spent: Spent | None, size: int) -> Work:
        work = Work(function, partial(self._steps, spent, size))
        work.gr_context = copy_context()
        return work

    async def _steps(self, spent: Spent | None, size: int, work: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(work, partial(self.run, spent=spent, size=size))

    def _stop_collector(self) -> None:
        self._collector_off += 1
        gc.disable()

    def _start_collector_later(self, rests: int) -> None:
        """Objects of a long request live while it waits for its next step, or until it is answered;
        the collector would examine all of them at once."""
        asyncio.get_running_loop().call_later(REST_S, self._rested, rests)

    def _rested(self, rests: int) -> None:
        if rests and gc.get_count()[0] > MANY_OBJECTS:
            self._start_collector_later(rests - 1)
        else:
            self._start_collector()

    def _start_collector(self) -> None:
        self._collector_off -= 1
        if not self._collector_off:
            gc.enable()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; every millisecond other work has its turn."""
    ends_ns = time.monotonic_ns() + SLICE_NS
    for item in items:
        yield item
        if time.monotonic_ns() >= ends_ns:
            await asyncio.sleep(0)
            ends_ns = time.monotonic_ns() + SLICE_NS


async def _in_turn(turns: asyncio.Lock, work: Work, spent: Spent | None) -> Any:
    """A slice; in each turn of the loop no more than one under a lock is a whole one."""
    async with turns:
        found = _slice(work, spent)
        if not work.done:
            await asyncio.sleep(0)
        return found


def _slice(work: Work, spent: Spent | None) -> Any:
    began_ns = time.monotonic_ns()
    try:
        return work.run_slice()
    finally:
        if spent is not None:
            spent(time.monotonic_ns() - began_ns)


class _Steps:
    """A coroutine each of whose steps runs in slices; its waits are unchanged."""

    def __init__(self, work: Coroutine[Any, Any, Any], run: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._work = work
        self._run = run

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        step: Callable[[], Any] = partial(_step, steps)
        while True:
            done, value = yield from self._run(step).__await__()
            if done:
                return value
            try:
                sent = yield value
            except BaseException as error:
                step = partial(_thrown, steps, error)
            else:
                step = partial(_step, steps, sent)


def _step(steps: Any, sent: Any = None) -> tuple[bool, Any]:
    try:
        return False, next(steps) if sent is None else steps.send(sent)
    except StopIteration as end:
        return True, end.value


def _thrown(steps: Any, error: BaseException) -> tuple[bool, Any]:
    try:
        return False, steps.throw(error)
    except StopIteration as end:
        return True, end.value
