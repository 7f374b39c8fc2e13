"""Messages of compaction: the cleaner to control, and through control to the IO worker that owns
the log. All are called.

Part of the contract in `messages.py`.
"""

import struct

from msgspec import Struct

from kbroker.config.topic import TopicConfig

_LAST = struct.Struct("=qqq")

# --- cleaner -> control ----------------------------------------------------------------------------


class BrokerSettings(Struct, frozen=True, array_like=True, tag=True):
    """Called; replied with the dynamic broker settings as a dict of strings by Kafka name."""


class AskWorker(Struct, frozen=True, array_like=True, tag=True):
    """A call that control forwards. Replied by the worker; NOT_LEADER_OR_FOLLOWER without one."""

    worker: int
    body: "CleanableLogs | BeginCleaning | SwapSegments | EndCleaning"


# --- cleaner -> io, by AskWorker -------------------------------------------------------------------


class CleanableLogs(Struct, frozen=True, array_like=True, tag=True):
    """Replied with a tuple of CleanableLog: the compacted logs of the worker that are not empty."""


class CleanableLog(Struct, frozen=True, array_like=True):
    """The dirtiness of a log. ratio: cleanable bytes / (clean + cleanable bytes). due: dirty
    enough, or max.compaction.lag.ms has passed."""

    slot: int
    generation: int
    ratio: float
    due: bool


class BeginCleaning(Struct, frozen=True, array_like=True, tag=True):
    """Replied with a CleaningJob, None when there is nothing to clean, or no longer."""

    slot: int
    generation: int


class ClosedSegment(Struct, frozen=True, array_like=True):
    """A segment that is not appended to any more. size: of its .log; modified_ms: of the same."""

    base_offset: int
    size: int
    modified_ms: int


class CleaningJob(Struct, frozen=True, array_like=True):
    """A cleaning job. segments: all closed ones up to `upper`, oldest first, the clean part
    included. first_dirty: end of the clean part. upper: base of the first segment that must not be
    cleaned yet. last_records: packed id, last data offset (-1: none) and epoch of each active
    producer, whose last batch must stay: there may be very many."""

    slot: int
    generation: int
    topic: str
    partition: int
    folder: str
    first_dirty: int
    upper: int
    segments: tuple[ClosedSegment, ...]
    last_records: bytes
    config: TopicConfig

    def last_by_producer(self) -> dict[int, tuple[int, int]]:
        """Last data offset and epoch by producer id."""
        return {number: (last, epoch) for number, last, epoch in _LAST.iter_unpack(self.last_records)}


class SwapSegments(Struct, frozen=True, array_like=True, tag=True):
    """Put a cleaned segment, which is on disk, in the place of others. replaced: (base offset,
    size, inode of the .log) of neighbouring segments; the cleaned one has the first one's base
    offset. inode, size: of its .log. Replied with whether it was done: not when the log has changed
    meanwhile."""

    slot: int
    generation: int
    replaced: tuple[tuple[int, int, int], ...]
    inode: int
    size: int
    max_timestamp: int
    modified_ms: int


class EndCleaning(Struct, frozen=True, array_like=True, tag=True):
    """Everything below first_dirty is clean. Replied with nothing."""

    slot: int
    generation: int
    first_dirty: int
