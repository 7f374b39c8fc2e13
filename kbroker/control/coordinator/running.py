"""Answers of coroutines, which run as tasks: the bridge between Deferred and await."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final

from kbroker.control.coordinator.machine import Deferred
from kbroker.ipc.background import Background
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.slices import in_slices

log = logging.getLogger(__name__)

_TASKS: Final = Background(log, "a late answer was not taken")


class Running(Deferred):
    """The result of a coroutine or future, or the exception that it raises.

    It begins with the next turn of the event loop. Its steps run in slices if its creator does, and
    so does the callback.
    """

    __slots__ = ()

    def __init__(self, work: Awaitable[Any]) -> None:
        super().__init__()
        _TASKS.start(in_slices(self._run(work)))

    async def _run(self, work: Awaitable[Any]) -> None:
        try:
            found = await work
        except KafkaError as error:
            error.__traceback__ = None  # its frames hold the request
            found = error
        except Exception as error:
            found = error
        self.complete(found)


def completion(deferred: Deferred) -> "asyncio.Future[Any]":
    """The value of a Deferred, for a coroutine; an exception is a value, too."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def came(value: Any) -> None:
        if not found.done():  # the waiting task may have been cancelled
            found.set_result(value)

    deferred.on_complete(came)
    return found
