"""The producers of a partition (Kafka's ProducerStateEntry and BatchMetadata as values), and their
snapshots at an offset (Kafka's ProducerSnapshot message version 1).

``<offset>.snapshot``: version int16, CRC-32C uint32 of all that follows it, array (int32 count) of producer id int64,
epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
coordinator epoch int32, current transaction's first offset int64; big-endian.

Kafka's format holds only the last batch of a producer, but a producer with several requests in
flight may repeat any of the last five. When some producer has more than one batch, the earlier ones
follow Kafka's message: MAGIC, then to the end of the file producer id int64, base sequence int32,
last sequence int32, base offset int64, last offset int64, timestamp int64, a producer's oldest
first. The CRC covers them; Apache Kafka reads its own fields and leaves the rest
(ProducerStateManager.readSnapshot), and its snapshots have nothing there.
"""

import os
import struct
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from kbroker.ipc.crash_point import crash_point, is_armed
from kbroker.kernels.crc32c import crc32c
from kbroker.log import files

NO_SEQUENCE = -1
SEQUENCES = 1 << 31  # sequences wrap from 2^31 - 1 to 0
MAX_BATCHES = 5  # a retry of one of the last five batches is recognised


class BatchMetadata(Struct, frozen=True):
    """One appended batch: sequences and offsets are inclusive, timestamp is its largest (ms)."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int

    @property
    def offset_delta(self) -> int:
        """Last offset - base offset, as snapshots store it."""
        return self.last_offset - self.base_offset


class ProducerEntry(Struct, frozen=True):
    """State of one producer id on one partition.

    coordinator_epoch: of the last transaction marker, -1 before any. last_timestamp: ms, of the
    last batch or marker; the entry expires by it. current_txn_first_offset: -1 outside a
    transaction. batches: oldest first, at most MAX_BATCHES; empty after a marker of a new epoch.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = -1
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """-1 when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the last batch, -1 when no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1


def decrement_sequence(sequence: int, by: int) -> int:
    """Sequence ``by`` before, wrapping below 0 (DefaultRecordBatch.decrementSequence)."""
    return sequence - by if sequence >= by else SEQUENCES - (by - sequence)


VERSION = 1
HEADER = struct.Struct(">hI")
COUNT = struct.Struct(">i")
ENTRY = struct.Struct(">qhiqiqiq")
MAGIC = b"batches\1"
EARLIER = struct.Struct(">qiiqqq")


class CorruptSnapshot(Exception):
    """A snapshot of an unknown version, a wrong length or a wrong CRC."""


def decode(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot file. Raises CorruptSnapshot."""
    if len(data) < HEADER.size + COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version}, only {VERSION} is known")
    if crc != crc32c(data[HEADER.size :]):
        raise CorruptSnapshot("the CRC does not match")
    count = COUNT.unpack_from(data, HEADER.size)[0]
    body = memoryview(data)[HEADER.size + COUNT.size :]
    if count < 0 or len(body) < count * ENTRY.size:
        raise CorruptSnapshot(f"{count} producers in {len(body)} bytes")
    entries = [_unpack(fields) for fields in ENTRY.iter_unpack(body[: count * ENTRY.size])]
    return _with_earlier(entries, body[count * ENTRY.size :])


def write(folder: str, offset: int, data: bytes, sync: bool) -> str:
    """Write ``<offset>.snapshot`` with these bytes; returns its path. Without sync the caller must
    sync it with the segment."""
    path = files.path(folder, offset, files.SNAPSHOT)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        if is_armed("snapshot: half written"):
            os.write(fd, data[: len(data) // 2])
            crash_point("snapshot: half written")
            os.lseek(fd, 0, os.SEEK_SET)
        files.write_all(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    return path


def read(folder: str, offset: int) -> list[ProducerEntry]:
    """The producers of ``<offset>.snapshot``. Raises CorruptSnapshot, FileNotFoundError."""
    with open(files.path(folder, offset, files.SNAPSHOT), "rb", buffering=0) as source:
        return decode(source.readall())


def strays(snapshots: list[int], segment_bases: Iterable[int]) -> list[int]:
    """Snapshots to remove: those at no segment's base, but for the newest one after the last
    segment's base (ProducerStateManager.removeStraySnapshots)."""
    bases = set(segment_bases)
    stray = [offset for offset in sorted(snapshots) if offset not in bases]
    if stray and bases and stray[-1] > max(bases):
        stray.pop()
    return stray


def _unpack(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first = fields
    batches: tuple[BatchMetadata, ...] = ()
    if offset >= 0:
        first = decrement_sequence(sequence, delta)
        batches = (BatchMetadata(first, sequence, offset - delta, offset, timestamp),)
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first, batches)


def _with_earlier(entries: list[ProducerEntry], trailer: memoryview) -> list[ProducerEntry]:
    """The entries with the batches of a trailer before their last ones."""
    if not trailer:
        return entries
    packed = trailer[len(MAGIC) :]
    if trailer[: len(MAGIC)] != MAGIC or len(packed) % EARLIER.size:
        raise CorruptSnapshot(f"{len(trailer)} bytes after the producers are of an unknown kind")
    earlier: dict[int, list[BatchMetadata]] = {}
    for producer_id, *fields in EARLIER.iter_unpack(packed):
        earlier.setdefault(producer_id, []).append(BatchMetadata(*fields))
    return [
        replace(entry, batches=(*earlier.get(entry.producer_id, ())[1 - MAX_BATCHES :], *entry.batches))
        for entry in entries
    ]
