"""Makes appends visible to other processes: changes of the partition's slot, each as one group
under the slot's sequence counter; entries of the completion rings; and wake-ups of the processes
that wait.

Part of the drain kernel. Python calls some of the kernels for the answers that it completes itself.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow, Client, Environment, SyncRow
from kbroker.ipc.layout import Completion, Slot, SlotFlag
from kbroker.ipc.ring import HEAD, ring_entry, ring_free, wake
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, clock_ns
from kbroker.kernels.memory import exchange, fence, fetch_or, load_i64, store_i64, store_release

Words = NDArray[np.int64]
Table = NDArray[np.int64]


def last_stable(high_watermark: int, first_unstable: int, ended_first: int, ended_until: int) -> int:
    """The last stable offset: no farther than the high watermark, nor into the first open
    transaction (-1: none is), nor into the first that has ended with a marker which is not below
    the high watermark, see AppendRow: that end may still be lost."""
    stable = min(high_watermark, first_unstable) if first_unstable >= 0 else high_watermark
    return min(stable, ended_first) if ended_until > 0 else stable


def sync_moves_high_watermark(flags: int, high_watermark: int, synced_end: int) -> bool:
    """Whether the high watermark follows the durable offset: for a single replica with
    write.caching=false."""
    return flags & SlotFlag.ACKS_WAIT == SlotFlag.DURABLE and synced_end > high_watermark


_last_stable = inlined(last_stable)  # Python calls these two as well
_sync_moves_high_watermark = inlined(sync_moves_high_watermark)


@inlined
def _set_last_stable(words: Words, row: Words) -> None:
    words[Slot.LAST_STABLE] = _last_stable(
        words[Slot.HIGH_WATERMARK], row[AppendRow.FIRST_UNSTABLE], row[AppendRow.ENDED_FIRST],
        row[AppendRow.ENDED_UNTIL],
    )  # fmt: skip


@inlined
def acknowledged_below(slots: Table, row: Words, slot: int) -> int:
    """The offset below which records satisfy acks=all: if flush.messages was reached, they are also
    on the leader's disk."""
    durable = slots[slot, Slot.DURABLE]
    if not slots[slot, Slot.FLAGS] & SlotFlag.REPLICATED:
        return durable
    if durable < row[AppendRow.SYNC_END]:
        return min(slots[slot, Slot.HIGH_WATERMARK], durable)
    return slots[slot, Slot.HIGH_WATERMARK]


@inlined
def waits_for_sync(slots: Table, row: Words, slot: int, last_offset: int) -> bool:
    """Whether a batch in the log is not on disk, and a sync because of flush.messages is due or
    pending."""
    due = (
        last_offset < row[AppendRow.SYNC_END]
        or row[AppendRow.UNFLUSHED_RECORDS] >= row[AppendRow.FLUSH_RECORDS]
    )
    return due and last_offset >= slots[slot, Slot.DURABLE]


@inlined
def publish(slots: Table, slot: int, row: Words) -> bool:
    """Make the new end of a slot visible as one group; whether the high watermark moved with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.LOG_BYTES] += row[AppendRow.POSITION] - words[Slot.ACTIVE_END]
    words[Slot.LOG_END] = row[AppendRow.NEXT_OFFSET]
    words[Slot.ACTIVE_END] = row[AppendRow.POSITION]
    words[Slot.MAX_TIMESTAMP] = max(words[Slot.MAX_TIMESTAMP], row[AppendRow.MAX_TIMESTAMP])
    moved = not words[Slot.FLAGS] & SlotFlag.ACKS_WAIT
    if moved:
        words[Slot.HIGH_WATERMARK] = row[AppendRow.NEXT_OFFSET]
        words[Slot.HW_BASE] = row[AppendRow.BASE_OFFSET]
        words[Slot.HW_POSITION] = row[AppendRow.POSITION]
        row[AppendRow.ENDED_UNTIL] = 0  # of a log that waited until now: every marker is below it
    _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
    return moved


@inlined
def publish_durable(slots: Table, row: Words, slot: int, sync: Words) -> None:
    """Publish the durable offset after a sync, as one group; with write.caching=false the high
    watermark moves with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.DURABLE] = max(words[Slot.DURABLE], sync[SyncRow.NEXT_OFFSET])
    if _sync_moves_high_watermark(words[Slot.FLAGS], words[Slot.HIGH_WATERMARK], sync[SyncRow.NEXT_OFFSET]):
        words[Slot.HIGH_WATERMARK] = sync[SyncRow.NEXT_OFFSET]
        words[Slot.HW_BASE] = sync[SyncRow.SEGMENT_BASE]
        words[Slot.HW_POSITION] = sync[SyncRow.POSITION]
        if sync[SyncRow.NEXT_OFFSET] == words[Slot.LOG_END]:  # an empty new segment may begin there
            words[Slot.HW_BASE] = words[Slot.ACTIVE_BASE]
            words[Slot.HW_POSITION] = words[Slot.ACTIVE_END]
        _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)


@inlined
def push_completion(
    env: Words, client: Words, slots: Table, token: int, error: int, base_offset: int, append_time: int, slot: int,
    now_ns: int, held_ns: int,
) -> None:  # fmt: skip
    """One entry of a completion ring; the caller knows that there is room."""
    ring = client[Client.COMPLETION_RING]
    head = load_i64(ring + HEAD)
    entry = ring_entry(ring, env[Environment.CAPACITY], head)
    store_i64(entry + 8 * Completion.TOKEN, token)
    store_i64(entry + 8 * Completion.ERROR, error)
    store_i64(entry + 8 * Completion.BASE_OFFSET, base_offset)
    store_i64(entry + 8 * Completion.APPEND_TIME_MS, append_time)
    store_i64(entry + 8 * Completion.LOG_START, slots[slot, Slot.LOG_START])
    store_i64(entry + 8 * Completion.SLOT, slot)
    store_i64(entry + 8 * Completion.NANOSECONDS, now_ns)
    store_i64(entry + 8 * Completion.HELD_NS, held_ns)
    store_release(ring + HEAD, head + 1)
    client[Client.COMPLETED] += 1


@inlined
def notify(env: Words, clients: Table, slots: Table, slot: int, now_ns: int) -> int:
    """Notify the processes whose waiter bit is set that a slot advanced; returns the bits of those
    whose ring is full."""
    waiters = slots[slot].ctypes.data + 8 * Slot.WAITERS
    if load_i64(waiters) == 0:
        return 0
    bits = exchange(waiters, 0)
    missed = 0
    for c in range(clients.shape[0]):
        if bits >> c & 1:
            if ring_free(clients[c, Client.COMPLETION_RING], env[Environment.CAPACITY]) > 0:
                push_completion(env, clients[c], slots, Completion.SLOT_ADVANCED, 0, -1, -1, slot, now_ns, 0)
            else:
                missed |= 1 << c
    if missed != 0:
        fetch_or(waiters, missed)  # they wait as before
    return missed


@inlined
def wake_clients(env: Words, clients: Table) -> None:
    """Wake each client that got a completion and sleeps."""
    for c in range(clients.shape[0]):
        client = clients[c]
        if client[Client.COMPLETED] > 0:
            wake(client[Client.PROCESS_LINE], client[Client.EVENT_FD], env[Environment.ONE])
            client[Client.COMPLETED] = 0


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64)")
def notify_slot(env: Words, clients: Table, slots: Table, slot: int) -> int:
    """`notify` from Python; the bits that it returns are to be tried again."""
    fence()
    missed = notify(env, clients, slots, slot, clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK]))
    wake_clients(env, clients)
    return missed


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64, int64, int64, int64, int64, int64)")
def complete_one(
    env: Words, clients: Table, slots: Table, client: int, token: int, error: int, base_offset: int,
    append_time: int, slot: int,
) -> int:  # fmt: skip
    """Complete one held entry from Python; 0 when the ring is full. The caller then calls
    ``wake_all``."""
    if ring_free(clients[client, Client.COMPLETION_RING], env[Environment.CAPACITY]) <= 0:
        return 0
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    push_completion(env, clients[client], slots, token, error, base_offset, append_time, slot, now_ns, 0)
    return 1


@kernel("void(int64[::1], int64[:, ::1])")
def wake_all(env: Words, clients: Table) -> None:
    """Wake every client that got a completion since the last call."""
    wake_clients(env, clients)
