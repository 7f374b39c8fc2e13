"""The transactions of a log during its cleaning (Kafka's CleanedTransactionMetadata).

A marker may only be removed if no record of its transaction remains; an entry of the transaction
index is kept while records of its transaction remain.
"""

from collections.abc import Iterable

from kbroker.log.transaction_index import AbortedTransaction
from kbroker.protocol.records import ControlType


class CleanedTransactions:
    """Owner: one pass over one log. Batches are added in the order of their offsets.

    kept: aborted transactions with remaining records, whose markers stay; entries for the new
    transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()  # producers whose aborted records were passed
        self._committing: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, producer_id: int, transactional: bool, last_offset: int) -> bool:
        """Add a data batch; returns whether its records belong to an aborted transaction."""
        self._begin_up_to(last_offset)
        if not transactional:
            return False
        if producer_id in self._aborting:
            self._seen.add(producer_id)
            return True
        self._committing.add(producer_id)
        return False

    def may_discard_marker(self, producer_id: int, type_: int | None, last_offset: int) -> bool:
        """Add a control batch; returns whether no record of its transaction is left. type_: None
        for an emptied one."""
        self._begin_up_to(last_offset)
        if type_ is None:
            return True
        if type_ == ControlType.ABORT:
            entry = self._aborting.pop(producer_id, None)
            if entry is not None and producer_id in self._seen:
                self._seen.discard(producer_id)
                self.kept.append(entry)
                return False
            return True
        if type_ == ControlType.COMMIT:
            empty = producer_id not in self._committing
            self._committing.discard(producer_id)
            return empty
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Entries for the segment that was just written."""
        kept, self.kept = self.kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[-1].first_offset <= offset:
            entry = self._ahead.pop()
            self._aborting.setdefault(entry.producer_id, entry)
