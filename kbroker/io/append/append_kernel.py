"""Takes entries from the rings and decides each append: refused, recognised as a retry, or given
offsets. The first pass of the drain kernel.

Rules: Kafka's UnifiedLog.analyzeAndValidateProducerState, LogSegment.shouldRoll and
ProducerAppendInfo.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.publish_kernel import acknowledged_below, waits_for_sync
from kbroker.io.append.rows import (
    AppendRow,
    AppendState,
    Batch,
    Chain,
    Client,
    Drained,
    Environment,
    Held,
    Stop,
)
from kbroker.ipc.layout import AppendEntry, Completion, Operation, Slot, SlotFlag, SlotState
from kbroker.ipc.ring import TAIL, acks_of, ring_entry, ring_free, ring_ready
from kbroker.kernels import producers as pr
from kbroker.kernels.codes import Code
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    INT32_MAX,
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
)
from kbroker.kernels.producer_rows import Producer, ProducerBatch, Sequence
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.epochs import MAX_PRODUCER_EPOCH, NO_EPOCH

Words = NDArray[np.int64]
Table = NDArray[np.int64]

_acks_of = inlined(acks_of)

SMALL_SEGMENT_BYTES = 1 << 20  # the least segment.bytes

# Where a marker's coordinator epoch lies: control builds these batches, so every varint before it
# is one byte: length, attributes, two deltas, key length, key (2 int16), value length, value's
# version (int16).
MARKER_COORDINATOR_EPOCH = rb.RECORDS + 4 + 1 + 4 + 1 + 2


@inlined
def must_roll(
    row: Words, position: int, next_offset: int, batch: int, length: int, largest_ms: int, now_ms: int
) -> bool:
    """Whether a batch at address ``batch`` needs a new segment: LogSegment.shouldRoll, but for
    small segments of a log that has very many. largest_ms: the batch's largest timestamp in the
    log."""
    last_offset = next_offset + load_i32_be(batch + rb.LAST_OFFSET_DELTA)
    too_far = last_offset - row[AppendRow.BASE_OFFSET] > INT32_MAX
    grows = position < SMALL_SEGMENT_BYTES and now_ms < row[AppendRow.GROW_UNTIL_MS]
    if too_far or position == 0 or grows:
        return too_far
    if length > row[AppendRow.SEGMENT_BYTES] - position:
        return True
    if row[AppendRow.FIRST_TIMESTAMP] >= 0:
        if largest_ms - row[AppendRow.FIRST_TIMESTAMP] > row[AppendRow.SEGMENT_MS]:
            return True
    elif now_ms > row[AppendRow.ROLL_AT_MS]:
        return True
    if row[AppendRow.INDEX_BYTES] + OFFSET_ENTRY_BYTES > row[AppendRow.INDEX_LIMIT]:
        return True
    # the last place is kept for the segment's end
    return row[AppendRow.TIME_INDEX_BYTES] + 2 * TIME_ENTRY_BYTES > row[AppendRow.INDEX_LIMIT]


@inlined
def transaction_version(producers: Table, known: int) -> int:
    """Version of a producer's transactions: it changes whenever one ends. known: its row, or -1."""
    return producers[known, Producer.TXN_FIRST_OFFSET] if known >= 0 else -1


@inlined
def outside_transaction(producers: Table, known: int, epoch: int, first: int, by_control: bool) -> int:
    """The error of a batch that is not in its producer's open transaction: as in Kafka, the
    sequence is checked first."""
    if by_control:
        return Code.INVALID_TXN_STATE
    outcome = pr.check_sequence(producers, known, epoch, first)
    return Code.INVALID_TXN_STATE if outcome == Sequence.IN_SEQUENCE else outcome


@inlined
def check_producer(producers: Table, batch: Words, transactional: bool) -> int:
    """Check a batch with a producer id for idempotence: IN_SEQUENCE, DUPLICATE (offsets filled in),
    UNVERIFIED or an error.

    Leaves the producer's row, -1 when unknown, in Batch.PRODUCER_ROW. A transactional batch
    continues an open transaction of its producer and epoch. A batch that begins a transaction needs
    control's consent (KIP-890): in the log alone it looks like a late batch of an ended
    transaction. Consent expires when a transaction of this producer ends. Ends of other producers'
    transactions do not count, or later batches of this producer would overtake this batch."""
    address = batch[Batch.ADDRESS]
    operation = batch[Batch.OPERATION]
    by_control = operation == Operation.APPEND_BY_CONTROL
    consent = operation == Operation.APPEND_VERIFIED or operation == Operation.APPEND_ADDED or by_control
    known = pr.find_producer(producers, batch[Batch.SLOT], load_i64_be(address + rb.PRODUCER_ID))
    batch[Batch.PRODUCER_ROW] = known
    epoch = load_i16_be(address + rb.PRODUCER_EPOCH)
    first = load_i32_be(address + rb.BASE_SEQUENCE)
    open_since = -1
    if known >= 0:
        last = (first + load_i32_be(address + rb.LAST_OFFSET_DELTA)) & INT32_MAX
        same = -1 if by_control else pr.duplicate_of(producers, known, epoch, first, last)
        if same >= 0:
            base = Producer.BATCHES + same * ProducerBatch.WORDS
            batch[Batch.BASE_OFFSET] = producers[known, base + ProducerBatch.BASE_OFFSET]
            batch[Batch.LAST_OFFSET] = producers[known, base + ProducerBatch.LAST_OFFSET]
            # Kafka returns it for retries, whatever message.timestamp.type is
            batch[Batch.APPEND_TIME] = producers[known, base + ProducerBatch.TIMESTAMP]
            return Sequence.DUPLICATE
        if epoch < producers[known, Producer.EPOCH]:
            # as in Kafka the coordinator returns this error to a transactional producer
            return Code.INVALID_PRODUCER_EPOCH if consent or not transactional else Completion.UNVERIFIED
        open_since = producers[known, Producer.TXN_FIRST_OFFSET]
        if open_since >= 0 and not transactional:
            return outside_transaction(producers, known, epoch, first, by_control)
        if epoch > producers[known, Producer.EPOCH]:
            open_since = -1
    if by_control:
        return Sequence.IN_SEQUENCE
    if transactional and open_since < 0:
        verified_at = load_i64_be(address + rb.BASE_OFFSET)
        if not consent or (
            verified_at != transaction_version(producers, known)
            and verified_at != AppendEntry.ANY_TRANSACTION
        ):
            return Completion.UNVERIFIED
    if known < 0:
        return check_first_batch(epoch, first, operation == Operation.APPEND_ADDED)
    return pr.check_sequence(producers, known, epoch, first)


@inlined
def check_first_batch(epoch: int, sequence: int, from_zero: bool) -> int:
    """Check a batch of a producer that the partition does not know."""
    if epoch < NO_EPOCH:
        return Code.INVALID_PRODUCER_EPOCH
    return Code.OUT_OF_ORDER_SEQUENCE_NUMBER if from_zero and sequence != 0 else Sequence.IN_SEQUENCE


@inlined
def check_marker(producers: Table, batch: Words) -> int:
    """Whether a transaction marker may be appended: 0, or an error
    (ProducerAppendInfo.appendEndTxnMarker).

    With transactions v2 a marker has a newer epoch than the records of its transaction. One of the
    last epoch is a retry if no transaction is open: its answer was lost."""
    address = batch[Batch.ADDRESS]
    known = pr.find_producer(producers, batch[Batch.SLOT], load_i64_be(address + rb.PRODUCER_ID))
    epoch = load_i16_be(address + rb.PRODUCER_EPOCH)
    coordinator_epoch = load_i32_be(address + MARKER_COORDINATOR_EPOCH)
    if known < 0:
        if epoch < NO_EPOCH:
            return Code.INVALID_PRODUCER_EPOCH
        return Code.TRANSACTION_COORDINATOR_FENCED if coordinator_epoch < NO_EPOCH else 0
    bumps = load_i64_be(address + rb.BASE_OFFSET) == AppendEntry.MARKER_WITH_NEW_EPOCH
    if bumps and producers[known, Producer.TXN_FIRST_OFFSET] >= 0 and epoch < MAX_PRODUCER_EPOCH:
        epoch -= 1
    if epoch < producers[known, Producer.EPOCH]:
        return Code.INVALID_PRODUCER_EPOCH
    if coordinator_epoch < producers[known, Producer.COORDINATOR_EPOCH]:
        return Code.TRANSACTION_COORDINATOR_FENCED
    return 0


@inlined
def stamp(row: Words, batch: Words, flags: int, now_ms: int) -> None:
    """Patch base offset and leader epoch (outside the CRC), and for LogAppendTime the times and the
    CRC."""
    address = batch[Batch.ADDRESS]
    store_i64_be(address + rb.BASE_OFFSET, batch[Batch.BASE_OFFSET])
    store_i32_be(address + rb.PARTITION_LEADER_EPOCH, row[AppendRow.LEADER_EPOCH])
    if flags & SlotFlag.LOG_APPEND_TIME:
        attributes = load_i16_be(address + rb.ATTRIBUTES) | rb.ATTRIBUTE_LOG_APPEND_TIME
        store_i16_be(address + rb.ATTRIBUTES, attributes)
        store_i64_be(address + rb.MAX_TIMESTAMP, now_ms)
        crc = crc32c_at(address + rb.ATTRIBUTES, batch[Batch.LENGTH] - rb.ATTRIBUTES)
        store_i32_be(address + rb.CRC, crc)
        batch[Batch.APPEND_TIME] = now_ms
    batch[Batch.MAX_TIMESTAMP] = load_i64_be(address + rb.MAX_TIMESTAMP)


@inlined
def remember(producers: Table, batch: Words, row: Words, transactional: bool) -> None:
    """Enter an accepted batch into the producer table."""
    address = batch[Batch.ADDRESS]
    producer = batch[Batch.PRODUCER_ROW]
    epoch = load_i16_be(address + rb.PRODUCER_EPOCH)
    if producer < 0:
        producer = pr.claim_producer(producers, batch[Batch.SLOT], load_i64_be(address + rb.PRODUCER_ID))
        producers[producer, Producer.EPOCH] = epoch
    first = load_i32_be(address + rb.BASE_SEQUENCE)
    last = Sequence.NONE
    if first != Sequence.NONE:
        last = (first + load_i32_be(address + rb.LAST_OFFSET_DELTA)) & INT32_MAX
    base_offset = batch[Batch.BASE_OFFSET]
    pr.remember_batch(
        producers,
        producer,
        epoch,
        first,
        last,
        base_offset,
        batch[Batch.LAST_OFFSET],
        batch[Batch.MAX_TIMESTAMP],
    )
    if transactional and producers[producer, Producer.TXN_FIRST_OFFSET] < 0:
        producers[producer, Producer.TXN_FIRST_OFFSET] = base_offset
        opened = row[AppendRow.OPENED]
        if opened < AppendRow.MAX_OPENED:
            row[AppendRow.OPENINGS + 2 * opened] = base_offset
            row[AppendRow.OPENINGS + 2 * opened + 1] = producers[producer, Producer.ID]
        row[AppendRow.OPENED] = opened + 1
        if row[AppendRow.FIRST_UNSTABLE] < 0:
            row[AppendRow.FIRST_UNSTABLE] = base_offset


@inlined
def plan_append(slots: Table, rows: Table, producers: Table, chains: Table, batch: Words, out: Words) -> int:
    """Decide one append: STOP_NONE with error or offsets in ``batch``, or why Python must act
    first."""
    now_ms = out[Drained.NOW_MS]
    slot = batch[Batch.SLOT]
    address = batch[Batch.ADDRESS]
    length = batch[Batch.LENGTH]
    row = rows[slot]
    if slots[slot, Slot.GENERATION] != batch[Batch.GENERATION] or row[AppendRow.STATE] != AppendState.OPEN:
        offline = (
            slots[slot, Slot.STATE] == SlotState.OFFLINE or row[AppendRow.STATE] == AppendState.DISK_FULL
        )
        batch[Batch.ERROR] = Code.KAFKA_STORAGE_ERROR if offline else Code.NOT_LEADER_OR_FOLLOWER
        return Stop.NONE
    attributes = load_i16_be(address + rb.ATTRIBUTES)
    control = (attributes & rb.ATTRIBUTE_CONTROL) != 0
    if length > row[AppendRow.SEGMENT_BYTES]:
        batch[Batch.ERROR] = Code.RECORD_LIST_TOO_LARGE
        return Stop.NONE
    flags = slots[slot, Slot.FLAGS]
    acks = _acks_of(batch[Batch.ACKS])
    if flags & SlotFlag.ACKS_WAIT and acks == -1:
        if row[AppendRow.TOO_FEW]:
            batch[Batch.ERROR] = Code.NOT_ENOUGH_REPLICAS
            return Stop.NONE
        batch[Batch.HELD] = Held.APPEND
    idempotent = load_i64_be(address + rb.PRODUCER_ID) >= 0 and not control
    transactional = (attributes & rb.ATTRIBUTE_TRANSACTIONAL) != 0
    if control:  # only the control process sends these; Python ends the transaction after the write
        batch[Batch.HELD] = Held.CONTROL
        batch[Batch.ERROR] = check_marker(producers, batch)
        if batch[Batch.ERROR] != 0:
            batch[Batch.HELD] = 0
            return Stop.NONE
    if idempotent:
        outcome = check_producer(producers, batch, transactional)
        if outcome == Sequence.DUPLICATE:
            if waits_for_sync(slots, row, slot, batch[Batch.LAST_OFFSET]) and acks != 0:
                batch[Batch.HELD] = Held.APPEND
            elif batch[Batch.HELD] != 0 and batch[Batch.LAST_OFFSET] < acknowledged_below(slots, row, slot):
                batch[Batch.HELD] = 0  # no later step of this drain may answer it
            return Stop.NONE
        if outcome != Sequence.IN_SEQUENCE:
            batch[Batch.ERROR] = outcome
            batch[Batch.HELD] = 0
            if outcome == Completion.UNVERIFIED:
                batch[Batch.LAST_OFFSET] = transaction_version(producers, batch[Batch.PRODUCER_ROW])
            return Stop.NONE
    chain = chains[slot]
    touched = chain[Chain.HEAD] >= 0
    position = chain[Chain.POSITION] if touched else row[AppendRow.POSITION]
    next_offset = chain[Chain.NEXT_OFFSET] if touched else row[AppendRow.NEXT_OFFSET]
    # with LogAppendTime the producer's timestamps do not count: `stamp` replaces them
    stamped = flags & SlotFlag.LOG_APPEND_TIME != 0
    largest_ms = now_ms if stamped else load_i64_be(address + rb.MAX_TIMESTAMP)
    if must_roll(row, position, next_offset, address, length, largest_ms, now_ms):
        return Stop.ROLL
    if row[AppendRow.LOG_FD] == AppendRow.NO_FD:
        return Stop.FILES
    batch[Batch.BASE_OFFSET] = next_offset
    batch[Batch.LAST_OFFSET] = next_offset + load_i32_be(address + rb.LAST_OFFSET_DELTA)
    batch[Batch.RECORDS] = load_i32_be(address + rb.RECORD_COUNT)
    stamp(row, batch, flags, now_ms)
    if position == 0:
        row[AppendRow.FIRST_TIMESTAMP] = batch[Batch.MAX_TIMESTAMP]
    if idempotent:
        remember(producers, batch, row, transactional)
    row[AppendRow.UNFLUSHED_RECORDS] += batch[Batch.RECORDS]
    if row[AppendRow.UNFLUSHED_RECORDS] >= row[AppendRow.FLUSH_RECORDS] and acks != 0 and not control:
        batch[Batch.HELD] = Held.APPEND
    chain[Chain.POSITION] = position + length
    chain[Chain.NEXT_OFFSET] = batch[Batch.LAST_OFFSET] + 1
    return Stop.NONE


@inlined
def plan(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, batches: Table, chains: Table,
    touched: Words, out: Words,
) -> None:  # fmt: skip
    """Pass 1: ring entries become rows of ``batches``; accepted ones are chained by slot."""
    capacity = env[Environment.CAPACITY]
    quota = max(1, batches.shape[0] // clients.shape[0])
    count = 0
    for c in range(clients.shape[0]):
        client = clients[c]
        client[Client.CONSUMED] = 0
        client[Client.COMPLETED] = 0
        if out[Drained.STOP] != Stop.NONE:
            continue
        ring = client[Client.APPEND_RING]
        # one place in the completion ring is reserved for each held or notified entry by taking
        # half of what is free
        ready = ring_ready(ring)
        limit = min(ready, quota, ring_free(client[Client.COMPLETION_RING], capacity) >> 1)
        if limit <= 0 and ready > 0:
            env[Environment.BLOCKED] = 1
        tail = load_i64(ring + TAIL)
        for n in range(limit):
            entry = ring_entry(ring, capacity, tail + n)
            batch = batches[count]
            batch[:] = 0
            batch[Batch.CLIENT] = c
            batch[Batch.OPERATION] = load_i64(entry + 8 * AppendEntry.OPERATION)
            batch[Batch.SLOT] = load_i64(entry + 8 * AppendEntry.SLOT)
            batch[Batch.GENERATION] = load_i64(entry + 8 * AppendEntry.GENERATION)
            batch[Batch.LENGTH] = load_i64(entry + 8 * AppendEntry.LENGTH)
            batch[Batch.TOKEN] = load_i64(entry + 8 * AppendEntry.TOKEN)
            batch[Batch.ACKS] = load_i64(entry + 8 * AppendEntry.ACKS)
            batch[Batch.ENQUEUED_NS] = load_i64(entry + 8 * AppendEntry.NANOSECONDS)
            batch[Batch.BASE_OFFSET] = -1
            batch[Batch.LAST_OFFSET] = -1
            batch[Batch.NEXT] = -1
            batch[Batch.APPEND_TIME] = -1
            batch[Batch.PRODUCER_ROW] = -1
            address = load_i64(entry + 8 * AppendEntry.ADDRESS)
            if batch[Batch.OPERATION] == Operation.READ_AHEAD:
                batch[Batch.ADDRESS] = address
                batch[Batch.HELD] = Held.READ_AHEAD
                count += 1
                client[Client.CONSUMED] += 1
                continue
            batch[Batch.ADDRESS] = client[Client.ARENA] + address
            if c == clients.shape[0] - 1:
                batch[Batch.OPERATION] = Operation.APPEND_BY_CONTROL
            if pr.room_of(producers) <= 0:
                out[Drained.STOP] = Stop.ROOM
                break
            slot = batch[Batch.SLOT]
            if chains[slot, Chain.MARKED] == 1:
                out[Drained.STOP] = Stop.MARKER
                break
            stop = plan_append(slots, rows, producers, chains, batch, out)
            if stop != Stop.NONE:
                out[Drained.STOP] = stop
                out[Drained.STOP_SLOT] = slot
                break
            if batch[Batch.RECORDS] > 0:
                chain = chains[slot]
                if chain[Chain.HEAD] < 0:
                    chain[Chain.HEAD] = count
                    touched[out[Drained.TOUCHED]] = slot
                    out[Drained.TOUCHED] += 1
                else:
                    batches[chain[Chain.TAIL], Batch.NEXT] = count
                chain[Chain.TAIL] = count
            count += 1
            client[Client.CONSUMED] += 1
            if batch[Batch.HELD] == Held.CONTROL:
                chains[slot, Chain.MARKED] = 1
    out[Drained.COUNT] = count
