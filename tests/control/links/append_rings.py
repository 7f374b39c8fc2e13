"""A pretended IO worker at the rings of control."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.control.links.appender import Appender
from kbroker.ipc.layout import AppendEntry, Completion
from kbroker.ipc.ring import ring_push, ring_take, wake_process
from kbroker.ipc.shared import Shared, Sizes


class Rings:
    """An IO worker's end of the rings."""

    def __init__(self, shared: Shared, worker: int = 0) -> None:
        self.shared = shared
        self.requests = shared.append_ring(shared.control_client, worker)
        self.completions = shared.completion_ring(shared.control_client, worker)

    def take(self) -> list[list[int]]:
        """Every entry in the append ring."""
        out = AppendEntry.table(64)
        return [
            list(map(int, row))
            for row in out[: ring_take(self.requests, self.shared.sizes.ring_entries, out)]
        ]

    def complete(self, token: int, error: int = 0, base_offset: int = -1) -> None:
        entry = AppendEntry.row()
        entry[Completion.TOKEN] = token
        entry[Completion.ERROR] = error
        entry[Completion.BASE_OFFSET] = base_offset
        assert ring_push(self.completions, self.shared.sizes.ring_entries, entry)
        wake_process(self.shared, self.shared.control_client)

    def bytes_of(self, request: list[int]) -> bytes:
        start = request[AppendEntry.ADDRESS]
        arena = self.shared.arenas[self.shared.control_client]
        return bytes(arena.bytes[start : start + request[AppendEntry.LENGTH]])


async def until(condition: Callable[[], Any]) -> Any:
    """Let the loop run until something has happened."""
    for _ in range(60_000):
        if found := condition():
            return found
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


def run(
    test: Callable[[Appender, Rings], Awaitable[None]], epoch: int = 1, shared: Shared | None = None
) -> None:
    """Run a test beside the appender of a control process."""

    async def body() -> None:
        memory = shared or Shared(Sizes(2, 1, 16, 8, 1 << 16))
        appender = Appender(memory, epoch)
        await appender.start()
        try:
            await test(appender, Rings(memory))
        finally:
            appender.stop()

    asyncio.run(body())
