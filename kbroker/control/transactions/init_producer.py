"""InitProducerId with a transactional id: a producer begins, continues after an error, or fences
its predecessor."""

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.transactions.end_transaction import EndTransactions
from kbroker.control.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    is_epoch_exhausted,
)
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.table import TransactionTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def refused(code: ErrorCode) -> InitProducerIdResponse:
    """The answer with an error."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=NO_PRODUCER_EPOCH)


class InitProducer:
    """Runs in: control. Owner: the TransactionShard."""

    def __init__(self, table: TransactionTable, ends: EndTransactions) -> None:
        self._table = table
        self._ends = ends

    def check(self, request: InitProducerIdRequest) -> None:
        """Raises KafkaError for a request that no state makes valid."""
        if (request.producer_id == -1) != (request.producer_epoch == -1) or not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < request.transaction_timeout_ms <= self._table.settings.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def init(self, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int) -> Outcome:
        """Response: Deferred of an InitProducerIdResponse. fresh_id: a producer id to use, if there
        is one.

        Raises KafkaError: CONCURRENT_TRANSACTIONS also when it has begun to abort the transaction
        of a predecessor.
        """
        self.check(request)
        transactional_id = request.transactional_id or ""
        known = self._table.get(transactional_id)
        if self._table.is_changing(transactional_id):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known is None:
            known = TransactionMetadata(
                transactional_id, _taken(fresh_id), request.transaction_timeout_ms, last_update_ms=now_ms
            )
        if request.producer_id != -1 and not _may_continue(known, request):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            return self._ends.fence(
                known,
                fresh_id,
                now_ms,
                lambda code: refused(code if code else ErrorCode.CONCURRENT_TRANSACTIONS),
            )
        target = self._next(known, request, fresh_id, now_ms)

        def answer(code: ErrorCode) -> InitProducerIdResponse:
            if code:
                return refused(code)
            return InitProducerIdResponse(
                producer_id=target.producer_id, producer_epoch=target.producer_epoch
            )

        return self._table.change(target, answer)

    def _next(
        self, known: TransactionMetadata, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int
    ) -> TransactionMetadata:
        expected = None if request.producer_id == -1 else request.producer_epoch
        timeout_ms = request.transaction_timeout_ms
        if known.epoch_exhausted and expected in (None, known.producer_epoch):
            return known.rotated(_taken(fresh_id), expected is not None, timeout_ms, now_ms)
        return known.bumped(expected, timeout_ms, now_ms)


def _may_continue(known: TransactionMetadata, request: InitProducerIdRequest) -> bool:
    """Whether the claimed producer id is the current one, or the previous one after a lost answer
    (KIP-360)."""
    return (
        known.producer_epoch == NO_PRODUCER_EPOCH
        or request.producer_id == known.producer_id
        or (request.producer_id == known.prev_producer_id and is_epoch_exhausted(request.producer_epoch))
    )


def _taken(fresh_id: int | None) -> int:
    """Kafka's answer, too, while it waits for a block of producer ids."""
    if fresh_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return fresh_id
