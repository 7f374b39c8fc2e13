"""Records of a range as Arrow batches: chunk by chunk, compressed batches through their codecs."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments.columns import Records, header_batch, is_data, record_batch
from spark_validation.segments.decoder import Decoder
from spark_validation.segments.ranges import Range
from spark_validation.segments.walk import chunks, states


def read_records(
    work: Range, names: list[str], run: int, control: bool, read_committed: bool
) -> Iterator[pa.RecordBatch]:
    """The range's records. control: markers as rows too (key and value are the marker's)."""
    wants_state = "state" in names or read_committed
    fates = states(work) if wants_state else None
    decoder = Decoder(names, run)
    for number, chunk in enumerate(chunks(work.folder, work.pieces, False)):
        fate = fates[number] if fates is not None else None
        keep = (chunk.rows[:, dk.FAULT] == ScanStop.END) & (chunk.rows[:, ScannedBatch.RECORD_COUNT] > 0)
        if not control:
            keep &= is_data(chunk.rows)
        if read_committed and fate is not None:
            keep &= fate == 0
        for found, identity, texts in decoder.decode(chunk, np.flatnonzero(keep)):
            yield record_batch(
                names, Records(work.topic, work.partition, chunk, fate, found, identity, texts)
            )


def read_headers(work: Range, names: list[str], check_crc: bool) -> Iterator[pa.RecordBatch]:
    """The range's batches, a row each."""
    for chunk in chunks(work.folder, work.pieces, check_crc):
        yield header_batch(names, work.topic, work.partition, chunk)
