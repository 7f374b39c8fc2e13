"""The state of one transactional id, and its transitions (Kafka's TransactionMetadata).

Immutable: every transition returns a new value. It takes effect when its record is in the log.
"""

from msgspec import Struct
from msgspec.structs import replace

from kbroker.control.transactions.partitions import NO_PARTITIONS, TransactionPartitions
from kbroker.control.transactions.state import TransactionState
from kbroker.protocol.epochs import MAX_PRODUCER_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1

TV_0, TV_1, TV_2 = 0, 1, 2
"""Transaction versions (KIP-890). From TV_2 on every end of a transaction bumps the producer's
epoch."""


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether a producer id needs a successor. The largest epoch is reserved for the coordinator,
    which must always be able to fence the last owner."""
    return epoch >= MAX_PRODUCER_EPOCH - 1


def supports_epoch_bump(version: int) -> bool:
    """Whether a transaction version bumps the epoch with every transaction."""
    return version >= TV_2


class TransactionMetadata(Struct, frozen=True, gc=False):
    """State of one transactional id. Times in ms, -1 for none. The garbage collector does not
    examine it: it has no references back, there may be a million, and a full collection stops all
    clients.

    last_producer_epoch: the epoch before the last bump, so that a retry is known; lost with a
    restart, as in Kafka. prev_producer_id: the producer id before the last transition.
    next_producer_id: takes over when the transaction in progress is complete, -1 for none.
    client_version: transaction version of the last request.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    prev_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: TransactionPartitions = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    client_version: int = TV_0

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the producer id is used up."""
        return is_epoch_exhausted(self.producer_epoch)

    def bumped(self, expected_epoch: int | None, timeout_ms: int, now_ms: int) -> "TransactionMetadata":
        """A producer begins (no expected epoch) or continues after an error. Raises
        PRODUCER_FENCED."""
        epoch, last = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == self.producer_epoch:
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return replace(
            self._begun(timeout_ms, now_ms),
            prev_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
        )

    def rotated(
        self, producer_id: int, remember_epoch: bool, timeout_ms: int, now_ms: int
    ) -> "TransactionMetadata":
        """The producer id is used up: a fresh one starts at epoch 0."""
        return replace(
            self._begun(timeout_ms, now_ms),
            producer_id=producer_id,
            prev_producer_id=self.producer_id,
            producer_epoch=0,
            last_producer_epoch=self.producer_epoch if remember_epoch else NO_PRODUCER_EPOCH,
        )

    def _begun(self, timeout_ms: int, now_ms: int) -> "TransactionMetadata":
        return replace(
            self,
            state=TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    def with_partitions(
        self, added: TransactionPartitions, client_version: int, now_ms: int
    ) -> "TransactionMetadata":
        """Partitions join the transaction; the first ones begin it."""
        return replace(
            self,
            prev_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions.joined(added),
            start_ms=now_ms if self.state.is_over else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self) -> "TransactionMetadata":
        """The epoch as transactions v1 raise it before the coordinator aborts; v2 raises it with
        the abort itself."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, empty: bool, now_ms: int
    ) -> "TransactionMetadata":
        """The outcome is decided. empty: an abort of transactions v2 without any partition."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if supports_epoch_bump(client_version):
            epoch, last = min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH), self.producer_epoch
        return replace(
            self,
            prev_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            state=state,
            start_ms=now_ms if empty else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """Every marker is written; a producer id that is used up gives way to its successor."""
        rotates = supports_epoch_bump(self.client_version) and self.next_producer_id != NO_PRODUCER_ID
        commit = self.state is TransactionState.PREPARE_COMMIT
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            prev_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else self.producer_epoch,
            state=TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
            partitions=NO_PARTITIONS,
            last_update_ms=now_ms,
        )
