"""Dead letters: records that describe the archived records of a share group (KIP-1191). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kbroker.control.share.dead_offsets import Dead
from kbroker.protocol.batch_layout import HEADER_BYTES
from kbroker.protocol.records import NewRecord, Record, build_batch

PREFIX = "__dlq.errors."
_FIELD_BYTES = 5
"""The maximum size of a length: a varint."""
_RECORD_BYTES = 40
"""The maximum overhead of a record: its own length, deltas and attributes are varints."""


class Origin(NamedTuple):
    """The share group, and the partition of the archived records."""

    group_id: str
    topic: str
    partition: int


def letters(
    origin: Origin,
    dead: Dead,
    first: int,
    last: int,
    originals: Mapping[int, Record],
    now_ms: int,
    max_bytes: int,
) -> Iterator[NewRecord]:
    """A letter for each offset of first..last, with the key, value and headers of the original
    record if it exists. They are omitted if they alone exceed max_bytes: the letter still names the
    original's offset.
    """
    for offset in range(first, last + 1):
        context = _context(origin, dead, offset)
        letter: NewRecord = (None, None, context, now_ms)
        if (original := originals.get(offset)) is not None:
            copy = (original.key, original.value, (*original.headers, *context), now_ms)
            if HEADER_BYTES + _size(copy) <= max_bytes:
                letter = copy
        yield letter


def batches(
    written: Iterable[NewRecord], max_bytes: int, log_append_time_ms: int | None = None
) -> Iterator[bytes]:
    """The letters in batches of at most max_bytes, or of one letter."""
    together: list[NewRecord] = []
    size = HEADER_BYTES
    for letter in written:
        more = _size(letter)
        if together and size + more > max_bytes:
            yield build_batch(together, log_append_time_ms=log_append_time_ms)
            together, size = [], HEADER_BYTES
        together.append(letter)
        size += more
    if together:
        yield build_batch(together, log_append_time_ms=log_append_time_ms)


def _context(origin: Origin, dead: Dead, offset: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers in Kafka's order, all of them text. They follow those of the original, because
    clients use the last header of a name."""
    values = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(offset),
        "group": origin.group_id,
        "delivery.count": str(dead.delivery_count),
        "message": dead.why,
    }
    return tuple((PREFIX + name, value.encode()) for name, value in values.items())


def _size(record: NewRecord) -> int:
    """An upper bound of the bytes of a record."""
    key, value, headers, _ = record
    size = _RECORD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(
        2 * _FIELD_BYTES + len(name.encode()) + len(content or b"") for name, content in headers
    )
