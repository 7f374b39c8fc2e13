"""State that the first network process tells the acceptor: the newest, again and again until the channel has room.

Runs in: the first network process, whose successor tells it again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

RETRY_SECONDS = 0.05
State = TypeVar("State")


class AcceptorNews(Generic[State]):
    """Owner: who makes the state. tell: tells one state, see `until_sent`.

    The first state is told whatever it is: a predecessor of this process may have told another one."""

    def __init__(self, tell: Callable[[State], Coroutine[Any, Any, None]]) -> None:
        self._told: State | None = None
        self._tell = tell
        self._task: asyncio.Task[None] | None = None

    def change(self, wanted: State) -> None:
        """The state is this now; one that is still being told is out of date."""
        if wanted == self._told:
            return
        self._told = wanted
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._tell(wanted))


async def until_sent(send: Callable[[], bool]) -> None:
    """send: False while the channel is full, EOFError when the acceptor has gone, and nobody is to be told."""
    with suppress(EOFError):
        while not send():
            await asyncio.sleep(RETRY_SECONDS)
