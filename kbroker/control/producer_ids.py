"""Producer ids, handed out one by one from blocks of 1000 that the store has used up beforehand (KIP-730)."""

import asyncio
from collections.abc import Awaitable, Callable

BLOCK = 1000


class ProducerIds:
    """The current block. Runs in: control. Owner: the Broker. A crash loses the rest of a block, never repeats an id.

    allocate: gives the first id of a fresh block of that many.
    """

    def __init__(self, allocate: Callable[[int], Awaitable[int]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._refilling = asyncio.Lock()

    def at_hand(self) -> int | None:
        """An id that nobody has had before; None when a block has to be allocated first, as `take` does."""
        if self._next == self._end:
            return None
        taken = self._next
        self._next += 1
        return taken

    async def take(self) -> int:
        """An id that nobody has had before. Raises KafkaError when the store fails."""
        while (taken := self.at_hand()) is None:
            async with self._refilling:
                if self._next == self._end:
                    first = await self._allocate(BLOCK)
                    self._next, self._end = first, first + BLOCK
        return taken
