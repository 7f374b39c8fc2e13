"""Delayed produces as rows: written appends whose answer waits for the disk or for replicas
(Kafka's DelayedProduce).

A slot's rows form a list in the order of offsets, so those that a sync has reached are at its
front. As Python objects each of them cost 16 microseconds. Layout:
``purgatory/delayed_produce_layout.py``. Private memory of one IO worker.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.publish_kernel import acknowledged_below, push_completion
from kbroker.io.append.rows import AppendRow, Batch, Client, Environment
from kbroker.ipc.layout import Slot
from kbroker.ipc.ring import acks_of, ring_free, timeout_ms_of
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, clock_ns
from kbroker.purgatory.delayed_produce_layout import DelayedList, DelayedProduce
from kbroker.purgatory.watch_list_kernel import unwatch, watch, watch_by_offset

Words = NDArray[np.int64]
Table = NDArray[np.int64]

ALL = -1  # acks
_acks_of = inlined(acks_of)
_timeout_ms_of = inlined(timeout_ms_of)


@inlined
def hold(env: Words, delayed: Table, lists: Table, batch: Words, now_ns: int) -> None:
    """Add a delayed produce for a written batch. The caller has checked that there is a free
    row."""
    number = env[Environment.DELAYED_FREE]
    row = delayed[number]
    env[Environment.DELAYED_FREE] = row[DelayedProduce.NEXT]
    env[Environment.DELAYED_COUNT] += 1
    row[DelayedProduce.SLOT] = batch[Batch.SLOT]
    row[DelayedProduce.CLIENT] = batch[Batch.CLIENT]
    row[DelayedProduce.TOKEN] = batch[Batch.TOKEN]
    row[DelayedProduce.BASE_OFFSET] = batch[Batch.BASE_OFFSET]
    row[DelayedProduce.LAST_OFFSET] = batch[Batch.LAST_OFFSET]
    row[DelayedProduce.APPEND_TIME] = batch[Batch.APPEND_TIME]
    row[DelayedProduce.ACKS] = _acks_of(batch[Batch.ACKS])
    row[DelayedProduce.WRITTEN_NS] = now_ns
    expiry = now_ns // 1_000_000 + _timeout_ms_of(batch[Batch.ACKS])
    row[DelayedProduce.EXPIRY_MS] = expiry
    env[Environment.DELAYED_DUE_MS] = min(env[Environment.DELAYED_DUE_MS], expiry)
    # a repeated batch has the offsets of the first attempt, below those of batches that wait
    # already
    watch_by_offset(delayed, lists, batch[Batch.SLOT], number)


@inlined
def finish(
    env: Words, clients: Table, slots: Table, delayed: Table, lists: Table, number: int, error: int, now_ns: int
) -> None:  # fmt: skip
    """Answer and free a row that has left all lists; a client whose ring is full gets its answer
    later."""
    row = delayed[number]
    client = clients[row[DelayedProduce.CLIENT]]
    if ring_free(client[Client.COMPLETION_RING], env[Environment.CAPACITY]) <= 0:
        row[DelayedProduce.ERROR] = error
        row[DelayedProduce.EXPIRY_MS] = DelayedProduce.NEVER
        watch(delayed, lists, lists.shape[0] - 1, number)
        return
    base_offset = row[DelayedProduce.BASE_OFFSET] if error == 0 else -1
    push_completion(
        env, client, slots, row[DelayedProduce.TOKEN], error, base_offset, row[DelayedProduce.APPEND_TIME],
        row[DelayedProduce.SLOT], now_ns, now_ns - row[DelayedProduce.WRITTEN_NS],
    )  # fmt: skip
    row[DelayedProduce.SLOT] = -1
    row[DelayedProduce.NEXT] = env[Environment.DELAYED_FREE]
    env[Environment.DELAYED_FREE] = number
    env[Environment.DELAYED_COUNT] -= 1
    if env[Environment.DELAYED_COUNT] == 0:
        env[Environment.DELAYED_DUE_MS] = DelayedProduce.NEVER


@inlined
def release(
    env: Words, clients: Table, slots: Table, rows: Table, delayed: Table, lists: Table, slot: int, now_ns: int
) -> int:  # fmt: skip
    """Answer the delayed produces that a slot's durable offset or high watermark has reached;
    returns how many. The caller then calls ``wake_clients``."""
    durable = slots[slot, Slot.DURABLE]
    replicated = acknowledged_below(slots, rows[slot], slot)
    farthest = max(durable, replicated)
    count = 0
    previous = 0
    number = lists[slot, DelayedList.HEAD]
    while number > 0:
        row = delayed[number]
        last = row[DelayedProduce.LAST_OFFSET]
        if last >= farthest:
            break
        acks_all = row[DelayedProduce.ACKS] == ALL
        if last >= (replicated if acks_all else durable):
            previous = number
            number = row[DelayedProduce.NEXT]
            continue
        following = unwatch(delayed, lists, slot, previous, number)
        # the records are replicated, but the in-sync set may have shrunk below min.insync.replicas
        too_few = acks_all and rows[slot, AppendRow.TOO_FEW] != 0
        error = Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else 0
        finish(env, clients, slots, delayed, lists, number, error, now_ns)
        count += 1
        number = following
    return count


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64)")
def release_slot(
    env: Words, clients: Table, slots: Table, rows: Table, delayed: Table, lists: Table, slot: int
) -> int:
    """``release`` from Python."""
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    return release(env, clients, slots, rows, delayed, lists, slot, now_ns)


@kernel("void(int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64)")
def hold_one(env: Words, delayed: Table, lists: Table, batch: Words, now_ns: int) -> None:
    """``hold`` from Python."""
    hold(env, delayed, lists, batch, now_ns)


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64)")
def fail_slot(
    env: Words, clients: Table, slots: Table, delayed: Table, lists: Table, slot: int, error: int
) -> int:
    """Answer all delayed produces of a slot with an error; returns how many."""
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    count = 0
    number = lists[slot, DelayedList.HEAD]
    while number > 0:
        following = unwatch(delayed, lists, slot, 0, number)
        finish(env, clients, slots, delayed, lists, number, error, now_ns)
        count += 1
        number = following
    return count


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64)")
def expire_due(env: Words, clients: Table, slots: Table, delayed: Table, lists: Table, now_ms: int) -> int:
    """Answer the delayed produces that have expired (CLOCK_MONOTONIC); returns how many. It reads
    every row; DELAYED_DUE_MS is the time of the next call."""
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    count = 0
    due = DelayedProduce.NEVER
    for candidate in range(1, delayed.shape[0]):
        slot = delayed[candidate, DelayedProduce.SLOT]
        if slot < 0:
            continue
        if delayed[candidate, DelayedProduce.EXPIRY_MS] > now_ms:
            due = min(due, delayed[candidate, DelayedProduce.EXPIRY_MS])
            continue
        previous = 0
        number = lists[slot, DelayedList.HEAD]
        while number > 0:
            if delayed[number, DelayedProduce.EXPIRY_MS] > now_ms:
                previous = number
                number = delayed[number, DelayedProduce.NEXT]
                continue
            following = unwatch(delayed, lists, slot, previous, number)
            finish(env, clients, slots, delayed, lists, number, Code.REQUEST_TIMED_OUT, now_ns)
            count += 1
            number = following
    env[Environment.DELAYED_DUE_MS] = due
    return count


@kernel("int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def answer_late(env: Words, clients: Table, slots: Table, delayed: Table, lists: Table) -> int:
    """Retry the answers whose client's ring was full; returns how many still wait."""
    now_ns = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    late = lists.shape[0] - 1
    last = lists[late, DelayedList.TAIL]
    number = lists[late, DelayedList.HEAD]
    left = 0
    while number > 0:
        following = unwatch(delayed, lists, late, 0, number)
        finish(env, clients, slots, delayed, lists, number, delayed[number, DelayedProduce.ERROR], now_ns)
        if delayed[number, DelayedProduce.SLOT] >= 0:
            left += 1
        if number == last:
            break
        number = following
    return left
