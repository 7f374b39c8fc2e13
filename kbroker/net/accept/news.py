"""State that the first network process sends to the acceptor. Only the newest state is sent; the
send is retried while the channel is full.

Runs in: the first network process. After a restart its successor sends the state again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

RETRY_SECONDS = 0.05
State = TypeVar("State")


class AcceptorNews(Generic[State]):
    """Owner: the object that computes the state. send: sends one state, see `until_sent`.

    The first state is always sent: a predecessor of this process may have sent a different one."""

    def __init__(self, send: Callable[[State], Coroutine[Any, Any, None]]) -> None:
        self._sent: State | None = None
        self._send = send
        self._task: asyncio.Task[None] | None = None

    def change(self, wanted: State) -> None:
        """Send a new state. A send of an older state that is still in progress is cancelled."""
        if wanted == self._sent:
            return
        self._sent = wanted
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._send(wanted))


async def until_sent(send: Callable[[], bool]) -> None:
    """Retry until sent. send: returns False while the channel is full, raises EOFError when the
    acceptor has ended."""
    with suppress(EOFError):
        while not send():
            await asyncio.sleep(RETRY_SECONDS)
