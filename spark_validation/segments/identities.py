"""Identities of load-test records, out of their values (layout: loadtest/record.py), and sums of
their headers.

A tombstone has no value: its identity travels in its first header. Checksums are a library's.
"""

from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from loadtest.record import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    IDENTITY_HEADER,
    KEY_BYTES,
    MAGIC,
    TOMBSTONE,
    VERSION,
)
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.headers import varint
from spark_validation.segments.layout import Words

ANY_RUN = -1
FOREIGN = -2  # the producer of a record of another run


class Identities(NamedTuple):
    """Columns, a value a record. A record that is not ours has producer, seq and partition_seq
    -1; a whole one of another run has the producer FOREIGN: its numbers are that run's."""

    record_key: Words
    producer: Words
    seq: Words
    partition_seq: Words
    flags: NDArray[np.int8]
    intact: NDArray[np.bool_]
    intended_ns: Words


def identify(data: NDArray[np.uint8], found: Words, run: int) -> Identities:
    """The identities of decoded records (rows of RECORD_COLUMNS) in a buffer. run: number of the
    run, 31 bits; ANY_RUN accepts any."""
    at, sizes = found[:, rk.VALUE_AT].copy(), found[:, rk.VALUE_SIZE].copy()
    for n in np.flatnonzero((sizes < 0) & (found[:, rk.HEADERS_SIZE] > HEADER_BYTES)).tolist():
        begin, size = (int(found[n, column]) for column in (rk.HEADERS_AT, rk.HEADERS_SIZE))
        at[n], sizes[n] = in_header(data.data[: begin + size], begin)
    raw = np.empty((len(found), HEADER_BYTES), np.uint8)
    rk.starts(data, at, sizes, raw)
    heads = raw.view(HEADER).reshape(-1)
    ours = (sizes >= HEADER_BYTES) & (heads["magic"] == MAGIC) & (heads["version"] == VERSION)
    intact = ours & (sums(data, at + CHECKED_FROM, at + sizes, ours) == heads["checksum"])
    intact &= ((heads["flags"] & TOMBSTONE) > 0) == (found[:, rk.VALUE_SIZE] < 0)
    others = intact & (heads["run"] != run) if run != ANY_RUN else np.zeros(len(found), np.bool_)
    intact &= ~others
    numbered = ours & ~others
    keys = np.empty(len(found), np.int64)
    rk.key_numbers(data, found[:, rk.KEY_AT].copy(), found[:, rk.KEY_SIZE].copy(), keys)

    def field(name: str, chosen: NDArray[np.bool_]) -> Words:
        return np.where(chosen, heads[name].astype(np.int64), -1)

    producer = field("producer", numbered).astype(np.int32).astype(np.int64)
    return Identities(
        keys,
        np.where(others, FOREIGN, producer),
        field("seq", numbered),
        field("partition_seq", numbered),
        np.where(ours, heads["flags"], 0).astype(np.int8),
        intact,
        field("intended_ns", ours),
    )


def sums(
    data: NDArray[np.uint8], begins: Words, ends: Words, chosen: NDArray[np.bool_]
) -> NDArray[np.uint32]:
    """CRC-32C of texts in a buffer; 0 where none is chosen."""
    found = np.zeros(len(begins), np.uint32)
    picked = np.flatnonzero(chosen)
    view = data.data
    places = zip(begins[picked].tolist(), ends[picked].tolist(), strict=True)
    found[picked] = [crc32c(view[begin:end]) for begin, end in places]
    return found


def header_sums(data: NDArray[np.uint8], found: Words) -> Words:
    """CRC-32C of each record's headers as they are written: count, names, values, nulls, in order;
    0: no headers."""
    sizes = found[:, rk.HEADERS_SIZE]
    begins = found[:, rk.HEADERS_AT]
    return sums(data, begins, begins + sizes, sizes > 1).astype(np.int64)


def in_header(data: memoryview, at: int) -> tuple[int, int]:
    """(place, size) of the value of the first header, where that holds an identity; else (0, -1).
    data: up to the headers' end."""
    try:
        count, at = varint(data, at)
        size, at = varint(data, at)
        if count < 1 or bytes(data[at : at + size]) != IDENTITY_HEADER.encode():
            return 0, -1
        size, at = varint(data, at + size)
    except IndexError:
        return 0, -1
    return (at, size) if at + size <= len(data) else (0, -1)


assert KEY_BYTES == 8, "record_kernels.key_numbers reads keys of 8 bytes"
