"""Many rows of the table of producers at once, column by column: a partition may have hundreds of
thousands of producers, and its IO worker also serves other partitions."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.io.files import producer_snapshot as file
from kbroker.kernels.crc32c import crc32c
from kbroker.kernels.producer_rows import Producer, ProducerBatch, Sequence

ENTRY: Final = np.dtype(">i8,>i2,>i4,>i8,>i4,>i8,>i4,>i8")
"""producer_snapshot.ENTRY."""
EARLIER: Final = np.dtype(">i8,>i4,>i4,>i8,>i8,>i8")
"""producer_snapshot.EARLIER."""
assert (ENTRY.itemsize, EARLIER.itemsize) == (file.ENTRY.size, file.EARLIER.size)

Words = NDArray[np.int64]


def snapshot(rows: Words, chosen: Words) -> bytes:
    """The bytes of a snapshot file of these rows."""
    body = np.zeros(len(chosen), ENTRY)
    last_offset, base_offset = (
        _of_last(rows, chosen, field, -1) for field in (ProducerBatch.LAST_OFFSET, ProducerBatch.BASE_OFFSET)
    )
    columns = (
        rows[chosen, Producer.ID],
        rows[chosen, Producer.EPOCH],
        _of_last(rows, chosen, ProducerBatch.LAST_SEQUENCE, Sequence.NONE),
        last_offset,
        last_offset - base_offset,
        rows[chosen, Producer.LAST_TIMESTAMP],
        rows[chosen, Producer.COORDINATOR_EPOCH],
        np.maximum(rows[chosen, Producer.TXN_FIRST_OFFSET], -1),
    )
    for name, column in zip(ENTRY.names or (), columns, strict=True):
        body[name] = column
    earlier = _earlier(rows, chosen)
    content = file.COUNT.pack(len(chosen)) + body.tobytes() + (file.MAGIC + earlier if earlier else b"")
    return file.HEADER.pack(file.VERSION, crc32c(content)) + content


def last_records(rows: Words, chosen: Words) -> bytes:
    """CleaningJob.last_records of these rows."""
    last = _of_last(rows, chosen, ProducerBatch.LAST_OFFSET, -1)
    return np.column_stack((rows[chosen, Producer.ID], last, rows[chosen, Producer.EPOCH])).tobytes()


def states(rows: Words, chosen: Words) -> list[list[int]]:
    """The fields of ProducerState of these rows."""
    columns = (
        rows[chosen, Producer.ID],
        rows[chosen, Producer.EPOCH],
        _of_last(rows, chosen, ProducerBatch.LAST_SEQUENCE, Sequence.NONE),
        rows[chosen, Producer.LAST_TIMESTAMP],
        rows[chosen, Producer.COORDINATOR_EPOCH],
        np.maximum(rows[chosen, Producer.TXN_FIRST_OFFSET], -1),
    )
    found: list[list[int]] = np.column_stack(columns).tolist()
    return found


def _of_last(rows: Words, chosen: Words, field: int, without: int) -> Words:
    """A field of each row's last batch; `without` for a row that has none."""
    counts = rows[chosen, Producer.BATCH_COUNT]
    at = Producer.BATCHES + np.maximum(counts - 1, 0) * ProducerBatch.WORDS + field
    found: Words = np.where(counts > 0, rows[chosen, at], without)
    return found


def _earlier(rows: Words, chosen: Words) -> bytes:
    """All batches but the last ones."""
    counts = np.maximum(rows[chosen, Producer.BATCH_COUNT] - 1, 0)
    total = int(counts.sum())
    if not total:
        return b""
    owners = np.repeat(chosen, counts)
    at = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    first = Producer.BATCHES + at * ProducerBatch.WORDS
    found = np.zeros(total, EARLIER)
    fields = (
        ProducerBatch.FIRST_SEQUENCE,
        ProducerBatch.LAST_SEQUENCE,
        ProducerBatch.BASE_OFFSET,
        ProducerBatch.LAST_OFFSET,
        ProducerBatch.TIMESTAMP,
    )
    columns = (rows[owners, Producer.ID], *(rows[owners, first + field] for field in fields))
    for name, column in zip(EARLIER.names or (), columns, strict=True):
        found[name] = column
    return found.tobytes()
