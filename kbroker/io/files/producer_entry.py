"""The state of one producer in a partition: Kafka's ProducerStateEntry and BatchMetadata as values."""

from dataclasses import dataclass

NO_SEQUENCE = -1
SEQUENCES = 1 << 31  # sequences wrap from 2^31 - 1 to 0
MAX_BATCHES = 5  # a retry of one of the last five batches is recognised


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One appended batch: sequences and offsets are inclusive, timestamp is its largest (ms)."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int

    @property
    def offset_delta(self) -> int:
        """Last offset - base offset, as snapshots store it."""
        return self.last_offset - self.base_offset


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """State of one producer id on one partition.

    coordinator_epoch: of the last transaction marker, -1 before any. last_timestamp: ms, of the last batch or
    marker; the entry expires by it. current_txn_first_offset: -1 outside a transaction. batches: oldest first,
    at most MAX_BATCHES; empty after a marker of a new epoch.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = -1
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """-1 when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the last batch, -1 when no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1


def decrement_sequence(sequence: int, by: int) -> int:
    """Sequence ``by`` before, wrapping below 0 (DefaultRecordBatch.decrementSequence)."""
    return sequence - by if sequence >= by else SEQUENCES - (by - sequence)


def increment_sequence(sequence: int, by: int) -> int:
    """Sequence ``by`` after, wrapping above 2^31 - 1 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + by) % SEQUENCES
