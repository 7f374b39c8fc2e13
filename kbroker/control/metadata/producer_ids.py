"""Producer ids, handed out one by one from blocks that the store has used up beforehand
(KIP-730)."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import ProducerIds as ProducerIdRow
from kbroker.ipc.producer_id_kernel import NO_ID, take_producer_id

BLOCK = 1000
MAX_BLOCK = 64_000
"""A block that lasts less than a second is followed by one twice as large, up to this."""
SHORT_S = 1.0


class ProducerIds:
    """Control's side of the current block, which is in shared memory: network processes give ids of
    it themselves.

    Runs in: control. Owner: the Broker. A crash of the broker loses the rest of a block, never
    repeats an id. allocate: gives the first id of a fresh block of that many.
    """

    def __init__(self, words: NDArray[np.int64], allocate: Callable[[int], Awaitable[int]]) -> None:
        self._words = words
        self._allocate = allocate
        self._refilling = asyncio.Lock()
        self._block = BLOCK
        self._since_s = 0.0
        words[ProducerIdRow.END] = 0  # a predecessor's: logs that are adopted now may have ids of that range

    def take_allocated(self) -> int | None:
        """A new id; None when a block has to be allocated first, as by `take`."""
        taken = take_producer_id(self._words)
        return None if taken == NO_ID else taken

    async def take(self) -> int:
        """A new id. Raises KafkaError when the store fails."""
        while (taken := self.take_allocated()) is None:
            async with self._refilling:
                if self._words[ProducerIdRow.NEXT] >= self._words[ProducerIdRow.END]:
                    await self._refill()
        return taken

    async def _refill(self) -> None:
        now_s = time.monotonic()
        self._block = min(2 * self._block, MAX_BLOCK) if now_s - self._since_s < SHORT_S else BLOCK
        self._since_s = now_s
        first = await self._allocate(self._block)
        # no process takes ids while the end is not after the next id
        self._words[ProducerIdRow.NEXT] = max(first, int(self._words[ProducerIdRow.NEXT]))
        self._words[ProducerIdRow.END] = first + self._block
