"""A KRaft snapshot file: `<end offset>-<epoch>.checkpoint` in the folder of the metadata log
(KIP-630, KIP-853).

Batches as in a log, offsets from 0: control records with the header, and the quorum's voters where
a Kafka had them; the metadata records; a control record that ends the file. A Kafka that finds a
snapshot beyond its log's end drops the log and begins at the snapshot's end offset
(KafkaMetadataLog).
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from kbroker.control.kraft.records import SnapshotFooter, SnapshotHeader, framed
from kbroker.log import files
from kbroker.protocol.codec import encode
from kbroker.protocol.records import NewRecord, build_batch
from kbroker.protocol.schema import Struct

HEADER, FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 3, 4, 5, 6
"""Types of control records, in their keys."""
NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_KEY: Final = struct.Struct(">hh")
_PARTIAL: Final = ".checkpoint.part"
_RECORDS_A_BATCH: Final = 500


class SnapshotId(NamedTuple):
    """The offset after the last record that the snapshot includes, and that record's epoch."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The snapshot's file name."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


def control_type(key: bytes | None) -> int:
    """Type of a control record by its key; -1 for a key that is none."""
    return int(_KEY.unpack(key)[1]) if key is not None and len(key) == _KEY.size else -1


def build(messages: Iterable[Struct], voters: Sequence[NewRecord], epoch: int, now_ms: int) -> bytes:
    """The file's bytes. voters: control records of the quorum, as an earlier snapshot or log had
    them."""
    head = [_control(HEADER, SnapshotHeader(0, now_ms), now_ms), *voters]
    return b"".join(_batches(head, messages, epoch, now_ms))


def _batches(head: list[NewRecord], messages: Iterable[Struct], epoch: int, now_ms: int) -> Iterator[bytes]:
    yield build_batch(head, partition_leader_epoch=epoch, control=True)
    offset = len(head)
    left = iter(messages)
    while portion := list(islice(left, _RECORDS_A_BATCH)):
        records: list[NewRecord] = [(None, framed(message), (), now_ms) for message in portion]
        yield build_batch(records, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(records)
    foot = [_control(FOOTER, SnapshotFooter(), now_ms)]
    yield build_batch(foot, base_offset=offset, partition_leader_epoch=epoch, control=True)


def _control(kind: int, message: Struct, now_ms: int) -> NewRecord:
    return _KEY.pack(0, kind), encode(message, 0), (), now_ms


def write(folder: Path, snapshot: SnapshotId, data: bytes) -> Path:
    """Put the snapshot in place, then remove what it replaces: the log, earlier snapshots. Raises
    OSError.

    When this ends early, either the old files count or the new snapshot does: it lies beyond the
    old log's end."""
    folder.mkdir(mode=0o700, exist_ok=True)
    place = folder / snapshot.file_name
    partial = folder / (snapshot.file_name.removesuffix(".checkpoint") + _PARTIAL)
    with open(partial, "wb", opener=_private) as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(place)
    files.sync_folder(str(folder))
    for old in chain(folder.glob("*.checkpoint"), folder.glob("*.part"), _log_files(folder)):
        if old != place:
            old.unlink()
    files.sync_folder(str(folder))
    return place


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: it has credentials."""
    return os.open(path, flags, 0o600)


def _log_files(folder: Path) -> Iterator[Path]:
    """Segments and producer snapshots of the metadata log, and where its epochs began."""
    for path in folder.iterdir():
        if files.base_offset_of(path.name) is not None or path.name == files.LEADER_EPOCH_CHECKPOINT:
            yield path
