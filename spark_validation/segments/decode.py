"""Records of a range as Arrow batches: chunk by chunk, compressed batches through their codecs."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbroker.kernels import batches as bt
from kbroker.protocol import batch_layout as b
from kbroker.protocol.compression import decompress
from kbroker.protocol.schema import ProtocolError
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments.columns import Records, header_batch, is_data, record_batch
from spark_validation.segments.ranges import Range
from spark_validation.segments.walk import Chunk, chunks, states

PLAIN_BYTES = 32 << 20  # of decompressed records held at once


def read_records(
    work: Range, names: list[str], run: int, control: bool, read_committed: bool
) -> Iterator[pa.RecordBatch]:
    """The range's records. control: markers as rows too (key and value are the marker's)."""
    wants_state = "state" in names or read_committed
    fates = states(work) if wants_state else None
    for number, chunk in enumerate(chunks(work.folder, work.pieces, False)):
        fate = fates[number] if fates is not None else None
        keep = (chunk.rows[:, dk.FAULT] == bt.END) & (chunk.rows[:, bt.RECORD_COUNT] > 0)
        if not control:
            keep &= is_data(chunk.rows)
        if read_committed and fate is not None:
            keep &= fate == 0
        picked = np.flatnonzero(keep)
        for some in portions(chunk, picked):
            found, alive = decode(chunk, some)
            if len(found):
                yield record_batch(names, Records(work.topic, work.partition, chunk, fate, found, run))
            del alive


def read_headers(work: Range, names: list[str], check_crc: bool) -> Iterator[pa.RecordBatch]:
    """The range's batches, a row each."""
    for chunk in chunks(work.folder, work.pieces, check_crc):
        yield header_batch(names, work.topic, work.partition, chunk)


def portions(chunk: Chunk, picked: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Batches to decode at once: all, unless compressed ones could grow beyond PLAIN_BYTES."""
    packed = chunk.rows[picked, bt.ATTRIBUTES] & b.ATTRIBUTE_CODEC_MASK
    if not packed.any():
        yield picked
        return
    guess = np.cumsum(np.where(packed, 8, 1) * chunk.rows[picked, bt.SIZE])
    borders = np.flatnonzero(np.diff(guess // PLAIN_BYTES)) + 1
    yield from np.split(picked, borders)


def decode(chunk: Chunk, picked: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[bytes]]:
    """(rows of RECORD_COLUMNS, what their addresses lie in besides the chunk)."""
    rows = chunk.rows
    addresses = chunk.addresses[picked] + b.HEADER_BYTES
    lengths = rows[picked, bt.SIZE] - b.HEADER_BYTES
    codecs = rows[picked, bt.ATTRIBUTES] & b.ATTRIBUTE_CODEC_MASK
    alive: list[bytes] = []
    base = chunk.buffer.ctypes.data
    for n in np.flatnonzero(codecs):
        at = int(addresses[n]) - base
        try:
            plain = bytes(decompress(int(codecs[n]), chunk.buffer.data[at : at + int(lengths[n])]))
        except ProtocolError:  # the batch chain check names it
            plain = b""
        alive.append(plain)
        addresses[n] = np.frombuffer(plain, np.uint8).ctypes.data if plain else 0
        lengths[n] = len(plain)
    out = np.empty((int(rows[picked, bt.RECORD_COUNT].sum()), dk.RECORD_COLUMNS), np.int64)
    damaged = np.zeros(max(len(picked), 1), np.uint8)
    made = dk.records(rows, picked, addresses, lengths, len(picked), out, damaged)
    return out[:made], alive
