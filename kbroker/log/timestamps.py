"""Offsets by time, as ListOffsets means them (UnifiedLog.fetchOffsetByTimestamp, LogSegment)."""

from typing import NamedTuple

import numpy as np

from kbroker.kernels import search
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.log import files
from kbroker.log.reader import LargestTimestamp, LogReader, SegmentView, Walked, batch_position
from kbroker.log.record_times import first_record
from kbroker.log.walk import PlacedBatch, read_batch

NO_TIMESTAMP = -1
LATEST = (1 << 62) - 1


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms), offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def locate_timestamp(
    reader: LogReader, timestamp: int, start_offset: int, end_base: int, end_position: int, version: int = -1
) -> TimestampOffset | None:
    """The first record at or after `start_offset` (log start) whose timestamp is >= `timestamp`,
    below the end.

    As in Kafka only the first segment that reaches the timestamp is looked into. A segment that
    compaction has emptied reaches none (Kafka goes by the age of its file and then finds nothing).
    Raises CorruptLog, OSError, ProtocolError."""
    for view in reader.views(start_offset, end_base, end_position, version):
        if _reaches(reader, view, timestamp):
            return _first_record(reader, view, timestamp, start_offset)
    return None


def locate_batch(
    reader: LogReader, timestamp: int, start_offset: int, end_base: int, end_position: int, version: int = -1
) -> TimestampOffset | None:
    """The largest timestamp and the base offset of the first batch that reaches a timestamp: every
    record before it is older. A batch that ends below the log start is none. Raises CorruptLog,
    OSError."""
    for view in reader.views(start_offset, end_base, end_position, version):
        if not _reaches(reader, view, timestamp):
            continue
        position = _position(reader, view, timestamp, start_offset)
        while placed := _next_batch(reader, view, position, timestamp):
            batch = placed.batch
            if batch.last_offset >= start_offset:
                return TimestampOffset(batch.max_timestamp, batch.base_offset, batch.partition_leader_epoch)
            position = placed.position + batch.size
    return None


def max_timestamp(
    reader: LogReader, start_offset: int, end_base: int, end_position: int, version: int = -1
) -> TimestampOffset | None:
    """The record with the largest timestamp (the first of them) below the end: ListOffsets' -3.
    None when empty. Raises CorruptLog, OSError, ProtocolError."""
    best: tuple[int, int] = (NO_TIMESTAMP, -1)
    where: SegmentView | None = None
    for view in reader.views(start_offset, end_base, end_position, version):
        found = largest_in(reader, view)
        if found[0] > best[0]:
            best, where = found, view
    if where is None:
        return None
    position = reader.find_position(where.base_offset, best[1])
    emptied: TimestampOffset | None = None
    while placed := _next_batch(reader, where, position, best[0]):
        batch = placed.batch
        if (found_record := first_record(batch, best[0])) is not None:
            return TimestampOffset(*found_record, batch.partition_leader_epoch)
        if emptied is None:
            emptied = TimestampOffset(best[0], batch.last_offset, batch.partition_leader_epoch)
        position = placed.position + batch.size
    return emptied  # Kafka's time index has the times of emptied batches, too


def _reaches(reader: LogReader, view: SegmentView, timestamp: int) -> bool:
    """Whether a segment holds that timestamp or a later one; of the active segment the
    .timeindex usually shows it."""
    if view.last and (indexed := _last_indexed(reader, view)) is not None and indexed[0] >= timestamp:
        return True
    return largest_in(reader, view)[0] >= timestamp


def _last_indexed(reader: LogReader, view: SegmentView) -> tuple[int, int] | None:
    """(timestamp, offset) of a segment's last .timeindex entry, None when it has none."""
    entry = np.zeros(2, np.int64)
    index = reader.index(view.base_offset, files.TIME_INDEX)
    slot = search.find_time(index.fd, index.size(), LATEST, entry) if index else -1
    return (int(entry[0]), view.base_offset + int(entry[1])) if slot >= 0 else None


def largest_in(reader: LogReader, view: SegmentView) -> tuple[int, int]:
    """(largest timestamp, last offset of its batch) of a segment; (-1, base offset) when it holds
    none.

    A closed segment's last .timeindex entry is final; after the last entry of the active one its
    batches are walked, once each, and when the time index is missing the whole segment is."""
    base = view.base_offset
    if view.last:
        return _largest_in_active(reader, view)
    known, contents = reader.max_timestamps.get(base), view.log.contents()
    if known is not None and known.contents == contents:
        return known.found
    indexed = _last_indexed(reader, view)
    largest = indexed or _walk(reader, view, Walked(base, NO_TIMESTAMP, base, 0))[1:3]
    reader.max_timestamps[base] = LargestTimestamp(contents, largest)
    return largest


def _largest_in_active(reader: LogReader, view: SegmentView) -> tuple[int, int]:
    """The walk continues where the reader's last one ended (Kafka's segment keeps its maximum, too:
    LogSegment.maxTimestampAndOffsetSoFar); a changed list of segments, also by a truncation, begins
    from the index."""
    base, walked = view.base_offset, reader.walked
    if walked is None or walked.base_offset != base or walked.end > view.end:
        indexed = _last_indexed(reader, view)
        position = reader.find_position(base, indexed[1]) if indexed else 0
        walked = Walked(base, *(indexed or (NO_TIMESTAMP, base)), position)
    reader.walked = walked = _walk(reader, view, walked)
    return walked.timestamp, walked.last_offset


def _walk(reader: LogReader, view: SegmentView, walked: Walked) -> Walked:
    """The walk, continued up to the end of the view."""
    found = np.array([walked.timestamp, walked.last_offset, walked.end], np.int64)
    reader.check(search.largest_timestamp(view.log.fd, walked.end, view.end, found), view)
    return Walked(view.base_offset, *found.tolist())


def _first_record(
    reader: LogReader, view: SegmentView, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    position = _position(reader, view, timestamp, start_offset)
    while placed := _next_batch(reader, view, position, timestamp):
        if (found := first_record(placed.batch, timestamp, start_offset)) is not None:
            return TimestampOffset(*found, placed.batch.partition_leader_epoch)
        position = placed.position + placed.batch.size
    return None


def _position(reader: LogReader, view: SegmentView, timestamp: int, start_offset: int) -> int:
    """A batch start before which no record from a log start on reaches a timestamp."""
    entry = np.zeros(2, np.int64)
    index = reader.index(view.base_offset, files.TIME_INDEX)
    slot = search.find_time(index.fd, index.size(), timestamp, entry) if index else -1
    offset = view.base_offset + int(entry[1]) if slot >= 0 else view.base_offset
    return reader.find_position(view.base_offset, max(offset, start_offset))


def _next_batch(reader: LogReader, view: SegmentView, position: int, timestamp: int) -> PlacedBatch | None:
    """The first batch from a batch start on that reaches a timestamp, read whole."""
    place = FoundPlace.row()
    found = search.locate_time(view.log.fd, position, view.end, timestamp, place)
    reader.check(found, view)
    if found != Located.FOUND:
        return None
    at = batch_position(view.base_offset, place)
    return PlacedBatch(at.segment_base, at.position, read_batch(view.log, at.position, at.size))
