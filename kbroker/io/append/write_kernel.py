"""Writes a partition's accepted batches and their index entries, and reserves blocks beyond the end
of a log that grows fast (docs/adr/0019). Part of the drain kernel.

Rules: Kafka's LogSegment.append, OffsetIndex.append and TimeIndex.maybeAppend.

A log is checked for a reservation each time it has grown by a stretch. If the stretch took at most
KEEP_MS, the next chunk is reserved without making the file longer. So the recent rate of appends
bounds the reserved blocks, and a quiet log has none. `reservations.py` frees them.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow, Batch, Environment
from kbroker.ipc.layout import Counter
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EINTR, FALLOC_FL_KEEP_SIZE, errno, fallocate, ftruncate, pwrite, pwritev
from kbroker.kernels.memory import load_i64, store_i32_be, store_i64, store_i64_be
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES

Words = NDArray[np.int64]
Table = NDArray[np.int64]

KEEP_MS = 30_000  # blocks that are unused for this long are freed
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
    slow = now_ms - row[AppendRow.RESERVED_MS] > KEEP_MS
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
