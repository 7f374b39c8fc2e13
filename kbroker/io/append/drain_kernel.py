"""The append drain of an IO worker: one compiled call takes the entries of the rings and writes
them.

Four passes over one batch array: ``plan`` copies ring entries and decides each one's outcome and
offsets (append_kernel.py); ``write_batches`` gathers the accepted batches of each partition into
few pwritev, and ``index_batches`` adds index entries; ``publish`` makes the new ends visible
(publish_kernel.py); ``complete`` answers the senders. An entry that waits for a sync or for
replicas becomes a delayed produce (delayed_produce_kernel.py), and the kernel requests the sync
(group_commit_kernel.py). Python runs between calls only for rare events: a roll, a full producer
table, a control batch, a failed write. Ring tails move last, so a crash leaves unanswered entries
in the rings. Arrays: ``rows.py``.

Rules of writing: Kafka's LogSegment.append, OffsetIndex.append and TimeIndex.maybeAppend.

Last, ``reserve_ahead`` reserves blocks beyond the end of a log that grows fast (docs/adr/0019). A
log is checked each time it has grown by a stretch. If the stretch took at most KEEP_MS, the next
chunk is reserved without making the file longer. So the recent rate of appends bounds the reserved
blocks, and a quiet log has none. `reservations.py` frees them.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.append_kernel import plan
from kbroker.io.append.delayed_produce_kernel import hold
from kbroker.io.append.group_commit_kernel import request_syncs
from kbroker.io.append.publish_kernel import (
    notify,
    publish,
    push_completion,
    wake_clients,
)
from kbroker.io.append.rows import (
    AppendRow,
    AppendState,
    Batch,
    Chain,
    Client,
    Drained,
    Environment,
    FollowUp,
    Held,
    Stop,
)
from kbroker.ipc.layout import Completion, Counter, Slot, SlotFlag
from kbroker.ipc.ring import TAIL
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    CLOCK_MONOTONIC,
    CLOCK_REALTIME,
    EINTR,
    FALLOC_FL_KEEP_SIZE,
    clock_ns,
    errno,
    fallocate,
    ftruncate,
    pwrite,
    pwritev,
)
from kbroker.kernels.memory import fence, load_i64, store_i32_be, store_i64, store_i64_be, store_release
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add, observe

Words = NDArray[np.int64]
Table = NDArray[np.int64]

MIN_CHUNK_BYTES = 2 << 20
BLOCK_BYTES = 4096


@inlined
def write_all(fd: int, iov: int, pieces: int, position: int, total: int) -> int:
    """pwritev that continues after short writes and signals; 0, or the errno."""
    written = 0
    while written < total:
        done = pwritev(fd, iov, pieces, position + written)
        if done < 0:
            error = errno()
            if error == EINTR:
                continue
            return error
        written += done
        while pieces > 0 and done >= load_i64(iov + 8):
            done -= load_i64(iov + 8)
            iov += 16
            pieces -= 1
        if pieces > 0:
            store_i64(iov, load_i64(iov) + done)
            store_i64(iov + 8, load_i64(iov + 8) - done)
    return 0


@inlined
def write_batches(env: Words, row: Words, batches: Table, head: int) -> int:
    """Write one slot's chain at the end of its active segment; 0, or the errno."""
    iov = env[Environment.IOV]
    position = row[AppendRow.POSITION]
    pieces = 0
    total = 0
    n = head
    while n >= 0:
        address = batches[n, Batch.ADDRESS]
        length = batches[n, Batch.LENGTH]
        last = iov + 16 * (pieces - 1)
        if pieces > 0 and load_i64(last) + load_i64(last + 8) == address:
            store_i64(last + 8, load_i64(last + 8) + length)
        else:
            if pieces == Environment.MAX_IOV:
                error = write_all(row[AppendRow.LOG_FD], iov, pieces, position, total)
                if error != 0:
                    return error
                position += total
                pieces = 0
                total = 0
            store_i64(iov + 16 * pieces, address)
            store_i64(iov + 16 * pieces + 8, length)
            pieces += 1
        total += length
        n = batches[n, Batch.NEXT]
    return write_all(row[AppendRow.LOG_FD], iov, pieces, position, total)


@inlined
def index_batches(env: Words, row: Words, batches: Table, head: int, counters: Words) -> None:
    """LogSegment.append's bookkeeping for a written chain: index entries, times, position, next
    offset."""
    entries = env[Environment.INDEX_BYTES]
    times = env[Environment.TIME_INDEX_BYTES]
    index_bytes = 0
    time_bytes = 0
    base = row[AppendRow.BASE_OFFSET]
    indexed = row[AppendRow.LAST_INDEXED_TIMESTAMP]
    n = head
    while n >= 0:
        batch = batches[n]
        if batch[Batch.MAX_TIMESTAMP] > row[AppendRow.MAX_TIMESTAMP]:
            row[AppendRow.MAX_TIMESTAMP] = batch[Batch.MAX_TIMESTAMP]
            row[AppendRow.MAX_TIMESTAMP_OFFSET] = batch[Batch.LAST_OFFSET]
        if row[AppendRow.SINCE_INDEX] > row[AppendRow.INDEX_INTERVAL]:
            store_i32_be(entries + index_bytes, batch[Batch.LAST_OFFSET] - base)
            store_i32_be(entries + index_bytes + 4, row[AppendRow.POSITION])
            index_bytes += OFFSET_ENTRY_BYTES
            if row[AppendRow.MAX_TIMESTAMP] > row[AppendRow.LAST_INDEXED_TIMESTAMP]:
                store_i64_be(times + time_bytes, row[AppendRow.MAX_TIMESTAMP])
                store_i32_be(times + time_bytes + 8, row[AppendRow.MAX_TIMESTAMP_OFFSET] - base)
                time_bytes += TIME_ENTRY_BYTES
                row[AppendRow.LAST_INDEXED_TIMESTAMP] = row[AppendRow.MAX_TIMESTAMP]
            row[AppendRow.SINCE_INDEX] = 0
        row[AppendRow.SINCE_INDEX] += batch[Batch.LENGTH]
        row[AppendRow.POSITION] += batch[Batch.LENGTH]
        row[AppendRow.NEXT_OFFSET] = batch[Batch.LAST_OFFSET] + 1
        counters[Counter.BYTES_IN] += batch[Batch.LENGTH]
        counters[Counter.RECORDS_IN] += batch[Batch.RECORDS]
        counters[Counter.BATCHES_IN] += 1
        n = batch[Batch.NEXT]
    # an index can be rebuilt, so entries that could not be written are left out
    if index_bytes > 0:
        if pwrite(row[AppendRow.INDEX_FD], entries, index_bytes, row[AppendRow.INDEX_BYTES]) == index_bytes:
            row[AppendRow.INDEX_BYTES] += index_bytes
    if time_bytes > 0:
        if (
            pwrite(row[AppendRow.TIME_INDEX_FD], times, time_bytes, row[AppendRow.TIME_INDEX_BYTES])
            == time_bytes
        ):
            row[AppendRow.TIME_INDEX_BYTES] += time_bytes
        else:  # the next entry, or the segment's last one, stands for them
            row[AppendRow.LAST_INDEXED_TIMESTAMP] = indexed


@inlined
def reserve_ahead(row: Words, now_ms: int) -> None:
    """Reserve a log's next chunk if it is time for it. If the reservation fails (a full disk, a
    file system without fallocate), the log goes without until its next segment: writes do not need
    it."""
    position = row[AppendRow.POSITION]
    if position < row[AppendRow.RESERVE_AT]:
        return
    chunk = min(max(position >> 1, MIN_CHUNK_BYTES), row[AppendRow.RESERVE_MAX])
    slow = now_ms - row[AppendRow.RESERVED_MS] > AppendRow.KEEP_MS
    row[AppendRow.RESERVED_MS] = now_ms
    if slow:
        row[AppendRow.RESERVE_AT] = position + chunk
        return
    end = min(position + chunk, row[AppendRow.SEGMENT_BYTES])
    start = max((position + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1), row[AppendRow.RESERVED])
    row[AppendRow.RESERVE_AT] = (position + end) >> 1 if position + chunk == end else AppendRow.NEVER
    if end <= start:
        return
    if fallocate(row[AppendRow.LOG_FD], FALLOC_FL_KEEP_SIZE, start, end - start) == 0:
        row[AppendRow.RESERVED] = end
    else:
        ftruncate(row[AppendRow.LOG_FD], position)  # a part may have been reserved
        row[AppendRow.RESERVED] = 0
        row[AppendRow.RESERVE_AT] = AppendRow.NEVER


@inlined
def fail_unwritten(batches: Table, count: int, slot: int, end: int) -> None:
    """Refuse a slot's batches from its log's end on, which could not be written. Among them are
    retries: the producer table has the batch that they repeat, but the log does not."""
    for n in range(count):
        batch = batches[n]
        if batch[Batch.SLOT] == slot and batch[Batch.ERROR] == 0 and batch[Batch.LAST_OFFSET] >= end:
            batch[Batch.ERROR] = Code.KAFKA_STORAGE_ERROR
            batch[Batch.BASE_OFFSET] = -1
            batch[Batch.HELD] = 0


@inlined
def count_appends(env: Words, batches: Table, out: Words) -> None:
    """Count the batches and bytes that this call has written."""
    metrics = env[Environment.METRICS]
    now_ns = out[Drained.NOW_NS]
    size = 0
    records = 0
    written = 0
    enqueued_ns = 0
    together = 0  # batches in a row that were enqueued at once
    for n in range(out[Drained.COUNT]):
        batch = batches[n]
        if batch[Batch.RECORDS] > 0 and batch[Batch.ERROR] == 0:
            size += batch[Batch.LENGTH]
            records += batch[Batch.RECORDS]
            written += 1
            if batch[Batch.ENQUEUED_NS] != enqueued_ns and together > 0:
                observe(metrics + 8 * ml.APPEND_SECONDS, now_ns - enqueued_ns, together)
                together = 0
            enqueued_ns = batch[Batch.ENQUEUED_NS]
            together += 1
    if together > 0:
        observe(metrics + 8 * ml.APPEND_SECONDS, now_ns - enqueued_ns, together)
    add(metrics + 8 * ml.APPENDED_BYTES, size)
    add(metrics + 8 * ml.APPENDED_RECORDS, records)
    add(metrics + 8 * ml.APPENDED_BATCHES, written)


@inlined
def complete(
    env: Words, clients: Table, slots: Table, batches: Table, delayed: Table, lists: Table, out: Words
) -> None:
    """Pass 4: answer every entry that need not wait, move the ring tails, wake the senders."""
    now_ns = out[Drained.NOW_NS]
    for n in range(out[Drained.COUNT]):
        batch = batches[n]
        if batch[Batch.HELD] == Held.APPEND:
            hold(env, delayed, lists, batch, now_ns)
            continue
        if batch[Batch.HELD] != 0:
            out[Drained.HELD] += 1
            continue
        unverified = batch[Batch.ERROR] == Completion.UNVERIFIED
        push_completion(
            env, clients[batch[Batch.CLIENT]], slots, batch[Batch.TOKEN], batch[Batch.ERROR],
            batch[Batch.LAST_OFFSET] if unverified else batch[Batch.BASE_OFFSET], batch[Batch.APPEND_TIME],
            batch[Batch.SLOT], now_ns, 0,
        )  # fmt: skip
    for c in range(clients.shape[0]):
        ring = clients[c, Client.APPEND_RING]
        if clients[c, Client.CONSUMED] > 0:
            store_release(ring + TAIL, load_i64(ring + TAIL) + clients[c, Client.CONSUMED])


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], "
    "int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def drain(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, batches: Table, chains: Table,
    touched: Words, failed: Table, delayed: Table, lists: Table, syncs: Table, counters: Table, out: Words,
) -> int:  # fmt: skip
    """Take, write, publish and complete. Returns how many entries it took; other results in ``out``
    (see Drained)."""
    out[:] = 0
    env[Environment.BLOCKED] = 0
    if env[Environment.DELAYED_COUNT] > env[Environment.DELAYED_MAX]:
        out[Drained.STOP] = Stop.ROOM
    clock = env[Environment.CLOCK]
    out[Drained.NOW_MS] = clock_ns(CLOCK_REALTIME, clock) // 1_000_000
    plan(env, clients, slots, rows, producers, batches, chains, touched, out)
    began = clock_ns(CLOCK_MONOTONIC, clock) if out[Drained.COUNT] > 0 else 0
    needs_sync = False
    for t in range(out[Drained.TOUCHED]):
        slot = touched[t]
        row = rows[slot]
        head = chains[slot, Chain.HEAD]
        chains[slot, Chain.HEAD] = -1
        chains[slot, Chain.MARKED] = 0
        error = write_batches(env, row, batches, head)
        if error != 0:
            failed[out[Drained.FAILED], 0] = slot
            failed[out[Drained.FAILED], 1] = error
            out[Drained.FAILED] += 1
            row[AppendRow.STATE] = AppendState.CLOSED  # until Python has cut the torn tail
            touched[t] = -1
            fail_unwritten(batches, out[Drained.COUNT], slot, row[AppendRow.NEXT_OFFSET])
            continue
        index_batches(env, row, batches, head, counters[slot])
        counters[slot, Counter.WRITES] += 1
        row[AppendRow.LAST_APPEND_MS] = out[Drained.NOW_MS]
        publish(slots, slot, row)
        flags = slots[slot, Slot.FLAGS]
        if row[AppendRow.UNFLUSHED_RECORDS] >= row[AppendRow.FLUSH_RECORDS]:
            row[AppendRow.SYNC_END] = row[AppendRow.NEXT_OFFSET]
            needs_sync = True
        if flags & SlotFlag.DURABLE:
            needs_sync = True
        if flags & SlotFlag.REPLICATED:
            out[Drained.FOLLOW_UP] |= FollowUp.REPLICAS
    out[Drained.NOW_NS] = clock_ns(CLOCK_MONOTONIC, clock)
    if needs_sync and request_syncs(env, slots, rows, syncs, touched, out[Drained.TOUCHED]):
        out[Drained.FOLLOW_UP] |= FollowUp.FLUSH
    complete(env, clients, slots, batches, delayed, lists, out)
    fence()
    for t in range(out[Drained.TOUCHED]):
        if touched[t] >= 0:
            missed = notify(env, clients, slots, touched[t], out[Drained.NOW_NS])
            out[Drained.NOTIFY_AGAIN] |= missed
    wake_clients(env, clients)
    if out[Drained.COUNT] > 0:  # no sender waits for this any more
        env[Environment.BLOCKED] = 0
        for t in range(out[Drained.TOUCHED]):
            if touched[t] >= 0:
                reserve_ahead(rows[touched[t]], out[Drained.NOW_MS])
        count_appends(env, batches, out)
        add(env[Environment.METRICS] + 8 * ml.DRAINS, 1)
        observe(env[Environment.METRICS] + 8 * ml.DRAIN_SECONDS, out[Drained.NOW_NS] - began)
    work = out[Drained.STOP] | out[Drained.FAILED] | out[Drained.HELD]
    out[Drained.LEFT] = 1 if work | out[Drained.NOTIFY_AGAIN] | out[Drained.FOLLOW_UP] else 0
    return out[Drained.COUNT]
