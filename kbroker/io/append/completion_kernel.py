"""Answers of an IO worker: writes entries to the completion rings, and wakes the processes that
wait for them.

Part of the drain kernel; Python calls some of its kernels for the answers that it completes itself.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import Client, Environment
from kbroker.ipc.layout import Completion, Slot
from kbroker.ipc.ring import HEAD, ring_entry, ring_free, wake
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, clock_gettime
from kbroker.kernels.memory import exchange, fence, fetch_or, load_i64, store_i64, store_release

Words = NDArray[np.int64]
Table = NDArray[np.int64]


@inlined
def clock_ns(clock: int, scratch: int) -> int:
    """Nanoseconds of a clock; ``scratch`` is the address of a timespec."""
    clock_gettime(clock, scratch)
    return load_i64(scratch) * 1_000_000_000 + load_i64(scratch + 8)


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
    """Notify the processes whose waiter bit is set that a slot advanced; returns bits that found no
    room."""
    waiters = slots[slot].ctypes.data + 8 * Slot.WAITERS
    if load_i64(waiters) == 0:
        return 0
    bits = exchange(waiters, 0)
    missed = 0
    for c in range(clients.shape[0]):
        if bits >> c & 1:
            if ring_free(clients[c, Client.COMPLETION_RING], env[Environment.CAPACITY]) > 0:
                push_completion(env, clients[c], slots, -1, 0, -1, -1, slot, now_ns, 0)
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
    """Notify waiting processes, from Python, that a slot advanced; returns bits without room (to
    try again)."""
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
