"""Checks of long batches in threads. Requests take turns, and batches that decompress to very many
bytes have a separate thread: a few kilobytes may decompress to gigabytes, and a request may have
hundreds of such batches.

Runs in: network. Owner: ProduceChecks.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from kbroker.ipc.turns import Turns
from kbroker.net.produce.record_checks import ValidationResult
from kbroker.net.produce.record_walk import ANY_LENGTH, TooLong

THREADS: Final = 2
FAST_BYTES: Final = 32 << 20
"""Decompressed; checked in some 20 milliseconds, gzip in 100."""

Checked = Future[ValidationResult]


class LongCheck(NamedTuple):
    """run(max_bytes): the check, in a thread; raises TooLong. ended: called by the loop."""

    run: Callable[[int], ValidationResult]
    ended: Callable[[Checked], None]


class LongChecks:
    """The threads of most batches, and the one of very long batches."""

    def __init__(self) -> None:
        self._slow = _Threads(1, "very-long-checks", ANY_LENGTH, _end)
        self._fast = _Threads(THREADS, "record-checks", FAST_BYTES, self._checked)

    def begin(self, request: int, check: LongCheck) -> None:
        """Check a batch of a request when it is its turn."""
        self._fast.add(request, check)

    def _checked(self, request: int, check: LongCheck, checked: Checked) -> None:
        if isinstance(checked.exception(), TooLong):
            self._slow.add(request, check)
        else:
            check.ended(checked)

    def close(self) -> None:
        """The process ends: drop all checks."""
        self._fast.close()
        self._slow.close()


class _Threads:
    """ended: called by the loop with the request, its check, and the result."""

    def __init__(
        self, threads: int, name: str, max_bytes: int, ended: Callable[[int, LongCheck, Checked], None]
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, name)  # it starts no thread before there is work
        self._free = threads
        self._max_bytes = max_bytes
        self._ended = ended
        self._waiting: Turns[int, LongCheck] = Turns()
        self._closed = False

    def add(self, request: int, check: LongCheck) -> None:
        self._waiting.put(request, check)
        self._begin()

    def _begin(self) -> None:
        while self._free and self._waiting and not self._closed:
            request, check = self._waiting.take()
            self._free -= 1
            checked = self._threads.submit(check.run, self._max_bytes)
            checked.add_done_callback(partial(self._report, asyncio.get_running_loop(), request, check))

    def _report(
        self, loop: asyncio.AbstractEventLoop, request: int, check: LongCheck, checked: Checked
    ) -> None:
        """Runs in: a thread."""
        loop.call_soon_threadsafe(self._end, request, check, checked)

    def _end(self, request: int, check: LongCheck, checked: Checked) -> None:
        if self._closed:
            return
        self._free += 1
        self._begin()
        self._ended(request, check, checked)

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)


def _end(_: int, check: LongCheck, checked: Checked) -> None:
    check.ended(checked)
