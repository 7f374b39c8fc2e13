"""The transaction coordinator as one machine over `__transaction_state`: the entry point of this
room.

Each operation decides for one transactional id (its key in the runtime) and returns an Outcome;
KafkaError refuses it. A decision counts from the moment its record is in the log: an id whose
record is on its way answers CONCURRENT_TRANSACTIONS. Kafka's TransactionCoordinator and
TransactionStateManager.
"""

import logging
from collections.abc import Set

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.metadata.topic_name import TRANSACTION_STATE
from kbroker.control.transactions.add_partitions import AddPartitions
from kbroker.control.transactions.end_transaction import EndTransactions
from kbroker.control.transactions.init_producer import InitProducer
from kbroker.control.transactions.listing import describe, list_transactions
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder, Markers, View
from kbroker.control.transactions.settings import TransactionSettings
from kbroker.control.transactions.table import TransactionTable
from kbroker.control.transactions.transaction_records import read_record, tombstone
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_transactions import TransactionState as Described
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

log = logging.getLogger(__name__)


class TransactionShard:
    """Runs in: control. Owner: its Runtime. Not thread-safe.

    Everything takes the transactional id as the runtime's key. fresh_id: a producer id that was
    never used; an operation that needs one but has none raises COORDINATOR_LOAD_IN_PROGRESS (see
    `needs_producer_id`).
    """

    topic = TRANSACTION_STATE
    last_value_types = frozenset((0,))

    def __init__(self, settings: TransactionSettings, markers: Markers, view: View) -> None:
        self.table = TransactionTable(settings, markers, view)
        self._ends = EndTransactions(self.table)
        self._init = InitProducer(self.table, self._ends)
        self._adds = AddPartitions(self.table)
        self._ids_of: dict[int, set[str]] = {}
        self.table.on_stored = self._keep

    # --- requests

    def check_init(self, request: InitProducerIdRequest) -> None:
        """Raises KafkaError for an InitProducerId that no state makes valid."""
        self._init.check(request)

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether InitProducerId, an EndTxn of transactions v2 or a time-out will need a new
        producer id."""
        known = self.table.get(transactional_id)
        return known is None or known.epoch_exhausted

    def init_producer_id(self, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int) -> Outcome:
        """Response: Deferred of an InitProducerIdResponse."""
        return self._init.init(request, fresh_id, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Outcome:
        """Response: an ErrorCode or a Deferred of one."""
        return self._adds.add(
            transactional_id, producer_id, producer_epoch, partitions, client_version, now_ms
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """The verification result of each partition; a read, answered at once."""
        return self._adds.verify(transactional_id, producer_id, producer_epoch, partitions)

    def end(self, request: EndTxnRequest, client_version: int, fresh_id: int | None, now_ms: int) -> Outcome:
        """Response: EndTxnResponse or a Deferred of one."""
        return self._ends.end(request, client_version, fresh_id, now_ms)

    def describe(self, transactional_id: str) -> Described:
        return describe(self.table, transactional_id)

    def list_transactions(self, request: ListTransactionsRequest, now_ms: int) -> ListTransactionsResponse:
        return list_transactions(self.table, request, now_ms)

    # --- timers

    def is_timed_out(self, known: TransactionMetadata, now_ms: int) -> bool:
        """Whether a transaction is past its timeout, for `abort_timed_out`."""
        return self._ends.is_timed_out(known, now_ms)

    def abort_timed_out(
        self, transactional_id: str, producer_id: int, fresh_id: int | None, now_ms: int
    ) -> Outcome:
        """Response: a Deferred of an ErrorCode, or None when there is nothing to abort any more."""
        return self._ends.abort_timed_out(transactional_id, producer_id, fresh_id, now_ms)

    def expire(self, transactional_id: str, now_ms: int) -> Outcome:
        """Forget an id; nothing when it has been used since."""
        if not self.is_expired(transactional_id, now_ms):
            return Outcome()
        return Outcome([tombstone(transactional_id)])

    def is_expired(self, transactional_id: str, now_ms: int) -> bool:
        """Whether an id has not been used for transactional.id.expiration.ms, for `expire`."""
        known = self.table.get(transactional_id)
        return (
            known is not None
            and known.state.is_over
            and not self.table.is_changing(transactional_id)
            and known.last_update_ms <= now_ms - self.table.settings.id_expiration_ms
        )

    # --- markers

    def marker_written(self, order: MarkerOrder, partitions: Set[TopicPartition]) -> None:
        """Markers of an order are in these partitions' logs."""
        self._ends.marker_written(order, partitions)

    def complete(self, order: MarkerOrder, now_ms: int) -> Outcome:
        """All markers of an order are written. Response: NONE, or a Deferred of an ErrorCode; after
        an append error the caller tries again."""
        return self._ends.complete(order, now_ms)

    # --- the log

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:  # noqa: ARG002
        """Apply one record. Raises ProtocolError for one of a type or version that Kafka 4.3 does
        not have."""
        transactional_id, known = read_record(key, value)
        if known is None:
            self.table.drop(transactional_id)
            self._ids_of.get(partition, set()).discard(transactional_id)
        else:
            self.table.put(known)
            self._keep(partition, transactional_id)

    def _keep(self, partition: int, transactional_id: str) -> None:
        self._ids_of.setdefault(partition, set()).add(transactional_id)

    def loaded(self, partition: int, now_ms: int) -> None:  # noqa: ARG002
        """Finish what a predecessor had decided: markers that may be missing are written
        (again)."""
        for transactional_id in sorted(self._ids_of.get(partition, ())):
            known = self.table.get(transactional_id)
            if known is not None and known.state.is_prepared:
                log.info("%s: finishing %s", transactional_id, known.state.shown_as)
                self._ends.send_markers(known)

    def unloaded(self, partition: int) -> None:
        """Forget the ids of a partition that is gone."""
        for transactional_id in self._ids_of.pop(partition, set()):
            self.table.drop(transactional_id)
            self.table.markers.forget(transactional_id)
