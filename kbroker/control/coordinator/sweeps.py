"""Operations on very many keys, started by a timer or by a change elsewhere: a few in each turn of
the loop."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kbroker.control.coordinator.machine import Operation
from kbroker.ipc.background import Background
from kbroker.ipc.slicing import in_turns

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Operations that are begun before the first of them have ended."""


class Starter(Protocol):
    """A Runtime."""

    def start(self, key: str, operation: Operation) -> "asyncio.Task[None]":
        """Run an operation of a key in turn with its others."""


class Sweeps:
    """Runs in: control. Owner: a coordinator's service."""

    def __init__(self, runtime: Starter) -> None:
        self._runtime = runtime
        self._background = Background(log, "a sweep over all keys failed")
        self._in_progress: set[str] = set()

    def repeat(
        self, name: str, keys: Callable[[], Iterable[str]], operation_of: Callable[[str], Operation | None]
    ) -> None:
        """As `start`; does nothing while the last sweep of this name runs."""
        if name not in self._in_progress:
            self._in_progress.add(name)
            self._background.start(self._repeat(name, keys(), operation_of))

    def start(self, keys: Iterable[str], operation_of: Callable[[str], Operation | None]) -> None:
        """Run the operation that `operation_of` returns for each key, if any. keys: may change
        meanwhile."""
        self._background.start(self._run(keys, operation_of))

    async def _repeat(
        self, name: str, keys: Iterable[str], operation_of: Callable[[str], Operation | None]
    ) -> None:
        try:
            await self._run(keys, operation_of)
        finally:
            self._in_progress.discard(name)

    async def _run(self, keys: Iterable[str], operation_of: Callable[[str], Operation | None]) -> None:
        begun: list[asyncio.Task[None]] = []
        async for key in in_turns(keys):
            operation = operation_of(key)
            if operation is None:
                continue
            begun.append(self._runtime.start(key, operation))
            if len(begun) >= AT_ONCE:
                await asyncio.wait(begun)
                begun.clear()
        if begun:
            await asyncio.wait(begun)
