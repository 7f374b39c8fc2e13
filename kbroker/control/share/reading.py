"""Reads records for a share group: whole batches of a log, from an offset to the end that readers
may see; and single records, for dead letters."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import locate_timestamp
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.log.walk import walk
from kbroker.protocol.records import Record, RecordBatch, read_records
from kbroker.protocol.schema import ProtocolError

COPIED_BYTES = 1 << 27
"""Batches that take more decompressed are not copied to dead letters."""
COPIED_RECORDS = COPIED_HEADERS = 100_000
"""Batches with more records or headers are not copied, either: each takes hundreds of bytes of
memory."""
TRIES: Final = 3
"""Reads of a log whose segments change meanwhile."""


Found = TypeVar("Found")


class Piece(NamedTuple):
    """One batch of the log. deliver: it holds records for the group (no marker, not aborted)."""

    first: int
    last: int
    deliver: bool
    data: bytes


class Originals(NamedTuple):
    """Records by their offsets. last: the last offset that was read."""

    last: int
    records: dict[int, Record]


def limit_of(broker: Broker, partition: Partition, committed: bool) -> int:
    """The offset that the group may not reach yet."""
    words = broker.slots.group(partition.slot)
    return int(words[Slot.LAST_STABLE if committed else Slot.HIGH_WATERMARK])


def log_start_of(broker: Broker, partition: Partition) -> int:
    return int(broker.slots.group(partition.slot)[Slot.LOG_START])


async def read_pieces(
    broker: Broker, partition: Partition, offset: int, max_bytes: int, committed: bool
) -> list[Piece]:
    """Batches from the batch with the offset on, at least one if there is any. Raises
    KafkaError."""

    def read(batches: Iterator[tuple[RecordBatch, bool]]) -> list[Piece]:
        pieces: list[Piece] = []
        left = max_bytes
        for batch, deliver in batches:
            if pieces and len(batch.data) > left:
                break
            data = bytes(batch.data) if deliver else b""
            pieces.append(Piece(batch.base_offset, batch.last_offset, deliver, data))
            left -= len(batch.data)
            if left <= 0:
                break
        return pieces

    return await _read_batches(broker, partition, offset, committed, read) or []


class Count(NamedTuple):
    """Bytes of batches with records for the group. end: the offset after the last batch that was
    counted."""

    start: int
    end: int
    bytes: int


class Deliverable:
    """Counts the bytes available to a waiting fetch; counted batches are not read again. Runs in:
    control. Owner: one fetch."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._counts: dict[str, Count] = {}

    async def bytes_from(self, partition: Partition, offset: int, min_bytes: int, committed: bool) -> int:
        """Bytes of the batches with records for the group, from the batch with the offset on, up to
        the first that makes min_bytes complete. Raises KafkaError."""
        known = self._counts.get(partition.folder)
        if known is None or known.start != offset:
            known = Count(offset, offset, 0)
        if known.bytes >= min_bytes:
            return known.bytes
        end, found = known.end, known.bytes

        def read(batches: Iterator[tuple[RecordBatch, bool]]) -> tuple[int, int]:
            at, more = end, found
            for batch, deliver in batches:
                at = batch.last_offset + 1
                more += len(batch.data) if deliver else 0
                if more >= min_bytes:
                    break
            return at, more

        counted = await _read_batches(self._broker, partition, end, committed, read) or (end, found)
        self._counts[partition.folder] = Count(offset, *counted)
        return counted[1]


async def _read_batches(
    broker: Broker,
    partition: Partition,
    offset: int,
    committed: bool,
    read: Callable[[Iterator[tuple[RecordBatch, bool]]], Found],
) -> Found | None:
    """The values that `read` returns for the batches from an offset on that the group may reach,
    each with whether it holds records for it (no marker, not aborted); None when there is no batch,
    or while segments are being replaced: batches and transaction indexes may not belong together.
    The IO worker wakes the fetch when the files are in place. Raises KafkaError."""

    def read_once(end: tuple[int, int], limit: int, version: int, reader: LogReader) -> Found:
        return read(_batches(offset, end, limit, version, committed, reader))

    for _ in range(TRIES):
        words = broker.slots.group(partition.slot)
        end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
        limit = int(words[Slot.LAST_STABLE if committed else Slot.HIGH_WATERMARK])
        version = int(words[Slot.SEGMENTS_VERSION])
        if offset >= limit or (committed and version % 2):
            return None
        found = await broker.logs.read(partition.folder, partial(read_once, end, limit, version))
        if not committed or broker.slots.word(partition.slot, Slot.SEGMENTS_VERSION) == version:
            return found
    return None


def _batches(
    offset: int, end: tuple[int, int], limit: int, version: int, committed: bool, reader: LogReader
) -> Iterator[tuple[RecordBatch, bool]]:
    aborted = Aborted(aborted_transactions(reader, offset, limit, version) if committed else ())
    for placed in walk(reader, offset, *end):
        batch = placed.batch
        if batch.last_offset >= limit:
            return
        yield batch, not (batch.is_control or aborted.holds(batch))


class Aborted:
    """Aborted transactions, which may be a million, for many batches. Owner: one read. found: by
    first offset."""

    __slots__ = ("_by_producer",)

    def __init__(self, found: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, tuple[list[int], list[int]]] = {}
        for each in found:
            firsts, lasts = self._by_producer.setdefault(each.producer_id, ([], []))
            firsts.append(each.first_offset)
            lasts.append(max(each.last_offset, lasts[-1]) if lasts else each.last_offset)

    def holds(self, batch: RecordBatch) -> bool:
        """Whether the batch is of one of the transactions."""
        if not batch.is_transactional or (known := self._by_producer.get(batch.producer_id)) is None:
            return False
        firsts, lasts = known  # the last offset up to each: that of the latest end
        at = bisect_right(firsts, batch.base_offset) - 1
        return at >= 0 and batch.base_offset <= lasts[at]


async def read_originals(
    broker: Broker, partition: Partition, first: int, last: int, max_bytes: int
) -> Originals:
    """The records that there are of first..last, in as many batches as max_bytes allows, also
    decompressed, at least one. Raises KafkaError."""
    words = broker.slots.group(partition.slot)
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])

    def read(reader: LogReader) -> Originals:
        found: dict[int, Record] = {}
        left = max_bytes
        for placed in walk(reader, first, *end):
            batch = placed.batch
            if batch.base_offset > last:
                break
            copies = _records(batch, first, last)
            found |= copies
            left -= max(len(batch.data), sum(each.contents_bytes for each in copies.values()))
            if left <= 0 and batch.last_offset >= first:
                return Originals(min(last, batch.last_offset), found)
        return Originals(last, found)

    return await broker.logs.find(partition.folder, read)


def _records(batch: RecordBatch, first: int, last: int) -> dict[int, Record]:
    """The records of a batch; none of a batch that is damaged or too large, whose letters have no
    copies then."""
    if batch.is_control or batch.record_count > COPIED_RECORDS:
        return {}
    records = read_records(batch, COPIED_BYTES, COPIED_HEADERS)
    try:
        return {each.offset: each for each in records if first <= each.offset <= last}
    except ProtocolError:
        return {}


async def offset_at(broker: Broker, partition: Partition, timestamp_ms: int) -> int:
    """The first offset at or after a time, else the high watermark."""
    words = broker.slots.group(partition.slot)
    start, limit = int(words[Slot.LOG_START]), int(words[Slot.HIGH_WATERMARK])
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
    version = int(words[Slot.SEGMENTS_VERSION])
    found = await broker.logs.find(
        partition.folder, lambda reader: locate_timestamp(reader, timestamp_ms, start, *end, version)
    )
    return limit if found is None or found.offset >= limit else found.offset
