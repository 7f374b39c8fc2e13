"""The append drain of an IO worker: one compiled call takes the entries of the rings and writes
them.

Four passes over one batch array: ``plan`` copies ring entries and decides each one's outcome and
offsets (append_kernel.py); ``write_batches`` gathers the accepted batches of each partition into
few pwritev and adds index entries (write_kernel.py); ``publish`` makes the new ends visible;
``complete`` answers the senders. An entry that waits for a sync or for replicas becomes a delayed
produce (delayed_produce_kernel.py), and the kernel requests the sync (group_commit_kernel.py).
Python runs between calls only for rare events: a roll, a full producer table, a control batch, a
failed write. Ring tails move last, so a crash leaves unanswered entries in the rings. Arrays:
``rows.py``.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.append_kernel import plan_append
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
    Found,
    Held,
    Rest,
    Stop,
)
from kbroker.io.append.write_kernel import index_batches, reserve_ahead, write_batches
from kbroker.ipc.layout import AppendEntry, Completion, Counter, Operation, ProcessLine, Slot, SlotFlag
from kbroker.ipc.ring import TAIL, ring_entry, ring_free, ring_ready
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    CLOCK_MONOTONIC,
    CLOCK_REALTIME,
    Epoll,
    clock_ns,
    epoll_wait,
    sched_yield,
)
from kbroker.kernels.memory import (
    INT32_MAX,
    exchange,
    fence,
    load_i32,
    load_i64,
    store_i64,
    store_release,
)
from kbroker.kernels.rows import get, put
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add, observe

Words = NDArray[np.int64]
Table = NDArray[np.int64]

MAX_WITHOUT_EPOLL = 32  # calls in a row that do not ask epoll, because entries wait
AT_ONCE = -1
BLOCKED_MS = 1  # between two tries when a completion ring is full


@inlined
def plan(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, producer_room: int,
    batches: Table, chains: Table, touched: Words, out: Words,
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
            if out[Drained.PRODUCERS] >= producer_room:
                out[Drained.STOP] = Stop.PRODUCERS
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


@inlined
def rest_of(env: Words, out: Words) -> int:
    rest = out[Drained.COUNT] << Rest.COUNT_SHIFT
    events = out[Drained.STOP] | out[Drained.FAILED] | out[Drained.HELD]
    if events | out[Drained.NOTIFY_AGAIN] | out[Drained.FOLLOW_UP]:
        rest |= Rest.EVENTS
    if out[Drained.PRODUCERS] > 0 or env[Environment.DELAYED_COUNT] > env[Environment.DELAYED_ROOM]:
        rest |= Rest.ROOM
    return rest


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], "
    "int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def drain(
    env: Words, clients: Table, slots: Table, rows: Table, producers: Table, producer_room: int,
    batches: Table, chains: Table, touched: Words, failed: Table, delayed: Table, lists: Table, syncs: Table,
    counters: Table, out: Words,
) -> int:  # fmt: skip
    """Take, write, publish and complete; results in ``out`` (see Drained). Returns `Rest` and, above
    it, how many entries were taken."""
    out[:] = 0
    clock = env[Environment.CLOCK]
    out[Drained.NOW_MS] = clock_ns(CLOCK_REALTIME, clock) // 1_000_000
    env[Environment.BLOCKED] = 0
    plan(env, clients, slots, rows, producers, producer_room, batches, chains, touched, out)
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
    return rest_of(env, out)


@inlined
def count_waiting(clients: int, count: int) -> int:
    total = 0
    for c in range(count):
        total += ring_ready(get(clients + c * Client.STRIDE, Client.APPEND_RING))
    return total


@kernel("int64(int64, int64)")
def waiting_entries(clients: int, count: int) -> int:
    """Entries in all append rings. clients, count: the address of the Client rows, and how many."""
    return count_waiting(clients, count)


@kernel("int64(int64, int64, int64, int64, int64)")
def wait(env: int, clients: int, count: int, due_ms: int, until_ms: int) -> int:
    """Wait for entries, a descriptor or a time, and return `Found`; at once while entries wait, if
    there is room for their answers, or if until_ms is AT_ONCE. CLOCK_MONOTONIC in due_ms: other
    work is due; until_ms: the wait ends.

    Where entries always wait, one of MAX_WITHOUT_EPOLL calls asks epoll.
    """
    blocked = get(env, Environment.BLOCKED) != 0
    sleeps = until_ms >= 0 and (blocked or count_waiting(clients, count) == 0)
    asked = get(env, Environment.WITHOUT_EPOLL) + 1
    if not sleeps and asked < MAX_WITHOUT_EPOLL:
        put(env, Environment.WITHOUT_EPOLL, asked)
        return 0
    put(env, Environment.WITHOUT_EPOLL, 0)
    line = get(env, Environment.PROCESS_LINE)
    clock = get(env, Environment.CLOCK)
    began = clock_ns(CLOCK_MONOTONIC, clock)
    due_ms = min(due_ms, get(env, Environment.DELAYED_DUE_MS))
    timeout_ms = 0
    if sleeps and until_ms > 0:
        store_i64(line, 1)
        fence()
        waiting = count_waiting(clients, count)
        if waiting == 0:
            timeout_ms = min(INT32_MAX, max(0, min(due_ms, until_ms) - began // 1_000_000))
        elif blocked:
            timeout_ms = BLOCKED_MS
    events = get(env, Environment.EVENTS)
    ready = epoll_wait(get(env, Environment.EPOLL_FD), events, Environment.MAX_EVENTS, timeout_ms)
    woken = clock_ns(CLOCK_MONOTONIC, clock)
    exchange(line, 0)
    add(get(env, Environment.METRICS) + 8 * ml.IDLE_NS, woken - began)
    store_i64(line + 8 * ProcessLine.HEARTBEAT_NS, woken)
    found = Found.OTHER if ready < 0 or woken // 1_000_000 >= due_ms else 0
    for i in range(ready):
        fd = load_i32(events + i * Epoll.STRIDE + Epoll.DATA)
        if fd == get(env, Environment.SYNC_RESULTS):
            found |= Found.SYNCED
        elif fd != get(env, Environment.EVENT_FD):
            found |= Found.OTHER
    return found


@kernel("int64(int64[:, ::1], int64[::1], int64)")
def poll_entries(clients: Table, env: Words, time_ns: int) -> int:
    """Look into the append rings until there are entries, for at most this time; returns how
    many."""
    began = clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK])
    while True:
        total = 0
        for c in range(clients.shape[0]):
            total += ring_ready(clients[c, Client.APPEND_RING])
        if total > 0 or clock_ns(CLOCK_MONOTONIC, env[Environment.CLOCK]) - began >= time_ns:
            return total
        sched_yield()  # to another process that can run on this core, such as a client
