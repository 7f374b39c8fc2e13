"""The newest records of a log that no process has open, from its files."""

import logging
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from kbroker.kernels.crc32c import crc32c
from kbroker.kernels.memory import INT64_MAX
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader, SegmentView
from kbroker.log.walk import PlacedBatch, batches_of
from kbroker.protocol import batch_layout as b

log = logging.getLogger(__name__)

FILES = 8  # open at a time: those of one segment


class LogTail(NamedTuple):
    """The leader epoch of a log's last batch, -1 without one, and the offset after it. A larger one
    is of newer records. is_whole: no bytes follow, such as a damaged batch, and more after it."""

    epoch: int
    end: int
    is_whole: bool = True


UNKNOWN = LogTail(-2, -1, False)
"""The tail of a log that cannot be read: there is no older one."""


def tail_of(folder: str) -> LogTail:
    """The tail of a log; UNKNOWN if it cannot be read, which is logged."""
    opened = OpenFiles(FILES)
    try:
        return _tail(LogReader(folder, opened))
    except (CorruptLog, OSError) as error:
        log.warning("the end of %s cannot be read: %s", folder, error)
        return UNKNOWN
    finally:
        opened.forget_folder(folder)


def is_part_of(one: LogTail, other: LogTail) -> bool:
    """Whether a log has no record that another copy of it lacks, as far as their tails show."""
    return one.is_whole and one.epoch <= other.epoch and one.end <= other.end


def _tail(reader: LogReader) -> LogTail:
    bases = reader.base_offsets()
    is_whole = True
    for base in reversed(bases):  # the last segment may be empty
        view = next(reader.views(base, *WHOLE_LOG))
        last = _last_batch(reader, view)
        is_whole &= view.end == (0 if last is None else last.position + last.batch.size)
        if last is not None:
            end = max(last.batch.last_offset + 1, bases[-1])
            return LogTail(last.batch.partition_leader_epoch, end, is_whole)
    return LogTail(-1, bases[-1] if bases else 0, is_whole)


def _last_batch(reader: LogReader, view: SegmentView) -> PlacedBatch | None:
    """The last whole batch of a segment: from the last one that its index has, if that is there."""
    with suppress(CorruptLog):
        indexed = list(batches_of(view, reader.find_position(view.base_offset, INT64_MAX)))
        if indexed and crc32c(indexed[0].batch.data[b.ATTRIBUTES :]) == indexed[0].batch.crc:
            return indexed[-1]
    for last in deque(batches_of(view), 1):
        return last
    return None
