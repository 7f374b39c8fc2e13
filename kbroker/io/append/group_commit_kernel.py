"""Plain syncs of group commit: requested by the drain kernel, and completed without Python when
they have ended.

A plain sync is one fdatasync of a slot's active .log. All slots that a drain has appended to go to
the threads in one write. Each slot has one sync in progress; records that are appended meanwhile
share the next one. Tables: SyncRow and SyncJob.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.delayed_produce_kernel import release
from kbroker.io.append.publish_kernel import notify, publish_durable, wake_clients
from kbroker.io.append.rows import AppendRow, Environment, SyncJob, SyncRow, SyncState
from kbroker.ipc.layout import Counter, Slot, SlotFlag, SlotState
from kbroker.kernels.jit import external, inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, EIO, clock_gettime, clock_ns, errno, read, write
from kbroker.kernels.memory import fence, load_i64, store_i64
from kbroker.kernels.pipe import give_record, take_record
from kbroker.kernels.rows import get, put
from kbroker.metrics.histogram_kernel import observe

Words = NDArray[np.int64]
Table = NDArray[np.int64]

dup = external("dup", "int32", "int32")
close = external("close", "int32", "int32")
fdatasync = external("fdatasync", "int32", "int32")


@inlined
def begin_sync(env: Words, slots: Table, rows: Table, syncs: Table, slot: int, record: int) -> bool:
    """Put a plain sync of a slot into a record for the threads; False: Python has to make a whole
    one."""
    row = rows[slot]
    sync = syncs[slot]
    if row[AppendRow.PLAIN_SYNC] == 0 or row[AppendRow.LOG_FD] < 0 or env[Environment.SYNC_JOBS] < 0:
        return False
    fd = dup(row[AppendRow.LOG_FD])
    if fd < 0:
        return False
    row[AppendRow.UNFLUSHED_RECORDS] = 0
    sync[SyncRow.STATE] = SyncState.PLAIN
    sync[SyncRow.AGAIN] = 0
    sync[SyncRow.GENERATION] = slots[slot, Slot.GENERATION]
    sync[SyncRow.FD] = fd
    sync[SyncRow.NEXT_OFFSET] = row[AppendRow.NEXT_OFFSET]
    sync[SyncRow.SEGMENT_BASE] = row[AppendRow.BASE_OFFSET]
    sync[SyncRow.POSITION] = row[AppendRow.POSITION]
    sync[SyncRow.CUTS] = row[AppendRow.CUTS]
    store_i64(record, -1 - slot)
    put(record, SyncJob.FD, fd)
    put(record, SyncJob.NANOSECONDS, 0)
    return True


@inlined
def send_syncs(env: Words, rows: Table, syncs: Table, records: int) -> bool:
    """Pass the prepared syncs to the threads. False: the pipe has no room for all of them, and the
    others are not begun."""
    sent = 0
    while sent < records:
        some = min(records - sent, SyncJob.ATOMIC)
        size = some * SyncJob.STRIDE
        first = env[Environment.SYNC_SCRATCH] + sent * SyncJob.STRIDE
        if write(env[Environment.SYNC_JOBS], first, size) != size:
            break
        sent += some
    for n in range(sent, records):
        record = env[Environment.SYNC_SCRATCH] + n * SyncJob.STRIDE
        slot = -1 - load_i64(record)
        close(get(record, SyncJob.FD))
        syncs[slot, SyncRow.STATE] = SyncState.IDLE
        if rows[slot, AppendRow.FLUSH_RECORDS] < AppendRow.NEVER:  # Python decides by it, too
            rows[slot, AppendRow.UNFLUSHED_RECORDS] = rows[slot, AppendRow.FLUSH_RECORDS]
    return sent == records


@inlined
def request_syncs(env: Words, slots: Table, rows: Table, syncs: Table, touched: Words, count: int) -> bool:
    """Sync the touched slots whose appends wait for the disk. True: some need a sync that only
    Python can make."""
    records = 0
    whole = False
    for t in range(count):
        slot = touched[t]
        if slot < 0:
            continue
        row = rows[slot]
        durable = slots[slot, Slot.FLAGS] & SlotFlag.DURABLE
        if not durable and row[AppendRow.UNFLUSHED_RECORDS] < row[AppendRow.FLUSH_RECORDS]:
            continue
        if syncs[slot, SyncRow.STATE] != SyncState.IDLE:
            syncs[slot, SyncRow.AGAIN] = 1
            continue
        record = env[Environment.SYNC_SCRATCH] + records * SyncJob.STRIDE
        if records < SyncJob.MAX_JOBS and begin_sync(env, slots, rows, syncs, slot, record):
            records += 1
        else:
            whole = True
    return not send_syncs(env, rows, syncs, records) or whole


@inlined
def is_plain_end(slots: Table, rows: Table, sync: Words, slot: int, error: int) -> bool:
    """Whether the kernel can handle the end of a sync; Python handles all others, also one that
    puts a transaction's marker on disk: it knows the next transaction whose marker is not."""
    ended_until = rows[slot, AppendRow.ENDED_UNTIL]
    return (
        error == 0
        and slots[slot, Slot.STATE] == SlotState.ONLINE
        and slots[slot, Slot.GENERATION] == sync[SyncRow.GENERATION]
        and rows[slot, AppendRow.CUTS] == sync[SyncRow.CUTS]
        and (ended_until == 0 or ended_until > sync[SyncRow.NEXT_OFFSET])
    )


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], "
    "int64[:, ::1], int64[:, ::1], int64)"
)
def take_synced(
    env: Words, clients: Table, slots: Table, rows: Table, delayed: Table, lists: Table, syncs: Table,
    counters: Table, left: Table, flush_seconds: int,
) -> int:  # fmt: skip
    """Publish the results of the sync threads, answer the appends that waited for them, and begin
    syncs of the records that were appended meanwhile.

    Returns how many results are left to Python, in ``left[3 * SyncJob.MAX_JOBS, 3]`` as (token,
    errno, nanoseconds): whole syncs, failures, slots that have changed; and failed steps, as
    NOT_STARTED, NOT_NOTIFIED."""
    scratch = env[Environment.SYNC_SCRATCH]
    size = read(env[Environment.SYNC_RESULTS], scratch, SyncJob.STRIDE * SyncJob.MAX_JOBS)
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    count = 0
    again = 0  # records of the scratch that begin another sync: never more than were read before
    n = 0
    while (n + 1) * SyncJob.STRIDE <= size:
        record = scratch + n * SyncJob.STRIDE
        n += 1
        token = load_i64(record)
        error = get(record, SyncJob.ERROR)
        nanoseconds = get(record, SyncJob.NANOSECONDS)
        slot = -1 - token
        if token < 0:
            sync = syncs[slot]
            close(sync[SyncRow.FD])
            sync[SyncRow.STATE] = SyncState.IDLE
        if token >= 0 or not is_plain_end(slots, rows, syncs[slot], slot, error):
            left[count, 0] = token
            left[count, 1] = error
            left[count, 2] = nanoseconds
            count += 1
            continue
        observe(env[Environment.METRICS] + 8 * flush_seconds, nanoseconds)
        publish_durable(slots, rows[slot], slot, syncs[slot])
        counters[slot, Counter.FLUSHES] += 1
        if syncs[slot, SyncRow.AGAIN]:
            begun = begin_sync(env, slots, rows, syncs, slot, scratch + again * SyncJob.STRIDE)
            again += begun  # else AGAIN stays, and Python makes a whole one
            if not begun:
                left[count, 0] = token
                left[count, 1] = SyncRow.NOT_STARTED
                count += 1
        release(env, clients, slots, rows, delayed, lists, slot, now_ns)
        fence()
        if notify(env, clients, slots, slot, now_ns) != 0:
            left[count, 0] = token
            left[count, 1] = SyncRow.NOT_NOTIFIED
            count += 1
    if not send_syncs(env, rows, syncs, again):
        for n in range(again):
            left[count, 0] = load_i64(scratch + n * SyncJob.STRIDE)
            left[count, 1] = SyncRow.NOT_STARTED
            count += 1
    wake_clients(env, clients)
    return count


@kernel("int64(int64, int64, int64)")
def serve_syncs(jobs: int, results: int, scratch: int) -> int:
    """The loop of a sync thread: take a descriptor from a pipe, sync it, write the result into
    another pipe. Returns the number of syncs at END.

    Compiled, so that the thread never takes the interpreter lock: eight threads that waited on a
    condition cost fifty futex calls per sync, and meanwhile the drain waited for the lock.

    jobs, results: ends of pipes that block. Each SyncJob is written and read as a whole: token,
    descriptor; and token, errno, nanoseconds. scratch: 64 bytes.
    """
    served = 0
    while take_record(jobs, scratch, SyncJob.STRIDE):
        if get(scratch, SyncJob.FD) == SyncJob.END:
            break
        clock_gettime(CLOCK_MONOTONIC, scratch + 32)
        error = 0
        if fdatasync(get(scratch, SyncJob.FD)) != 0:
            error = errno()
            error = error if error != 0 else EIO
        clock_gettime(CLOCK_MONOTONIC, scratch + 48)
        seconds = load_i64(scratch + 48) - load_i64(scratch + 32)
        put(scratch, SyncJob.ERROR, error)
        put(
            scratch,
            SyncJob.NANOSECONDS,
            seconds * 1_000_000_000 + load_i64(scratch + 56) - load_i64(scratch + 40),
        )
        if not give_record(results, scratch, SyncJob.STRIDE):
            break
        served += 1
    return served
