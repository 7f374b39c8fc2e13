"""Idempotence at append: the table of producers that an IO worker's drain kernel checks and
updates.

Open addressing over (slot, producer id) in one int64 array ``[capacity + 1, Producer.WORDS]``,
capacity a power of two, linear probing, at most half full (Python grows it). The last row has only
the key of the hash, because clients choose producer ids, and the room that is left. The rules are
Kafka's ProducerStateManager and ProducerAppendInfo.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash_words, random_key
from kbroker.kernels.producer_rows import Producer, ProducerBatch, Sequence

Table = NDArray[np.int64]


_KEY = random_key()


def new_table(capacity: int) -> Table:
    """An empty table. capacity: a power of two."""
    table = Producer.table(capacity + 1)
    table[capacity, Producer.HASH_KEY] = _KEY
    table[capacity, Producer.ROOM] = capacity // 2
    return table


@inlined
def room_of(table: Table) -> int:
    """Producers that may be claimed before the table has to grow."""
    return table[table.shape[0] - 1, Producer.ROOM]


@inlined
def _place(table: Table, slot: int, producer_id: int) -> int:
    """The row from which a producer is searched."""
    capacity = table.shape[0] - 1
    return hash_words(slot, producer_id, table[capacity, Producer.HASH_KEY]) & (capacity - 1)


@inlined
def find_producer(table: Table, slot: int, producer_id: int) -> int:
    """Row of the producer, or -1."""
    mask = table.shape[0] - 2
    row = _place(table, slot, producer_id)
    while table[row, Producer.KEY] != 0:
        if table[row, Producer.KEY] == slot + 1 and table[row, Producer.ID] == producer_id:
            return row
        row = (row + 1) & mask
    return -1


@inlined
def claim_producer(table: Table, slot: int, producer_id: int) -> int:
    """Row for a producer that is not in the table, in which there is room."""
    mask = table.shape[0] - 2
    row = _place(table, slot, producer_id)
    while table[row, Producer.KEY] > 0:
        row = (row + 1) & mask
    table[mask + 1, Producer.ROOM] -= 1
    table[row, :] = 0
    table[row, Producer.KEY] = slot + 1
    table[row, Producer.ID] = producer_id
    table[row, Producer.COORDINATOR_EPOCH] = -1
    table[row, Producer.LAST_TIMESTAMP] = -1
    table[row, Producer.TXN_FIRST_OFFSET] = -1
    return row


@inlined
def duplicate_of(table: Table, row: int, epoch: int, first: int, last: int) -> int:
    """Index of the remembered batch with exactly these sequences and epoch, or -1."""
    if table[row, Producer.EPOCH] == epoch:
        for n in range(table[row, Producer.BATCH_COUNT]):
            base = Producer.BATCHES + n * ProducerBatch.WORDS
            if (
                table[row, base + ProducerBatch.FIRST_SEQUENCE] == first
                and table[row, base + ProducerBatch.LAST_SEQUENCE] == last
            ):
                return n
    return -1


@inlined
def check_sequence(table: Table, row: int, epoch: int, first: int) -> int:
    """Sequence.IN_SEQUENCE or a Kafka error code, for a batch that is no duplicate."""
    if epoch < table[row, Producer.EPOCH]:
        return Code.INVALID_PRODUCER_EPOCH
    count = table[row, Producer.BATCH_COUNT]
    if epoch > table[row, Producer.EPOCH]:
        return Sequence.IN_SEQUENCE if first == 0 else Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    if count == 0:  # known only by a transaction marker of this epoch
        return Sequence.IN_SEQUENCE if first == 0 else Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    last = table[row, Producer.BATCHES + (count - 1) * ProducerBatch.WORDS + ProducerBatch.LAST_SEQUENCE]
    expected = 0 if last == Sequence.LIMIT - 1 else last + 1
    return Sequence.IN_SEQUENCE if first == expected else Code.OUT_OF_ORDER_SEQUENCE_NUMBER


@inlined
def remember_batch(
    table: Table,
    row: int,
    epoch: int,
    first: int,
    last: int,
    base_offset: int,
    last_offset: int,
    timestamp: int,
) -> None:
    """Add a batch; the oldest of five is forgotten, and all of them when the epoch rises."""
    count = table[row, Producer.BATCH_COUNT]
    if table[row, Producer.EPOCH] != epoch:
        table[row, Producer.EPOCH] = epoch
        count = 0
    if count == Producer.MAX_BATCHES:
        for word in range(
            Producer.BATCHES, Producer.BATCHES + (Producer.MAX_BATCHES - 1) * ProducerBatch.WORDS
        ):
            table[row, word] = table[row, word + ProducerBatch.WORDS]
        count -= 1
    base = Producer.BATCHES + count * ProducerBatch.WORDS
    table[row, base + ProducerBatch.FIRST_SEQUENCE] = first
    table[row, base + ProducerBatch.LAST_SEQUENCE] = last
    table[row, base + ProducerBatch.BASE_OFFSET] = base_offset
    table[row, base + ProducerBatch.LAST_OFFSET] = last_offset
    table[row, base + ProducerBatch.TIMESTAMP] = timestamp
    table[row, Producer.BATCH_COUNT] = count + 1
    table[row, Producer.LAST_TIMESTAMP] = timestamp


@kernel("int64(int64[:, ::1], int64, int64)")
def find(table: Table, slot: int, producer_id: int) -> int:
    """Row of a producer, or -1; from Python."""
    return find_producer(table, slot, producer_id)


@kernel("int64(int64[:, ::1], int64, int64)")
def claim(table: Table, slot: int, producer_id: int) -> int:
    """Row of a producer, made when missing; from Python."""
    row = find_producer(table, slot, producer_id)
    return row if row >= 0 else claim_producer(table, slot, producer_id)


@kernel("void(int64[:, ::1], int64[:, ::1])")
def rehash(old: Table, new: Table) -> None:
    """Copy every live row of one table into an empty one."""
    for row in range(old.shape[0]):
        if old[row, Producer.KEY] > 0:
            slot = old[row, Producer.KEY] - 1
            target = claim_producer(new, slot, old[row, Producer.ID])
            for word in range(Producer.WORDS):
                new[target, word] = old[row, word]
