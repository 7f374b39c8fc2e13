"""Plain syncs of group commit: asked for by the drain kernel, and what follows when one has ended, without Python.

A plain sync is one fdatasync of a slot's active .log. All slots that a drain has touched go to the threads in one
write; each slot has one sync under way, and what is appended meanwhile shares the next.
Layout: ``drain_layout.SYNC_*``.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append import append_row as ar
from kbroker.io.append import drain_layout as ds
from kbroker.io.append.completion_kernel import CLOCK_MONOTONIC, clock_ns, notify, wake_clients
from kbroker.io.append.delayed_produce_kernel import release
from kbroker.io.append.publish_kernel import publish_durable
from kbroker.ipc import layout as sm
from kbroker.kernels.jit import external, inlined, kernel
from kbroker.kernels.libc import read, write
from kbroker.kernels.memory import fence, load_i64, store_i64
from kbroker.metrics.histogram_kernel import observe

Words = NDArray[np.int64]
Table = NDArray[np.int64]

dup = external("dup", "int32", "int32")
close = external("close", "int32", "int32")


@inlined
def begin_sync(env: Words, slots: Table, rows: Table, syncs: Table, slot: int, record: int) -> bool:
    """Put a plain sync of a slot into a record for the threads; False: Python has to make a whole one."""
    row = rows[slot]
    sync = syncs[slot]
    if row[ar.ROW_PLAIN_SYNC] == 0 or row[ar.ROW_LOG_FD] < 0 or env[ds.ENV_SYNC_JOBS] < 0:
        return False
    fd = dup(row[ar.ROW_LOG_FD])
    if fd < 0:
        return False
    row[ar.ROW_UNFLUSHED_RECORDS] = 0
    sync[ds.SYNC_STATE] = ds.SYNC_PLAIN
    sync[ds.SYNC_AGAIN] = 0
    sync[ds.SYNC_GENERATION] = slots[slot, sm.SLOT_GENERATION]
    sync[ds.SYNC_FD] = fd
    sync[ds.SYNC_NEXT_OFFSET] = row[ar.ROW_NEXT_OFFSET]
    sync[ds.SYNC_SEGMENT_BASE] = row[ar.ROW_BASE_OFFSET]
    sync[ds.SYNC_POSITION] = row[ar.ROW_POSITION]
    sync[ds.SYNC_CUTS] = row[ar.ROW_CUTS]
    store_i64(record, -1 - slot)
    store_i64(record + 8, fd)
    store_i64(record + 16, 0)
    return True


@inlined
def send_syncs(env: Words, syncs: Table, records: int) -> bool:
    """Give the threads what was begun. False: the pipe has no room for it, and nothing is begun any more."""
    size = records * ds.SYNC_RECORD_BYTES
    if (
        size == 0 or write(env[ds.ENV_SYNC_JOBS], env[ds.ENV_SYNC_SCRATCH], size) == size
    ):  # a pipe takes all or none
        return True
    for n in range(records):
        record = env[ds.ENV_SYNC_SCRATCH] + n * ds.SYNC_RECORD_BYTES
        close(load_i64(record + 8))
        syncs[-1 - load_i64(record), ds.SYNC_STATE] = ds.SYNC_IDLE
    return False


@inlined
def ask_syncs(env: Words, slots: Table, rows: Table, syncs: Table, touched: Words, count: int) -> bool:
    """Sync those of the touched slots that want it. True: some need a sync that only Python can make."""
    records = 0
    whole = False
    for t in range(count):
        slot = touched[t]
        if slot < 0:
            continue
        row = rows[slot]
        durable = slots[slot, sm.SLOT_FLAGS] & sm.FLAG_DURABLE
        if not durable and row[ar.ROW_UNFLUSHED_RECORDS] < row[ar.ROW_FLUSH_RECORDS]:
            continue
        if syncs[slot, ds.SYNC_STATE] != ds.SYNC_IDLE:
            syncs[slot, ds.SYNC_AGAIN] = 1
            continue
        record = env[ds.ENV_SYNC_SCRATCH] + records * ds.SYNC_RECORD_BYTES
        if records < ds.SYNC_RECORDS and begin_sync(env, slots, rows, syncs, slot, record):
            records += 1
        else:
            whole = True
    return not send_syncs(env, syncs, records) or whole


@inlined
def is_plain_end(slots: Table, rows: Table, sync: Words, slot: int, error: int) -> bool:
    """Whether the end of a sync is of the ordinary kind, the rest being Python's."""
    return (
        error == 0
        and slots[slot, sm.SLOT_STATE] == sm.STATE_ONLINE
        and slots[slot, sm.SLOT_GENERATION] == sync[ds.SYNC_GENERATION]
        and rows[slot, ar.ROW_CUTS] == sync[ds.SYNC_CUTS]
    )


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], "
    "int64[:, ::1], int64[:, ::1], int64)"
)
def take_synced(
    env: Words, clients: Table, slots: Table, rows: Table, delayed: Table, lists: Table, syncs: Table,
    counters: Table, left: Table, flush_seconds: int,
) -> int:  # fmt: skip
    """Publish and answer what the threads have synced, and sync again what was appended meanwhile.

    Returns how many results are left to Python, in ``left[3 * SYNC_RECORDS, 3]`` as (token, errno, nanoseconds): whole
    syncs, failures, slots that are not what they were; and what could not be done, as SYNC_NOT_BEGUN, SYNC_NOT_TOLD."""
    scratch = env[ds.ENV_SYNC_SCRATCH]
    size = read(env[ds.ENV_SYNC_RESULTS], scratch, ds.SYNC_SCRATCH_BYTES)
    now_ns = clock_ns(CLOCK_MONOTONIC, env[ds.ENV_CLOCK])
    count = 0
    again = 0  # records of the scratch that are begun anew: never more than were read before
    n = 0
    while (n + 1) * ds.SYNC_RECORD_BYTES <= size:
        record = scratch + n * ds.SYNC_RECORD_BYTES
        n += 1
        token = load_i64(record)
        error = load_i64(record + 8)
        nanoseconds = load_i64(record + 16)
        slot = -1 - token
        if token < 0:
            sync = syncs[slot]
            close(sync[ds.SYNC_FD])
            sync[ds.SYNC_STATE] = ds.SYNC_IDLE
        if token >= 0 or not is_plain_end(slots, rows, syncs[slot], slot, error):
            left[count, 0] = token
            left[count, 1] = error
            left[count, 2] = nanoseconds
            count += 1
            continue
        observe(env[ds.ENV_METRICS] + 8 * flush_seconds, nanoseconds)
        publish_durable(slots, rows[slot], slot, syncs[slot])
        counters[slot, sm.COUNTER_FLUSHES] += 1
        if syncs[slot, ds.SYNC_AGAIN]:
            begun = begin_sync(env, slots, rows, syncs, slot, scratch + again * ds.SYNC_RECORD_BYTES)
            again += begun  # else AGAIN stays, and Python makes a whole one
            if not begun:
                left[count, 0] = token
                left[count, 1] = ds.SYNC_NOT_BEGUN
                count += 1
        release(env, clients, slots, rows, delayed, lists, slot, now_ns)
        fence()
        if notify(env, clients, slots, slot, now_ns) != 0:
            left[count, 0] = token
            left[count, 1] = ds.SYNC_NOT_TOLD
            count += 1
    if not send_syncs(env, syncs, again):
        for n in range(again):
            left[count, 0] = load_i64(scratch + n * ds.SYNC_RECORD_BYTES)
            left[count, 1] = ds.SYNC_NOT_BEGUN
            count += 1
    wake_clients(env, clients)
    return count
