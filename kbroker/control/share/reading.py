"""Reading what a share group may be given: whole batches of a log, from an offset to what a reader
may see; and single records, for dead letters."""

from typing import NamedTuple

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import locate_timestamp
from kbroker.log.transaction_index import aborted_transactions
from kbroker.log.walk import walk
from kbroker.protocol.records import Record, RecordBatch, read_records
from kbroker.protocol.schema import ProtocolError

COPIED_BYTES = 1 << 27
"""Batches that take more decompressed are not copied to dead letters."""


class Piece(NamedTuple):
    """One batch of the log. deliver: it holds records for the group (no marker, not aborted)."""

    first: int
    last: int
    deliver: bool
    data: bytes


class Originals(NamedTuple):
    """Records by their offsets. last: the last offset that was looked at."""

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
    words = broker.slots.group(partition.slot)
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
    limit = int(words[Slot.LAST_STABLE if committed else Slot.HIGH_WATERMARK])
    version = int(words[Slot.SEGMENTS_VERSION])
    if offset >= limit:
        return []

    def read(reader: LogReader) -> list[Piece]:
        pieces: list[Piece] = []
        left = max_bytes
        aborted = aborted_transactions(reader, offset, limit, version) if committed else []
        for placed in walk(reader, offset, *end):
            batch = placed.batch
            if batch.last_offset >= limit or (pieces and len(batch.data) > left):
                break
            dropped = batch.is_control or any(
                batch.is_transactional
                and batch.producer_id == each.producer_id
                and each.first_offset <= batch.base_offset <= each.last_offset
                for each in aborted
            )
            data = b"" if dropped else bytes(batch.data)
            pieces.append(Piece(batch.base_offset, batch.last_offset, not dropped, data))
            left -= len(batch.data)
            if left <= 0:
                break
        return pieces

    return await broker.logs.read(partition.folder, read)


async def read_originals(
    broker: Broker, partition: Partition, first: int, last: int, max_bytes: int
) -> Originals:
    """The records that there are of first..last, in as many batches as max_bytes allows, at least
    one. Raises KafkaError."""
    words = broker.slots.group(partition.slot)
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])

    def read(reader: LogReader) -> Originals:
        found: dict[int, Record] = {}
        left = max_bytes
        for placed in walk(reader, first, *end):
            batch = placed.batch
            if batch.base_offset > last:
                break
            found |= _records(batch, first, last)
            left -= len(batch.data)
            if left <= 0 and batch.last_offset >= first:
                return Originals(min(last, batch.last_offset), found)
        return Originals(last, found)

    return await broker.logs.read(partition.folder, read)


def _records(batch: RecordBatch, first: int, last: int) -> dict[int, Record]:
    """Nothing of a batch that is damaged or too large: a letter without a copy is better than
    none."""
    if batch.is_control:
        return {}
    try:
        return {
            each.offset: each for each in read_records(batch, COPIED_BYTES) if first <= each.offset <= last
        }
    except ProtocolError:
        return {}


async def offset_at(broker: Broker, partition: Partition, timestamp_ms: int) -> int:
    """The first offset at or after a time, else the high watermark."""
    words = broker.slots.group(partition.slot)
    start, limit = int(words[Slot.LOG_START]), int(words[Slot.HIGH_WATERMARK])
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
    version = int(words[Slot.SEGMENTS_VERSION])
    found = await broker.logs.read(
        partition.folder, lambda reader: locate_timestamp(reader, timestamp_ms, start, *end, version)
    )
    return limit if found is None or found.offset >= limit else found.offset
