"""The end of a transaction: decide and store it, have the markers written, store that it is
complete.

Two rule books, by the client's transaction version: before v2 the epoch stays the same and a
repeated request is recognised only by the state; v2 (KIP-890) bumps the epoch with every end, and
the older epoch marks a repetition.
"""

from collections.abc import Callable, Set

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.transactions.metadata import (
    NO_PRODUCER_ID,
    TV_0,
    TransactionMetadata,
    supports_epoch_bump,
)
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.table import TransactionTable
from kbroker.protocol.epochs import MAX_PRODUCER_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT


class EndTransactions:
    """Runs in: control. Owner: the TransactionShard."""

    def __init__(self, table: TransactionTable) -> None:
        self._table = table

    # --- by the client

    def end(self, request: EndTxnRequest, client_version: int, fresh_id: int | None, now_ms: int) -> Outcome:
        """Response: EndTxnResponse or a Deferred of one. Raises KafkaError."""
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._table.get(request.transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if supports_epoch_bump(client_version):
            return self._end_v2(known, request, client_version, fresh_id, now_ms)
        return self._end_v1(known, request, now_ms)

    def _end_v1(self, known: TransactionMetadata, request: EndTxnRequest, now_ms: int) -> Outcome:
        if known.producer_id != request.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != request.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if self._table.is_changing(known.transactional_id):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            state = PREPARE_COMMIT if request.committed else PREPARE_ABORT
            return self._prepare(known.prepared(state, TV_0, NO_PRODUCER_ID, False, now_ms), _ended)
        if known.state is TransactionState.EMPTY or known.state.is_commit != request.committed:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return self._again(known)

    def _end_v2(
        self,
        known: TransactionMetadata,
        request: EndTxnRequest,
        client_version: int,
        fresh_id: int | None,
        now_ms: int,
    ) -> Outcome:
        if self._table.is_changing(known.transactional_id):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        epoch = request.producer_epoch
        after_rotation = (
            known.prev_producer_id == request.producer_id
            and epoch == MAX_PRODUCER_EPOCH - 1
            and known.producer_epoch == 0
        )
        if known.producer_id != request.producer_id and not after_rotation:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_retry = known.producer_epoch == epoch + 1 or after_rotation
        if not _is_valid_epoch(known, epoch, after_rotation):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state is TransactionState.ONGOING:
            state = PREPARE_COMMIT if request.committed else PREPARE_ABORT
        elif known.state.is_prepared or is_retry:  # never with EMPTY: see _is_valid_epoch
            if known.state.is_commit != request.committed:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)
            return self._again(known)
        elif request.committed:  # nothing has been begun since the last end
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        else:
            state = PREPARE_ABORT
        successor = _successor(known, fresh_id)
        empty = known.state is not TransactionState.ONGOING
        return self._prepare(known.prepared(state, client_version, successor, empty, now_ms), _ended)

    def _again(self, known: TransactionMetadata) -> Outcome:
        """A repeated request with the outcome that has been decided."""
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Outcome(
            response=EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch)
        )

    # --- by the coordinator

    def fence(
        self,
        known: TransactionMetadata,
        fresh_id: int | None,
        now_ms: int,
        answer: Callable[[ErrorCode], object],
    ) -> Outcome:
        """Abort an ongoing transaction so that its producer cannot continue: by timeout, or for a
        successor.

        answer: makes the response from NONE or the error of the append.
        """
        version = self._table.view.transaction_version()
        if supports_epoch_bump(version):
            target = known.prepared(PREPARE_ABORT, version, _successor(known, fresh_id), False, now_ms)
        else:
            target = known.fenced().prepared(PREPARE_ABORT, TV_0, NO_PRODUCER_ID, False, now_ms)
        return self._prepare(target, lambda _, code: answer(code))

    def abort_timed_out(
        self, transactional_id: str, producer_id: int, fresh_id: int | None, now_ms: int
    ) -> Outcome:
        """Abort a transaction that was found past its timeout; nothing when it has gone on
        since."""
        known = self._table.get(transactional_id)
        if known is None or known.producer_id != producer_id or not self.is_timed_out(known, now_ms):
            return Outcome()
        return self.fence(known, fresh_id, now_ms, lambda code: code)

    def is_timed_out(self, known: TransactionMetadata, now_ms: int) -> bool:
        """Whether a transaction is open for longer than its timeout."""
        return (
            known.state is TransactionState.ONGOING
            and known.start_ms + known.timeout_ms < now_ms
            and not self._table.is_changing(known.transactional_id)
        )

    # --- prepared to complete

    def _prepare(
        self,
        target: TransactionMetadata,
        answer: Callable[[TransactionMetadata, ErrorCode], object],
    ) -> Outcome:
        def respond(code: ErrorCode) -> object:
            return answer(target, code)

        return self._table.change(target, respond, lambda: self.send_markers(target))

    def send_markers(self, known: TransactionMetadata) -> None:
        """Have the markers of a prepared transaction written."""
        self._table.markers.send(
            MarkerOrder(
                known.transactional_id,
                known.producer_id,
                known.producer_epoch,
                self._table.view.coordinator_epoch(known.transactional_id),
                known.state.is_commit,
                known.partitions,
                known.client_version,
            )
        )

    def marker_written(self, order: MarkerOrder, partitions: Set[TopicPartition]) -> None:
        """Some markers are in the log: what DescribeTransactions shows shrinks (not stored)."""
        known = self._prepared(order)
        if known is not None:
            self._table.put(replace(known, partitions=known.partitions.without(partitions)))

    def complete(self, order: MarkerOrder, now_ms: int) -> Outcome:
        """Every marker is in the log. Response: Deferred of an ErrorCode; nothing when the order is
        out of date."""
        known = self._prepared(order)
        if known is None:
            return Outcome(response=ErrorCode.NONE)
        return self._table.change(known.completed(now_ms), lambda code: code)

    def _prepared(self, order: MarkerOrder) -> TransactionMetadata | None:
        known = self._table.get(order.transactional_id)
        if (
            known is None
            or not known.state.is_prepared
            or known.state.is_commit != order.commit
            or (known.producer_id, known.producer_epoch) != (order.producer_id, order.producer_epoch)
            or self._table.is_changing(order.transactional_id)
        ):
            return None
        return known


def _is_valid_epoch(known: TransactionMetadata, epoch: int, after_rotation: bool) -> bool:
    """Whether an EndTxn of v2 may have this epoch: the present one for a new request, the one
    before for a repeated request."""
    bumped = known.producer_epoch == epoch + 1
    if known.state.is_prepared:
        return bumped
    if known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return bumped or after_rotation or epoch == known.producer_epoch
    return epoch == known.producer_epoch


def _successor(known: TransactionMetadata, fresh_id: int | None) -> int:
    """The producer id that takes over when this one is used up."""
    if not known.epoch_exhausted:
        return NO_PRODUCER_ID
    if fresh_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return fresh_id


def _ended(target: TransactionMetadata, code: ErrorCode) -> EndTxnResponse:
    """The producer's next state: as it will be when the markers are written."""
    if code:
        return EndTxnResponse(error_code=code)
    done = target.completed(target.last_update_ms)
    return EndTxnResponse(producer_id=done.producer_id, producer_epoch=done.producer_epoch)
