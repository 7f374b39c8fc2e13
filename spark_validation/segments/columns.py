"""The columns that the segment source knows, and how each is made of decoded records or of batch
headers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_validation.segments import layout, schemas
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.decoder import Decoded
from spark_validation.segments.layout import Words
from spark_validation.segments.walk import BatchStates, Chunk


@dataclass
class Records:
    """Decoded records of a chunk. batch_states: None if no column needs them."""

    topic: str
    partition: int
    chunk: Chunk
    batch_states: BatchStates | None
    decoded: Decoded

    def __len__(self) -> int:
        return len(self.decoded.found)

    def field(self, column: int) -> Words:
        """A column of RECORD_COLUMNS."""
        return self.decoded.found[:, column]

    def header(self, column: int) -> Words:
        """A column of each record's batch header."""
        return self.chunk.rows[self.field(rk.BATCH), column]

    def states(self) -> BatchStates:
        """State and marker of each record's batch."""
        assert self.batch_states is not None
        batches = self.field(rk.BATCH)
        return BatchStates(self.batch_states.state[batches], self.batch_states.marker[batches])


def repeated(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


def number(values: NDArray[np.generic] | None, kind: type) -> pa.Array:
    assert values is not None
    return pa.array(np.ascontiguousarray(values).astype(kind, copy=False))


def timestamp(values: Words) -> pa.Array:
    return pa.array(values * 1000).cast(pa.timestamp("us", tz="UTC"))


def identity(name: str, kind: type) -> Callable[[Records], pa.Array]:
    return lambda r: number(getattr(r.decoded.identity, name), kind)


def sequence(r: Records) -> pa.Array:
    """Idempotence's sequence number of each record; -1 where its producer is not idempotent."""
    base = r.header(layout.BASE_SEQUENCE)
    counted = (base + r.field(rk.OFFSET) - r.header(layout.BASE_OFFSET)) & 0x7FFFFFFF
    return number(np.where(base < 0, -1, counted), np.int32)


RECORD: dict[str, Callable[[Records], pa.Array]] = {
    # the columns of Spark's Kafka connector
    "key": lambda r: r.decoded.texts["key"],
    "value": lambda r: r.decoded.texts["value"],
    "topic": lambda r: repeated(r.topic, len(r)),
    "partition": lambda r: pa.array(np.full(len(r), r.partition, np.int32)),
    "offset": lambda r: number(r.field(rk.OFFSET), np.int64),
    "timestamp": lambda r: timestamp(r.field(rk.TIMESTAMP)),
    "timestampType": lambda r: number((r.header(layout.ATTRIBUTES) & layout.LOG_APPEND_TIME) >> 3, np.int32),
    # of the load tests' records
    "timestamp_ms": lambda r: number(r.field(rk.TIMESTAMP), np.int64),
    "record_key": identity("record_key", np.int32),
    "producer": identity("producer", np.int32),
    "seq": identity("seq", np.int64),
    "partition_seq": identity("partition_seq", np.int64),
    "flags": identity("flags", np.int8),
    "intact": identity("intact", np.bool_),
    "intended_ns": identity("intended_ns", np.int64),
    # of the log
    "header_sum": lambda r: number(r.decoded.header_sums, np.int64),
    "state": lambda r: pa.array(r.states().state),
    "marker": lambda r: pa.array(r.states().marker),
    "value_bytes": lambda r: number(r.field(rk.VALUE_SIZE), np.int32),
    "producer_id": lambda r: number(r.header(layout.PRODUCER_ID), np.int64),
    "producer_epoch": lambda r: number(r.header(layout.PRODUCER_EPOCH), np.int32),
    "sequence": sequence,
    "leader_epoch": lambda r: number(r.header(layout.LEADER_EPOCH), np.int32),
}

BATCH: dict[str, int] = {
    "position": layout.POSITION,
    "size": layout.SIZE,
    "base_offset": layout.BASE_OFFSET,
    "last_offset": layout.LAST_OFFSET,
    "base_timestamp_ms": layout.BASE_TIMESTAMP,
    "max_timestamp_ms": layout.MAX_TIMESTAMP,
    "leader_epoch": layout.LEADER_EPOCH,
    "attributes": layout.ATTRIBUTES,
    "producer_id": layout.PRODUCER_ID,
    "producer_epoch": layout.PRODUCER_EPOCH,
    "base_sequence": layout.BASE_SEQUENCE,
    "record_count": layout.RECORD_COUNT,
    "control_type": layout.CONTROL_TYPE,
    "coordinator_epoch": layout.COORDINATOR_EPOCH,
    "fault": layout.FAULT,
}
NUMPY = {"int": np.int32, "bigint": np.int64}


def record_batch(names: list[str], records: Records) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([RECORD[name](records) for name in names], names)


def header_batch(
    names: list[str], topic: str, partition: int, chunk: Chunk, highest: Words
) -> pa.RecordBatch:
    """A row a batch. highest: the highest timestamp of its records."""
    count = len(chunk.rows)
    fixed = {
        "topic": lambda: repeated(topic, count),
        "partition": lambda: pa.array(np.full(count, partition, np.int32)),
        "segment": lambda: pa.array(np.full(count, chunk.piece.segment, np.int64)),
        "highest_timestamp_ms": lambda: pa.array(highest),
    }
    arrays = [
        fixed[name]() if name in fixed else number(chunk.rows[:, BATCH[name]], NUMPY[schemas.BATCH[name]])
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names)


def is_data(rows: Words) -> NDArray[np.bool_]:
    """The batches that hold records of producers."""
    return (rows[:, layout.ATTRIBUTES] & layout.CONTROL) == 0
