"""Checks every record of a produced batch as Kafka's LogValidator does, without keeping
decompressed bytes.

Runs in: network; pure.
"""

import numpy as np
from msgspec import Struct

from kbroker.net.produce import partial_record_kernel as pr
from kbroker.net.rows import PartialRecord, RecordPhase
from kbroker.protocol.compression import LZ4_FLAGS, PIECE_BYTES, Codec, pieces
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import RecordBatch
from kbroker.protocol.schema import ProtocolError

AT_ONCE_BYTES = 128 << 10
ANY_LENGTH = 1 << 62
PIECE_COST_BYTES = 1 << 10
"""A piece takes the time of this many bytes, also an empty one: a batch may have thousands of
members or blocks of a few bytes."""
LZ4_INDEPENDENT = 0x60
"""Version 1, and blocks that need none before them: required by Kafka's reader of lz4."""


class Demands(Struct, frozen=True):
    """Requirements for the records. oldest, newest: timestamps allowed, ms; ordered: offset deltas
    count up from 0; sized: each record is as long as it says (Kafka does not check that where it
    skips keys and values)."""

    oldest: int
    newest: int
    need_keys: bool
    ordered: bool
    sized: bool


class WalkResult(Struct, frozen=True):
    """error: the records contradict the batch's header. refused: a record has an error of its own.
    disordered: offset deltas do not count up from 0. largest: the largest timestamp, ms, -1 when
    none has one."""

    error: ErrorCode = ErrorCode.NONE
    refused: bool = False
    disordered: bool = False
    largest: int = -1


class TooLong(Exception):
    """Decompressed, a batch is longer than allowed."""


def walk(batch: RecordBatch, body: memoryview, demands: Demands, max_bytes: int = ANY_LENGTH) -> WalkResult:
    """Check every record. body: the batch after its header, as it came. Raises TooLong when it has
    max_bytes or more decompressed."""
    words = PartialRecord.row()
    words[PartialRecord.LEFT] = batch.record_count
    words[PartialRecord.BASE_TIMESTAMP] = batch.base_timestamp
    words[PartialRecord.OLDEST], words[PartialRecord.NEWEST] = demands.oldest, demands.newest
    words[PartialRecord.NEED_KEYS], words[PartialRecord.ORDERED] = demands.need_keys, demands.ordered
    words[PartialRecord.SIZED] = demands.sized
    words[PartialRecord.LARGEST] = -1
    if batch.codec == Codec.LZ4 and body[LZ4_FLAGS : LZ4_FLAGS + 1].tobytes() < bytes((LZ4_INDEPENDENT,)):
        return WalkResult(ErrorCode.UNKNOWN_SERVER_ERROR)
    rest = b""
    try:
        for piece in pieces(batch.codec, body, min(max_bytes, PIECE_BYTES)):
            max_bytes -= len(piece) + PIECE_COST_BYTES
            if max_bytes <= 0:
                raise TooLong
            outcome, rest = _take(words, rest + piece if rest else piece)
            if outcome < 0:
                broken = outcome == pr.BROKEN and not _lost_size(batch, words)
                return WalkResult(ErrorCode.INVALID_RECORD if broken else ErrorCode.UNKNOWN_SERVER_ERROR)
    except ProtocolError:
        return WalkResult(ErrorCode.UNKNOWN_SERVER_ERROR)
    if (
        rest
        or words[PartialRecord.LEFT]
        or words[PartialRecord.SKIP]
        or words[PartialRecord.PHASE] != RecordPhase.SIZE
    ):
        return WalkResult(ErrorCode.INVALID_RECORD)
    return WalkResult(
        refused=bool(words[PartialRecord.REFUSED]),
        disordered=bool(words[PartialRecord.DISORDERED]),
        largest=int(words[PartialRecord.LARGEST]),
    )


def _lost_size(batch: RecordBatch, words: np.ndarray) -> bool:
    """Whether the size of a record that is not compressed was too long: Kafka has no error of its
    own for that."""
    return bool(
        batch.codec == Codec.NONE
        and words[PartialRecord.PHASE] == RecordPhase.SIZE
        and words[PartialRecord.LEFT]
    )


def _take(words: np.ndarray, piece: bytes | memoryview) -> tuple[int, bytes]:
    """The kernel's result for a piece, and the bytes that it left."""
    data = np.frombuffer(piece, np.uint8)
    taken = pr.walk_piece(words.ctypes.data, data.ctypes.data, len(data))
    return taken, bytes(piece[taken:]) if 0 <= taken < len(data) else b""
