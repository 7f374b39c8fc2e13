"""AddPartitionsToTxn: partitions join a transaction, or are looked up in it."""

from collections.abc import Set

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.transactions.partitions import TopicPartition, TransactionPartitions
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.table import TransactionTable
from kbroker.protocol.errors import ErrorCode, KafkaError


class AddPartitions:
    """Runs in: control. Owner: the TransactionShard."""

    def __init__(self, table: TransactionTable) -> None:
        self._table = table

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Outcome:
        """Response: an ErrorCode, or a Deferred of one. Raises KafkaError.

        All of the partitions join or none; nothing is stored when all have joined before.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._table.required(transactional_id, producer_id)
        if known.producer_epoch != producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        added = TransactionPartitions.of(partitions)
        if known.state is TransactionState.ONGOING and added <= known.partitions:
            return Outcome(response=ErrorCode.NONE)
        return self._table.change(known.with_partitions(added, client_version, now_ms), lambda code: code)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Partition -> NONE if it is in the transaction, else TRANSACTION_ABORTABLE. Raises
        KafkaError for all."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._table.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }
