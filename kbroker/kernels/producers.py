"""Idempotence at append: the table of producers that an IO worker's drain kernel checks and updates.

Open addressing over (slot, producer id) in one int64 array ``[capacity, PRODUCER_WORDS]``, capacity a power of two,
linear probing, at most half full (Python grows it). The rules are Kafka's ProducerStateManager and ProducerAppendInfo.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined, kernel

PRODUCER_WORDS = 32
KEY = 0  # slot + 1; 0 empty, -1 deleted
PRODUCER_ID = 1
EPOCH = 2
COORDINATOR_EPOCH = 3
LAST_TIMESTAMP = 4
TXN_FIRST_OFFSET = 5  # below 0 outside a transaction: -1, or see ENDED
BATCH_COUNT = 6  # of remembered batches, up to 5, oldest first
BATCHES = 7  # five groups of BATCH_WORDS
BATCH_WORDS = 5
BATCH_FIRST_SEQUENCE = 0
BATCH_LAST_SEQUENCE = 1
BATCH_BASE_OFFSET = 2
BATCH_LAST_OFFSET = 3
BATCH_TIMESTAMP = 4
MAX_BATCHES = 5

SEQUENCE_LIMIT = 1 << 31

# outcome of check_sequence besides a Kafka error code
IN_SEQUENCE = 0
DUPLICATE = -2
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
TRANSACTION_COORDINATOR_FENCED = 52
NO_SEQUENCE = -1  # of batches that a coordinator appends for a producer

# TXN_FIRST_OFFSET after a transaction: this minus its marker's offset. So the word is another one after each end;
# -2 is layout.ANY_TRANSACTION.
ENDED = -3

Table = NDArray[np.int64]


@inlined
def _hash(slot: int, producer_id: int, mask: int) -> int:
    mixed = (producer_id * 1000003 + slot) * 0x2545F4914F6CDD1D
    return (mixed ^ (mixed >> 29)) & mask


@inlined
def find_producer(table: Table, slot: int, producer_id: int) -> int:
    """Row of the producer, or -1."""
    mask = table.shape[0] - 1
    row = _hash(slot, producer_id, mask)
    while table[row, KEY] != 0:
        if table[row, KEY] == slot + 1 and table[row, PRODUCER_ID] == producer_id:
            return row
        row = (row + 1) & mask
    return -1


@inlined
def claim_producer(table: Table, slot: int, producer_id: int) -> int:
    """Row for a producer that is not in the table; the caller keeps the table at most half full."""
    mask = table.shape[0] - 1
    row = _hash(slot, producer_id, mask)
    while table[row, KEY] > 0:
        row = (row + 1) & mask
    table[row, :] = 0
    table[row, KEY] = slot + 1
    table[row, PRODUCER_ID] = producer_id
    table[row, COORDINATOR_EPOCH] = -1
    table[row, LAST_TIMESTAMP] = -1
    table[row, TXN_FIRST_OFFSET] = -1
    return row


@inlined
def duplicate_of(table: Table, row: int, epoch: int, first: int, last: int) -> int:
    """Index of the remembered batch with exactly these sequences and epoch, or -1."""
    if table[row, EPOCH] == epoch:
        for n in range(table[row, BATCH_COUNT]):
            base = BATCHES + n * BATCH_WORDS
            if (
                table[row, base + BATCH_FIRST_SEQUENCE] == first
                and table[row, base + BATCH_LAST_SEQUENCE] == last
            ):
                return n
    return -1


@inlined
def check_sequence(table: Table, row: int, epoch: int, first: int) -> int:
    """IN_SEQUENCE or a Kafka error code, for a batch that is no duplicate."""
    if epoch < table[row, EPOCH]:
        return INVALID_PRODUCER_EPOCH
    count = table[row, BATCH_COUNT]
    if epoch > table[row, EPOCH]:
        return IN_SEQUENCE if first == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
    if count == 0:  # known only by a transaction marker of this epoch
        return IN_SEQUENCE if first == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
    last = table[row, BATCHES + (count - 1) * BATCH_WORDS + BATCH_LAST_SEQUENCE]
    expected = 0 if last == SEQUENCE_LIMIT - 1 else last + 1
    return IN_SEQUENCE if first == expected else OUT_OF_ORDER_SEQUENCE_NUMBER


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
    count = table[row, BATCH_COUNT]
    if table[row, EPOCH] != epoch:
        table[row, EPOCH] = epoch
        count = 0
    if count == MAX_BATCHES:
        for word in range(BATCHES, BATCHES + (MAX_BATCHES - 1) * BATCH_WORDS):
            table[row, word] = table[row, word + BATCH_WORDS]
        count -= 1
    base = BATCHES + count * BATCH_WORDS
    table[row, base + BATCH_FIRST_SEQUENCE] = first
    table[row, base + BATCH_LAST_SEQUENCE] = last
    table[row, base + BATCH_BASE_OFFSET] = base_offset
    table[row, base + BATCH_LAST_OFFSET] = last_offset
    table[row, base + BATCH_TIMESTAMP] = timestamp
    table[row, BATCH_COUNT] = count + 1
    table[row, LAST_TIMESTAMP] = timestamp


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
        if old[row, KEY] > 0:
            slot = old[row, KEY] - 1
            target = claim_producer(new, slot, old[row, PRODUCER_ID])
            new[target, :] = old[row, :]
