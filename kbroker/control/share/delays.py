"""The time at which records of a topic with a delay are due, from their timestamp or a header (ADR
0025). Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from kbroker.config.topic import MAX_DELAY_MS
from kbroker.protocol.compression import Codec, TooLong
from kbroker.protocol.records import Record, RecordBatch, batch_at, read_records
from kbroker.protocol.schema import ProtocolError

DELIVER_AT = "kbroker-deliver-at"
"""The header: milliseconds since 1970, in decimal digits."""
_NAME = DELIVER_AT.encode()
_MAX_DIGITS = 18  # fits in 64 bits

CHECKED_BYTES = 1 << 27
"""Larger batches (decompressed) are due as a whole, by their newest timestamp."""
CHECKED_AT_A_TIME = 100_000
"""Records and headers, and KiB of their contents, that are checked at a time, in about a second; a
batch with more is due as a whole. A megabyte of batches may hold hundreds of millions."""
_KIB = 10
TICK_MS = 64
"""Records become due in steps of this many ms, so that adjacent records become due together."""
_STEPS = 64


class Wait(NamedTuple):
    """A range of records that are not due, and the time of the next check."""

    first: int
    last: int
    next_check_ms: int


def due_ms(record: Record, delay_ms: int) -> int:
    """The time from which a record may be delivered. Of several headers with the name the last one
    counts, as for clients."""
    longest = record.timestamp_ms + MAX_DELAY_MS
    for name, value in reversed(record.headers):
        if name == DELIVER_AT:
            if value is not None and len(value) <= _MAX_DIGITS and value.isdigit():
                return min(int(value), longest)
            break
    return record.timestamp_ms + delay_ms


def next_check_ms(due: int, now_ms: int) -> int:
    """The time of the next check of a record that is due later. If that is soon, it is the first
    tick at which the record is due. Otherwise it is earlier, in steps that are coarser for longer
    delays, so that records with a long delay form few ranges.
    """
    grain = 1 << max(0, ((due - now_ms) // _STEPS).bit_length() - 1)
    if grain <= TICK_MS:
        return -(-due // TICK_MS) * TICK_MS
    return due // grain * grain


class Checked(NamedTuple):
    """The number of batches that were checked, and the records in them that are not due, as ranges
    in order of offsets."""

    batches: int
    waits: list[Wait]


def waits_of(batches: Sequence[bytes], delay_ms: int, now_ms: int) -> Checked:
    """The records of these batches that are not due: of as many batches as are checked at a time,
    at least one."""
    found: list[Wait] = []
    left = CHECKED_AT_A_TIME
    for number, data in enumerate(batches):
        batch = batch_at(memoryview(data), 0)
        assert batch is not None
        has_header = batch.codec != Codec.NONE or _NAME in data
        if not has_header and batch.max_timestamp + delay_ms <= now_ms:
            continue
        if not has_header and batch.has_log_append_time:
            found += _as_a_whole(batch, delay_ms, now_ms)
            continue
        try:
            waits, cost = _one_by_one(batch, delay_ms, now_ms, left)
            found += waits
            left -= cost
        except ProtocolError as error:  # the consumer is to see that it is damaged
            if left < CHECKED_AT_A_TIME and isinstance(error, TooLong):
                return Checked(number, found)
            found += _as_a_whole(batch, delay_ms, now_ms)
            left = 0
    return Checked(len(batches), found)


def _as_a_whole(batch: RecordBatch, delay_ms: int, now_ms: int) -> list[Wait]:
    due = batch.max_timestamp + delay_ms
    return [Wait(batch.base_offset, batch.last_offset, next_check_ms(due, now_ms))] if due > now_ms else []


def _one_by_one(batch: RecordBatch, delay_ms: int, now_ms: int, max_cost: int) -> tuple[list[Wait], int]:
    """Runs of records that are not due, and the cost of the check. Raises ProtocolError, TooLong
    for a batch that costs more."""
    found: list[Wait] = []
    after_due = True
    cost = 0
    for record in read_records(batch, CHECKED_BYTES, max_cost):
        cost += 1 + len(record.headers) + (record.contents_bytes >> _KIB)
        if cost > max_cost:
            raise TooLong("a batch has too many records or headers to be checked one by one")
        due = due_ms(record, delay_ms)
        if due <= now_ms:
            after_due = True
            continue
        check_ms = next_check_ms(due, now_ms)
        if after_due:
            found.append(Wait(record.offset, record.offset, check_ms))
            after_due = False
        else:
            found[-1] = Wait(found[-1].first, record.offset, min(found[-1].next_check_ms, check_ms))
    return found, cost
