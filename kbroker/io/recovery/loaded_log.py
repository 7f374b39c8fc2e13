"""A loaded log, and its saved state of a clean shutdown, with which it opens without being read.

Each IO worker writes one file in each log dir: a line of NAME, VERSION and the CRC-32C of the rest,
then JSON, an array of ClosedLog. The supervisor removes these files together with the clean
shutdown marker, so each is used by one start only. They are hints: a log is loaded from its files
if it is not listed, or if the modification times or lengths of its folder or active segment have
changed. Apache Kafka has no such file and ignores these.
"""

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import astuple

from kbroker.config.topic import TopicConfig
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.io.files.segment import ActiveState, Segment
from kbroker.io.recovery.leftovers import has_leftovers
from kbroker.kernels.crc32c import crc32c
from kbroker.log import files
from kbroker.log.checkpoint import TopicPartition, replace_file

log = logging.getLogger(__name__)

NAME = b"kbroker-closed-logs"
VERSION = b"1"
MAX_PRODUCERS = 100  # of one log; the snapshot of a log with more is quicker to read

Batch = tuple[int, int, int, int, int]
Producer = tuple[int, int, int, int, int, list[Batch]]
Segments = list[tuple[int, int, int, int | None, int | None]]


class TrustedEnd(NamedTuple):
    """End of a log as its last writer published it, in the same boot of the host: every byte
    before it is whole (in the page cache, if not on disk). From Slot.ACTIVE_BASE,
    ACTIVE_END, LOG_END and LOG_START."""

    active_base: int
    position: int
    next_offset: int
    log_start: int = 0


class LoadRequest(Struct, frozen=True):
    """Request to load a log. With write.caching=false all of it is on disk before any process sees
    it.

    clean: the last shutdown was clean. recovery_point: everything below is on disk. log_start:
    checkpointed log start. same_boot: all of it was written or checked in this boot of the host.
    progress: called with scanned bytes. known_mark: the high watermark is not below it at the
    beginning; None: it is the log's end.
    """

    folder: str
    config: TopicConfig
    clean: bool
    recovery_point: int
    log_start: int
    now_ms: int
    trusted_end: TrustedEnd | None = None
    producer_expiration_ms: int = 86_400_000
    progress: Callable[[int], None] | None = None
    same_boot: bool = False
    known_mark: int | None = None


class LoadedLog(Struct):
    """A log ready to be served: closed segments by base offset, the active one's state, epochs,
    producers and checkpoints.

    ended: see `ProducerReplay`. deleted: renamed files that are due for removal after
    file.delete.delay.ms. truncated_bytes: cut from a torn tail.
    """

    closed: list[Segment]
    active: ActiveState
    log_start: int
    recovery_point: int
    epochs: LeaderEpochFileCache
    producers: list[ProducerEntry] = field(default_factory=list)
    first_unstable: int = -1
    ended: list[tuple[int, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    truncated_bytes: int = 0
    scanned_bytes: int = 0
    has_aborted: bool = False  # whether a segment has a transaction index


# --- saved at a clean shutdown -------------------------------------------------------------------------------


class ClosedLog(NamedTuple):
    """One log as it was closed. left: see `_left`. closed, active: fields of Segment and
    ActiveState. epochs: (epoch, start offset). producers: fields of ProducerEntry, the last of them
    those of BatchMetadata."""

    topic: str
    partition: int
    topic_id: str
    left: list[int]
    closed: Segments
    active: list[int]
    log_start: int
    epochs: list[tuple[int, int]]
    producers: list[Producer]


def describe(
    key: TopicPartition, folder: str, topic_id: bytes, names: Collection[str], loaded: LoadedLog
) -> ClosedLog | None:
    """The saved state of a log whose files were just closed; None if the next start must read them.
    names: files in its folder. loaded: as it would be loaded. Raises OSError."""
    indexed = any(name.endswith(files.TXN_INDEX) for name in names)
    if indexed or loaded.first_unstable >= 0 or len(loaded.producers) > MAX_PRODUCERS or has_leftovers(names):
        return None
    return ClosedLog(
        *key,
        topic_id.hex(),
        _left(folder, loaded.active.base_offset),
        [astuple(segment) for segment in loaded.closed],
        list(astuple(loaded.active)),
        loaded.log_start,
        list(loaded.epochs.entries),
        [_described(entry) for entry in loaded.producers],
    )


def _described(entry: ProducerEntry) -> Producer:
    return (
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.current_txn_first_offset,
        [astuple(batch) for batch in entry.batches],
    )


def write_closed(log_dir: str, worker: int, logs: Iterable[ClosedLog]) -> None:
    """Write the file of one IO worker's logs in a log dir. Raises OSError."""
    body = json.dumps(list(logs), separators=(",", ":")).encode()
    head = b"%s %s %08x\n" % (NAME, VERSION, crc32c(body))
    replace_file(f"{log_dir}/{files.CLOSED_LOGS}{worker}", head + body)


def parse_closed(content: bytes) -> dict[TopicPartition, ClosedLog]:
    """Logs of one file by (topic, partition); none of a file that is damaged or of another
    version."""
    head, _, body = content.partition(b"\n")
    if head != b"%s %s %08x" % (NAME, VERSION, crc32c(body)):
        log.warning("the saved state of the logs is damaged; they are recovered from their files")
        return {}
    found = [ClosedLog(*fields) for fields in json.loads(body)]
    return {(each.topic, each.partition): each for each in found}


def restore(
    closed: ClosedLog,
    folder: str,
    topic_id: bytes,
    recovery_point: int,
    log_start: int,
    expired_before_ms: int,
) -> LoadedLog | None:
    """The log as it was saved; None when its files have changed since. recovery_point, log_start:
    of the checkpoints, 0 where they know none. expired_before_ms: producers whose last timestamp is
    not above it are forgotten."""
    active = ActiveState(*closed.active)
    first_base = closed.closed[0][0] if closed.closed else active.base_offset
    start = closed.log_start if closed.log_start > first_base else 0
    if closed.topic_id != topic_id.hex() or (recovery_point, log_start) != (active.next_offset, start):
        return None
    try:
        if _left(folder, active.base_offset) != closed.left:
            return None
    except OSError:
        return None
    producers = [_producer(fields) for fields in closed.producers]
    return LoadedLog(
        closed=[Segment(*fields) for fields in closed.closed],
        active=active,
        log_start=closed.log_start,
        recovery_point=active.next_offset,
        epochs=LeaderEpochFileCache(folder, [(epoch, start) for epoch, start in closed.epochs]),
        producers=[entry for entry in producers if entry.last_timestamp > expired_before_ms],
    )


def _left(folder: str, active_base: int) -> list[int]:
    """Time of change of a folder, then time and length of each file of its active segment (ns,
    bytes)."""
    found = [os.stat(folder).st_mtime_ns]  # noqa: PTH116  a tenth of Path's cost, four times for each log
    for suffix in (files.LOG, files.INDEX, files.TIME_INDEX):
        status = os.stat(files.path(folder, active_base, suffix))  # noqa: PTH116
        found += status.st_mtime_ns, status.st_size
    return found


def _producer(fields: Producer) -> ProducerEntry:
    producer_id, epoch, coordinator_epoch, timestamp, txn_first, batches = fields
    known = tuple(BatchMetadata(*batch) for batch in batches)
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first, known)
