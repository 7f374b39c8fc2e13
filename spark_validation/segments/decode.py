"""Records of a range as Arrow batches: chunk by chunk, compressed batches through their codecs."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_validation.segments import layout
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.columns import Records, header_batch, is_data, record_batch
from spark_validation.segments.decoder import Decoder, decode_batches, groups_of
from spark_validation.segments.layout import Fault, Words
from spark_validation.segments.ranges import Range
from spark_validation.segments.walk import VISIBLE, Chunk, batch_states, chunks

READABLE = (Fault.SOUND, Fault.BAD_CRC)


def read_records(
    work: Range, names: list[str], run: int, control: bool, read_committed: bool
) -> Iterator[pa.RecordBatch]:
    """The range's records. control: markers as rows too (key and value are the marker's)."""
    needs_states = "state" in names or "marker" in names or read_committed
    states = batch_states(work) if needs_states else None
    decoder = Decoder(names, run)
    for number, chunk in enumerate(chunks(work.folder, work.pieces, False)):
        state = states[number] if states is not None else None
        keep = (chunk.rows[:, layout.FAULT] == Fault.SOUND) & (chunk.rows[:, layout.RECORD_COUNT] > 0)
        if not control:
            keep &= is_data(chunk.rows)
        if read_committed and state is not None:
            keep &= state.state == VISIBLE
        for decoded in decoder.decode(chunk, np.flatnonzero(keep)):
            yield record_batch(names, Records(work.topic, work.partition, chunk, state, decoded))


def read_headers(work: Range, names: list[str], check: bool) -> Iterator[pa.RecordBatch]:
    """The range's batches, a row each. check: checksums, and their records against their
    headers."""
    for chunk in chunks(work.folder, work.pieces, check):
        highest = check_records(chunk) if check else chunk.rows[:, layout.MAX_TIMESTAMP]
        yield header_batch(names, work.topic, work.partition, chunk, highest)


def check_records(chunk: Chunk) -> Words:
    """Marks batches whose records are not what the header says; returns the highest timestamp of
    each one's records."""
    rows = chunk.rows
    highest = rows[:, layout.MAX_TIMESTAMP].copy()
    picked = np.flatnonzero(np.isin(rows[:, layout.FAULT], READABLE) & (rows[:, layout.RECORD_COUNT] > 0))
    for group in groups_of(chunk, picked):
        count = int(rows[group, layout.RECORD_COUNT].sum())
        _, work, _ = decode_batches(chunk, group, np.empty((count, rk.RECORD_COLUMNS), np.int64))
        highest[group] = work[:, rk.HIGHEST_TIMESTAMP]
        sound = rows[group, layout.FAULT] == Fault.SOUND
        rows[group[sound & (work[:, rk.MARKED] > 0)], layout.FAULT] = Fault.BAD_MARKS
        rows[group[sound & (work[:, rk.MISNUMBERED] > 0)], layout.FAULT] = Fault.BAD_DELTAS
        rows[group[sound & (work[:, rk.MALFORMED] > 0)], layout.FAULT] = Fault.BAD_RECORDS
    return highest
