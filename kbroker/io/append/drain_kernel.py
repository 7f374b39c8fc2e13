"""The append drain of an IO worker: one compiled call takes what is in the rings and writes it.

Four passes over one batch array: ``plan`` copies ring entries and decides each one's outcome and offsets
(append_kernel.py); ``write_batches`` gathers the accepted batches of each partition into few pwritev and adds
index entries (write_kernel.py); ``publish`` makes the new ends visible; ``complete`` answers the senders.
An entry that waits for a sync or for replicas becomes a delayed produce (delayed_produce_kernel.py), and the sync is
asked for (group_commit_kernel.py). Python runs between calls only for what is rare: a roll, a full producer table, a
control batch, a failed write. Ring tails move last, so a crash leaves unanswered entries in the rings.
Arrays: ``drain_layout.py``.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append import append_row as ar
from kbroker.io.append import drain_layout as ds
from kbroker.io.append.append_kernel import KAFKA_STORAGE_ERROR, plan_append
from kbroker.io.append.completion_kernel import (
    CLOCK_MONOTONIC,
    CLOCK_REALTIME,
    clock_ns,
    notify,
    push_completion,
    wake_clients,
)
from kbroker.io.append.delayed_produce_kernel import hold
from kbroker.io.append.group_commit_kernel import ask_syncs
from kbroker.io.append.publish_kernel import publish
from kbroker.io.append.reserve_kernel import reserve_ahead
from kbroker.io.append.write_kernel import index_batches, write_batches
from kbroker.ipc import layout as sm
from kbroker.ipc.ring import TAIL, ring_entry, ring_free, ring_ready
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import fence, load_i64, store_release
from kbroker.metrics.histogram_kernel import add, observe
from kbroker.metrics.layout import (
    APPEND_SECONDS,
    APPENDED_BATCHES,
    APPENDED_BYTES,
    APPENDED_RECORDS,
    DRAIN_SECONDS,
    DRAINS,
)

Words = NDArray[np.int64]
Table = NDArray[np.int64]


@inlined
def plan(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, producer_room: int,
    batches: Table, chains: Table, touched: Words, out: Words,
) -> None:  # fmt: skip
    """Pass 1: ring entries become rows of ``batches``; accepted ones are chained by slot."""
    capacity = env[ds.ENV_CAPACITY]
    quota = max(1, batches.shape[0] // clients.shape[0])
    count = 0
    for c in range(clients.shape[0]):
        client = clients[c]
        client[ds.CLIENT_CONSUMED] = 0
        client[ds.CLIENT_COMPLETED] = 0
        if out[ds.OUT_STOP] != ds.STOP_NONE:
            continue
        ring = client[ds.CLIENT_APPEND_RING]
        # one place in the completion ring is kept back for each held or notified entry by taking half of what is free
        limit = min(ring_ready(ring), quota, ring_free(client[ds.CLIENT_COMPLETION_RING], capacity) >> 1)
        tail = load_i64(ring + TAIL)
        for n in range(limit):
            entry = ring_entry(ring, capacity, tail + n)
            batch = batches[count]
            batch[:] = 0
            batch[ds.BATCH_CLIENT] = c
            batch[ds.BATCH_OPERATION] = load_i64(entry + 8 * sm.REQUEST_OPERATION)
            batch[ds.BATCH_SLOT] = load_i64(entry + 8 * sm.REQUEST_SLOT)
            batch[ds.BATCH_GENERATION] = load_i64(entry + 8 * sm.REQUEST_GENERATION)
            batch[ds.BATCH_LENGTH] = load_i64(entry + 8 * sm.REQUEST_LENGTH)
            batch[ds.BATCH_TOKEN] = load_i64(entry + 8 * sm.REQUEST_TOKEN)
            batch[ds.BATCH_ACKS] = load_i64(entry + 8 * sm.REQUEST_ACKS)
            batch[ds.BATCH_ENQUEUED_NS] = load_i64(entry + 8 * sm.REQUEST_NANOSECONDS)
            batch[ds.BATCH_BASE_OFFSET] = -1
            batch[ds.BATCH_LAST_OFFSET] = -1
            batch[ds.BATCH_NEXT] = -1
            batch[ds.BATCH_APPEND_TIME] = -1
            batch[ds.BATCH_PRODUCER_ROW] = -1
            address = load_i64(entry + 8 * sm.REQUEST_ADDRESS)
            if batch[ds.BATCH_OPERATION] == sm.OPERATION_READ_AHEAD:
                batch[ds.BATCH_ADDRESS] = address
                batch[ds.BATCH_HELD] = ds.HELD_READ_AHEAD
                count += 1
                client[ds.CLIENT_CONSUMED] += 1
                continue
            batch[ds.BATCH_ADDRESS] = client[ds.CLIENT_ARENA] + address
            if c == clients.shape[0] - 1:
                batch[ds.BATCH_OPERATION] = ds.OPERATION_APPEND_BY_CONTROL
            if out[ds.OUT_PRODUCERS] >= producer_room:
                out[ds.OUT_STOP] = ds.STOP_PRODUCERS
                break
            slot = batch[ds.BATCH_SLOT]
            if chains[slot, ds.CHAIN_MARKED] == 1:
                out[ds.OUT_STOP] = ds.STOP_MARKER
                break
            stop = plan_append(slots, rows, producers, chains, batch, out)
            if stop != ds.STOP_NONE:
                out[ds.OUT_STOP] = stop
                out[ds.OUT_STOP_SLOT] = slot
                break
            if batch[ds.BATCH_RECORDS] > 0:
                chain = chains[slot]
                if chain[ds.CHAIN_HEAD] < 0:
                    chain[ds.CHAIN_HEAD] = count
                    touched[out[ds.OUT_TOUCHED]] = slot
                    out[ds.OUT_TOUCHED] += 1
                else:
                    batches[chain[ds.CHAIN_TAIL], ds.BATCH_NEXT] = count
                chain[ds.CHAIN_TAIL] = count
            count += 1
            client[ds.CLIENT_CONSUMED] += 1
            if batch[ds.BATCH_HELD] == ds.HELD_CONTROL:
                chains[slot, ds.CHAIN_MARKED] = 1
    out[ds.OUT_COUNT] = count


@inlined
def count_appends(env: Words, batches: Table, out: Words) -> None:
    """Metrics of what this call has written."""
    metrics = env[ds.ENV_METRICS]
    now_ns = out[ds.OUT_NOW_NS]
    size = 0
    records = 0
    written = 0
    enqueued_ns = 0
    alike = 0  # batches in a row that were enqueued at once
    for n in range(out[ds.OUT_COUNT]):
        batch = batches[n]
        if batch[ds.BATCH_RECORDS] > 0 and batch[ds.BATCH_ERROR] == 0:
            size += batch[ds.BATCH_LENGTH]
            records += batch[ds.BATCH_RECORDS]
            written += 1
            if batch[ds.BATCH_ENQUEUED_NS] != enqueued_ns and alike > 0:
                observe(metrics + 8 * APPEND_SECONDS, now_ns - enqueued_ns, alike)
                alike = 0
            enqueued_ns = batch[ds.BATCH_ENQUEUED_NS]
            alike += 1
    if alike > 0:
        observe(metrics + 8 * APPEND_SECONDS, now_ns - enqueued_ns, alike)
    add(metrics + 8 * APPENDED_BYTES, size)
    add(metrics + 8 * APPENDED_RECORDS, records)
    add(metrics + 8 * APPENDED_BATCHES, written)


@inlined
def complete(
    env: Words, clients: Table, slots: Table, batches: Table, delayed: Table, lists: Table, out: Words
) -> None:
    """Pass 4: answer every entry that need not wait, move the ring tails, wake the senders."""
    now_ns = out[ds.OUT_NOW_NS]
    for n in range(out[ds.OUT_COUNT]):
        batch = batches[n]
        if batch[ds.BATCH_HELD] == ds.HELD_APPEND:
            hold(env, delayed, lists, batch, now_ns)
            continue
        if batch[ds.BATCH_HELD] != 0:
            out[ds.OUT_HELD] += 1
            continue
        push_completion(
            env, clients[batch[ds.BATCH_CLIENT]], slots, batch[ds.BATCH_TOKEN], batch[ds.BATCH_ERROR],
            batch[ds.BATCH_BASE_OFFSET], batch[ds.BATCH_LAST_OFFSET], batch[ds.BATCH_APPEND_TIME],
            batch[ds.BATCH_SLOT], now_ns,
        )  # fmt: skip
    for c in range(clients.shape[0]):
        ring = clients[c, ds.CLIENT_APPEND_RING]
        if clients[c, ds.CLIENT_CONSUMED] > 0:
            store_release(ring + TAIL, load_i64(ring + TAIL) + clients[c, ds.CLIENT_CONSUMED])


@kernel(
    "void(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], "
    "int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def drain(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, producer_room: int,
    batches: Table, chains: Table, touched: Words, failed: Table, delayed: Table, lists: Table, syncs: Table,
    counters: Table, out: Words,
) -> None:  # fmt: skip
    """Take, write, publish and complete; results in ``out`` (see drain_layout.OUT_*)."""
    out[:] = 0
    clock = env[ds.ENV_CLOCK]
    out[ds.OUT_NOW_MS] = clock_ns(CLOCK_REALTIME, clock) // 1_000_000
    plan(env, clients, slots, rows, producers, producer_room, batches, chains, touched, out)
    began = clock_ns(CLOCK_MONOTONIC, clock) if out[ds.OUT_COUNT] > 0 else 0
    wants_sync = False
    for t in range(out[ds.OUT_TOUCHED]):
        slot = touched[t]
        row = rows[slot]
        head = chains[slot, ds.CHAIN_HEAD]
        chains[slot, ds.CHAIN_HEAD] = -1
        chains[slot, ds.CHAIN_MARKED] = 0
        error = write_batches(env, row, batches, head)
        if error != 0:
            failed[out[ds.OUT_FAILED], 0] = slot
            failed[out[ds.OUT_FAILED], 1] = error
            out[ds.OUT_FAILED] += 1
            row[ar.ROW_OPEN] = ar.CLOSED  # until Python has cut the torn tail
            touched[t] = -1
            n = head
            while n >= 0:
                batch = batches[n]
                batch[ds.BATCH_ERROR] = KAFKA_STORAGE_ERROR
                batch[ds.BATCH_BASE_OFFSET] = -1
                batch[ds.BATCH_HELD] = 0
                n = batch[ds.BATCH_NEXT]
            continue
        index_batches(env, row, batches, head, counters[slot])
        row[ar.ROW_LAST_APPEND_MS] = out[ds.OUT_NOW_MS]
        publish(slots, slot, row)
        flags = slots[slot, sm.SLOT_FLAGS]
        if flags & sm.FLAG_DURABLE or row[ar.ROW_UNFLUSHED_RECORDS] >= row[ar.ROW_FLUSH_RECORDS]:
            wants_sync = True
        if flags & sm.FLAG_REPLICATED:
            out[ds.OUT_DURABLE] |= ds.WANTS_REPLICAS
    out[ds.OUT_NOW_NS] = clock_ns(CLOCK_MONOTONIC, clock)
    if wants_sync and ask_syncs(env, slots, rows, syncs, touched, out[ds.OUT_TOUCHED]):
        out[ds.OUT_DURABLE] |= ds.WANTS_FLUSH
    complete(env, clients, slots, batches, delayed, lists, out)
    fence()
    for t in range(out[ds.OUT_TOUCHED]):
        if touched[t] >= 0:
            missed = notify(env, clients, slots, touched[t], out[ds.OUT_NOW_NS])
            out[ds.OUT_NOTIFY_AGAIN] |= missed
    wake_clients(env, clients)
    if out[ds.OUT_COUNT] > 0:  # nobody waits for this any more
        for t in range(out[ds.OUT_TOUCHED]):
            if touched[t] >= 0:
                reserve_ahead(rows[touched[t]], out[ds.OUT_NOW_MS])
        count_appends(env, batches, out)
        add(env[ds.ENV_METRICS] + 8 * DRAINS, 1)
        observe(env[ds.ENV_METRICS] + 8 * DRAIN_SECONDS, out[ds.OUT_NOW_NS] - began)


@kernel("int64(int64[:, ::1])")
def waiting_entries(clients: Table) -> int:
    """Entries in all append rings."""
    total = 0
    for c in range(clients.shape[0]):
        total += ring_ready(clients[c, ds.CLIENT_APPEND_RING])
    return total
