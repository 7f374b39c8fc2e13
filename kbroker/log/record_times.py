"""The first record of a batch at or after a time. The batch is decompressed in pieces and searched
by a kernel: a megabyte may decompress to a gigabyte, and other readers wait meanwhile."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.memory import INT64_MAX
from kbroker.kernels.scan_rows import RecordSearch
from kbroker.log.record_times_kernel import RECORD_HEAD_BYTES, search_piece
from kbroker.protocol import batch_layout as b
from kbroker.protocol.compression import MAX_BYTES, bounded_pieces
from kbroker.protocol.records import RecordBatch
from kbroker.protocol.schema import ProtocolError

ANY_DELTA: Final = -(1 << 31)
ANY_TIME: Final = -INT64_MAX - 1


def first_record(batch: RecordBatch, timestamp: int, min_offset: int = -1) -> tuple[int, int] | None:
    """Timestamp (ms) and offset of the first record at or after a time, from an offset on. Raises
    ProtocolError."""
    appended = batch.has_log_append_time  # then all its records have that time
    if appended and batch.max_timestamp < timestamp:
        return None
    search = np.zeros(RecordSearch.WORDS, np.int64)
    search[RecordSearch.LEFT] = batch.record_count
    search[RecordSearch.BASE_TIMESTAMP] = batch.base_timestamp
    search[RecordSearch.MIN_TIMESTAMP] = ANY_TIME if appended else timestamp
    search[RecordSearch.MIN_DELTA] = max(min_offset - batch.base_offset, ANY_DELTA)
    rest = b""
    for piece in bounded_pieces(batch.codec, batch.data[b.RECORDS :], MAX_BYTES):
        rest = _take(search, rest + piece if rest else piece, last=False)
        # bytes after the last record are damage
        if search[RecordSearch.FOUND] or len(rest) >= RECORD_HEAD_BYTES:
            break
    else:
        rest = _take(search, rest, last=True)
    if search[RecordSearch.FOUND]:
        found = batch.max_timestamp if appended else int(search[RecordSearch.TIMESTAMP])
        return found, batch.base_offset + int(search[RecordSearch.OFFSET_DELTA])
    if rest or search[RecordSearch.LEFT] > 0 or search[RecordSearch.SKIP]:
        raise ProtocolError(f"the records of the batch at offset {batch.base_offset} are damaged")
    return None


def _take(search: NDArray[np.int64], piece: bytes | memoryview, last: bool) -> bytes:
    """The bytes of a piece that are left for the next one. Raises ProtocolError."""
    data = np.frombuffer(piece, np.uint8)
    taken = search_piece(search, data.ctypes.data, len(data), last)
    if taken < 0:
        raise ProtocolError("a record is shorter than its head")
    return bytes(piece[taken:])
