"""Pending offset commits of transactions; the transaction's marker has to wait for them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 0.01


class PendingOffsetCommits:
    """TxnOffsetCommits between their verification and the end of their append. Runs in: control.

    Owner: the TransactionService. A marker must not overtake a commit that was verified before the
    transaction's end.

    is_loaded: whether the group coordinator has a partition of its topic.
    """

    def __init__(self, is_loaded: Callable[[int], bool]) -> None:
        self.is_loaded = is_loaded
        self._pending: dict[int, set[asyncio.Future[None]]] = {}

    @contextmanager
    def one(self, producer_id: int) -> Iterator[None]:
        """Entered before a commit is verified, left when it is answered."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending = self._pending.setdefault(producer_id, set())
        pending.add(future)
        try:
            yield
        finally:
            future.set_result(None)
            pending.discard(future)
            if not pending and self._pending.get(producer_id) is pending:
                del self._pending[producer_id]

    def are_settled(self, partition: int, producer_id: int) -> bool:
        """Whether a marker of the producer may go to a partition of the offsets topic: the group
        coordinator has loaded it, and no commit is pending."""
        return self.is_loaded(partition) and producer_id not in self._pending

    async def settled(self, partition: int, producer_id: int) -> None:
        """Wait until the partition is loaded and its commits pending then have ended; the
        transaction's state refuses later ones."""
        while not self.is_loaded(partition):
            await asyncio.sleep(POLL_S)
        if pending := self._pending.get(producer_id):
            await asyncio.wait(tuple(pending))
