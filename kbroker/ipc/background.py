"""Background tasks that are not awaited: they are kept from the garbage collector, and their
failures are logged. And work that a stop interrupts."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run the work until it is done or the stop comes; returns whether it was done."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        working.cancel()
        return False
    working.result()
    return True


class Background:
    """Runs in: any process with an event loop. Owner: its creator. failed: log message of a failed
    task."""

    def __init__(self, log: logging.Logger, failed: str) -> None:
        self._log = log
        self._failed = failed
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run it beside everything else; returns its task, which need not be kept."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait(self, timeout_s: float) -> None:
        """Wait until all tasks that run now have ended, or the time is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error(self._failed, exc_info=error)
