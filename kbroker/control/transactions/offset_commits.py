"""Offsets committed in a transaction: those under way, which the transaction's marker has to wait for."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class OffsetCommitsUnderWay:
    """TxnOffsetCommits between their verification and the end of their append. Runs in: control.

    Owner: the TransactionService. A marker must not overtake a commit that was verified before the transaction's end.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, set[asyncio.Future[None]]] = {}

    @contextmanager
    def one(self, producer_id: int) -> Iterator[None]:
        """Entered before a commit is verified, left when it is answered."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine = self._under_way.setdefault(producer_id, set())
        mine.add(future)
        try:
            yield
        finally:
            future.set_result(None)
            mine.discard(future)
            if not mine and self._under_way.get(producer_id) is mine:
                del self._under_way[producer_id]

    def any(self, producer_id: int) -> bool:
        """Whether one of the producer is under way."""
        return producer_id in self._under_way

    async def ended(self, producer_id: int) -> None:
        """Wait until those that are under way now have ended; later ones are refused by the transaction's state."""
        pending = self._under_way.get(producer_id)
        if pending:
            await asyncio.wait(tuple(pending))
