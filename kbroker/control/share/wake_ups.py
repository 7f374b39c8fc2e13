"""Waiting for one of several things to happen, with a time limit."""

import asyncio
from collections.abc import Hashable, Iterable

from kbroker.protocol.slices import paced


class WakeUps:
    """Runs in: control. Owner: the ShareService. A waiter is woken once, by any of its keys."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[asyncio.Future[None]]] = {}

    def register(self, keys: Iterable[Hashable]) -> "asyncio.Future[None]":
        """Register a waiter; the caller then checks once more before it sleeps."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in paced(keys):
            self._waiting.setdefault(key, set()).add(future)
        return future

    def forget(self, future: "asyncio.Future[None]", keys: Iterable[Hashable]) -> None:
        for key in paced(keys):
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[key]

    def notify(self, key: Hashable) -> None:
        """Wake the waiters of the key."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)
