"""Reserves blocks beyond the end of a log that grows fast. Part of the drain kernel; docs/adr/0019.

A log is checked each time it has grown by a stretch. If that took no longer than KEEP_MS, the next
chunk is reserved without making the file longer. So reserved blocks are bounded by what was
appended lately, and a quiet log has none. `reservations.py` frees them.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import FALLOC_FL_KEEP_SIZE, fallocate, ftruncate

Words = NDArray[np.int64]

KEEP_MS = 30_000  # blocks that are unused for this long are freed
MIN_CHUNK = 2 << 20
BLOCK = 4096


@inlined
def reserve_ahead(row: Words, now_ms: int) -> None:
    """Reserve a log's next chunk if it is time for it. If the reservation fails (a full disk, a
    file system without fallocate), the log goes without until its next segment: writes do not need
    it."""
    position = row[AppendRow.POSITION]
    if position < row[AppendRow.RESERVE_AT]:
        return
    chunk = min(max(position >> 1, MIN_CHUNK), row[AppendRow.RESERVE_MAX])
    slow = now_ms - row[AppendRow.RESERVED_MS] > KEEP_MS
    row[AppendRow.RESERVED_MS] = now_ms
    if slow:
        row[AppendRow.RESERVE_AT] = position + chunk
        return
    end = min(position + chunk, row[AppendRow.SEGMENT_BYTES])
    start = max((position + BLOCK - 1) & ~(BLOCK - 1), row[AppendRow.RESERVED])
    row[AppendRow.RESERVE_AT] = (position + end) >> 1 if position + chunk == end else AppendRow.NEVER
    if end <= start:
        return
    if fallocate(row[AppendRow.LOG_FD], FALLOC_FL_KEEP_SIZE, start, end - start) == 0:
        row[AppendRow.RESERVED] = end
    else:
        ftruncate(row[AppendRow.LOG_FD], position)  # a part may have been reserved
        row[AppendRow.RESERVED] = 0
        row[AppendRow.RESERVE_AT] = AppendRow.NEVER
