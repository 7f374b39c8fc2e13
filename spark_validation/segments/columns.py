"""The columns that the segment source knows, and how each is made of decoded records or of batch headers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.protocol import batch_layout as b
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments import schemas
from spark_validation.segments.walk import Chunk

Words = NDArray[np.int64]


@dataclass
class Records:
    """Decoded records of a chunk. found: rows of RECORD_COLUMNS; identity: of IDENTITY_COLUMNS, where a column is made
    of it; texts: the columns key and value, where wanted; state: one a batch."""

    topic: str
    partition: int
    chunk: Chunk
    state: NDArray[np.int8] | None
    found: Words
    identity: Words
    texts: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.found)

    def header(self, column: int) -> Words:
        """A column of each record's batch header."""
        return self.chunk.rows[self.found[:, dk.BATCH], column]

    def batch_state(self) -> NDArray[np.int8]:
        assert self.state is not None
        return self.state[self.found[:, dk.BATCH]]


def repeated(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


def number(values: NDArray[np.int64], kind: type) -> pa.Array:
    return pa.array(np.ascontiguousarray(values).astype(kind, copy=False))


def timestamp(values: Words) -> pa.Array:
    return pa.array(values * 1000).cast(pa.timestamp("us", tz="UTC"))


def identity(column: int, kind: type) -> Callable[[Records], pa.Array]:
    return lambda r: number(r.identity[:, column], kind)


def sequence(r: Records) -> pa.Array:
    """Idempotence's sequence number of each record; -1 where its producer is not idempotent."""
    base = r.header(ScannedBatch.BASE_SEQUENCE)
    counted = (base + r.found[:, dk.OFFSET] - r.header(ScannedBatch.BASE_OFFSET)) & 0x7FFFFFFF
    return number(np.where(base < 0, -1, counted), np.int32)


RECORD: dict[str, Callable[[Records], pa.Array]] = {
    # the columns of Spark's Kafka connector
    "key": lambda r: r.texts["key"],
    "value": lambda r: r.texts["value"],
    "topic": lambda r: repeated(r.topic, len(r)),
    "partition": lambda r: pa.array(np.full(len(r), r.partition, np.int32)),
    "offset": lambda r: number(r.found[:, dk.OFFSET], np.int64),
    "timestamp": lambda r: timestamp(r.found[:, dk.TIMESTAMP]),
    "timestampType": lambda r: number(
        (r.header(ScannedBatch.ATTRIBUTES) & b.ATTRIBUTE_LOG_APPEND_TIME) >> 3, np.int32
    ),
    # of the load tests' records
    "timestamp_ms": lambda r: number(r.found[:, dk.TIMESTAMP], np.int64),
    "record_key": identity(dk.KEY, np.int32),
    "producer": identity(dk.PRODUCER, np.int32),
    "seq": identity(dk.SEQ, np.int64),
    "partition_seq": identity(dk.PARTITION_SEQ, np.int64),
    "flags": identity(dk.FLAGS, np.int8),
    "intact": lambda r: pa.array(r.identity[:, dk.INTACT] > 0),
    "intended_ns": identity(dk.INTENDED_NS, np.int64),
    # of the log
    "state": lambda r: pa.array(r.batch_state()),
    "value_bytes": lambda r: number(r.found[:, dk.VALUE_SIZE], np.int32),
    "producer_id": lambda r: number(r.header(ScannedBatch.PRODUCER_ID), np.int64),
    "producer_epoch": lambda r: number(r.header(ScannedBatch.PRODUCER_EPOCH), np.int32),
    "sequence": sequence,
    "leader_epoch": lambda r: number(r.header(ScannedBatch.LEADER_EPOCH), np.int32),
}

# made while a record's bytes are at hand
TEXTS = {"key": dk.KEY_AT, "value": dk.VALUE_AT}
IDENTITY = {"record_key", "producer", "seq", "partition_seq", "flags", "intact", "intended_ns"}

BATCH: dict[str, int] = {
    "position": ScannedBatch.POSITION,
    "size": ScannedBatch.SIZE,
    "base_offset": ScannedBatch.BASE_OFFSET,
    "last_offset": ScannedBatch.LAST_OFFSET,
    "base_timestamp_ms": ScannedBatch.BASE_TIMESTAMP,
    "max_timestamp_ms": ScannedBatch.MAX_TIMESTAMP,
    "leader_epoch": ScannedBatch.LEADER_EPOCH,
    "attributes": ScannedBatch.ATTRIBUTES,
    "producer_id": ScannedBatch.PRODUCER_ID,
    "producer_epoch": ScannedBatch.PRODUCER_EPOCH,
    "base_sequence": ScannedBatch.BASE_SEQUENCE,
    "record_count": ScannedBatch.RECORD_COUNT,
    "control_type": ScannedBatch.CONTROL_TYPE,
    "fault": dk.FAULT,
}
NUMPY = {"int": np.int32, "bigint": np.int64}


def record_batch(names: list[str], records: Records) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([RECORD[name](records) for name in names], names)


def header_batch(names: list[str], topic: str, partition: int, chunk: Chunk) -> pa.RecordBatch:
    """A row a batch."""
    count = len(chunk.rows)
    fixed = {
        "topic": lambda: repeated(topic, count),
        "partition": lambda: pa.array(np.full(count, partition, np.int32)),
        "segment": lambda: pa.array(np.full(count, chunk.piece.segment, np.int64)),
    }
    arrays = [
        fixed[name]() if name in fixed else number(chunk.rows[:, BATCH[name]], NUMPY[schemas.BATCH[name]])
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names)


def is_data(rows: Words) -> NDArray[np.bool_]:
    """Which batches hold records of producers."""
    return (rows[:, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CONTROL) == 0
