"""Decides which of a log's oldest segments are deleted: pure functions (Kafka's
UnifiedLog.deleteOldSegments), oldest first.

Each function returns a number of segments, counted from the oldest. That may be all segments of a
log; the active one is then rolled first. An empty active segment is never included.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from kbroker.config.topic import TopicConfig


class LogShape(Struct, frozen=True):
    """Base offset and size of the oldest segments, oldest first, and the offsets that bound
    deletion. log_end: the offset after the last of them. later_bytes: of segments after them; None:
    there are none, the last one is the active segment."""

    bases: Sequence[int]
    sizes: Sequence[int]
    log_start: int
    log_end: int
    high_watermark: int
    later_bytes: int | None = None

    def allowed(self) -> int:
        """The number of segments that may be deleted: none with records at or after the high
        watermark, and no empty active segment."""
        uppers = [*self.bases[1:], self.log_end]
        count = 0
        while count < len(uppers) and self.high_watermark >= uppers[count]:
            count += 1
        if count == len(self.bases) and self.later_bytes is None and self.sizes[-1] == 0:
            count -= 1
        return max(count, 0)


def keeps_all(
    oldest: LogShape, config: TopicConfig, now_ms: int, largest_timestamp: Callable[[int], int]
) -> bool:
    """Whether nothing of a log is deleted: its oldest segment decides. A worker may have ten
    thousand logs, and nearly all of them keep theirs."""
    if not oldest.allowed():
        return True
    surplus = config.delete and above_size(oldest, config.retention_bytes)
    aged = config.delete and too_old(oldest, config.max_age_ms, now_ms, largest_timestamp)
    return not (surplus or aged or below_log_start(oldest))


def below_log_start(shape: LogShape) -> int:
    """Segments that lie entirely below the log start (DeleteRecords), with any cleanup policy."""
    uppers = [*shape.bases[1:], *(() if shape.later_bytes is None else (shape.log_end,))]
    count = 0
    while count < len(uppers) and uppers[count] <= shape.log_start:
        count += 1
    return min(count, shape.allowed())


def above_size(shape: LogShape, retention_bytes: int) -> int:
    """The oldest segments without which the log still has at least retention.bytes; -1 keeps
    all."""
    surplus = sum(shape.sizes) + (shape.later_bytes or 0) - retention_bytes
    if retention_bytes < 0 or surplus < 0:
        return 0
    count, allowed = 0, shape.allowed()
    while count < allowed and surplus >= shape.sizes[count]:
        surplus -= shape.sizes[count]
        count += 1
    return count


def too_old(shape: LogShape, retention_ms: int, now_ms: int, largest_timestamp: Callable[[int], int]) -> int:
    """Leading segments whose largest timestamp is more than retention.ms ago; -1 keeps all.

    largest_timestamp(n) is asked only as far as needed."""
    if retention_ms < 0:
        return 0
    count, allowed = 0, shape.allowed()
    while count < allowed and now_ms - largest_timestamp(count) > retention_ms:
        count += 1
    return count
