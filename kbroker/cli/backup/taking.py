"""Takes a backup: stores closed segments that are new, and the last segments up to the point in
time."""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from kbroker.cli.backup.cut import Cut
from kbroker.cli.backup.place import Backups
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.failures import CommandFailed
from kbroker.cli.partitions import Partition
from kbroker.control.kraft.export import NEWEST, portable
from kbroker.control.store.store import FILE_NAME, Store, StoreError
from kbroker.io.files.meta_properties import MetaProperties, MetaPropertiesError, read
from kbroker.log import files
from kbroker.log.checkpoint import known_leader_epochs, topic_id_of
from kbroker.log.open_files import OpenFile, OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from kbroker.protocol.kafka_uuid import format_uuid, random_uuid

_ATTEMPTS: Final = 50


class Changed(Exception):
    """Compaction replaced segments while they were copied."""


def take(
    repository: Backups,
    cut: Cut,
    log_dirs: Sequence[str],
    folders: Mapping[Partition, str],
    advance: Callable[[int], None],
) -> Point:
    """Store the files of the point; the caller adds the point. folders: the folder of each
    partition's leader log.

    advance: called with the number of bytes of each stored file. Raises CommandFailed, OSError."""
    identity = _identity(log_dirs[0], cut.cluster_id)
    directory_id = random_uuid()
    metadata = repository.store_bytes(_metadata(log_dirs, identity.node_id, directory_id, cut.time_ms))
    partitions = []
    for partition, end in sorted(cut.ends.items()):
        if (folder := folders.get(partition)) is not None:
            kept = _partition(repository, partition, folder, (cut.starts.get(partition, 0), end), advance)
            partitions += [] if kept is None else [kept]
    return Point(cut.time_ms, identity.cluster_id, identity.node_id, directory_id, metadata, partitions)


def _identity(log_dir: str, cluster_id: str) -> MetaProperties:
    """meta.properties of a log dir. Raises CommandFailed if it belongs to another cluster than that
    of the connected broker."""
    try:
        found = read(log_dir)
    except MetaPropertiesError as error:
        raise CommandFailed(str(error)) from None
    if found is None:
        raise CommandFailed(f"{log_dir}: no meta.properties; run the backup on the broker's host")
    if found.cluster_id != cluster_id:
        raise CommandFailed(
            f"{log_dir} on this host belongs to cluster {found.cluster_id}, the broker to {cluster_id}: run the backup "
            "on the broker's host"
        )
    return found


def _metadata(log_dirs: Iterable[str], node_id: int, directory_id: str, now_ms: int) -> bytes:
    """Topics, settings, quotas and users from the newest copy of the store."""
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for number, path in enumerate(path for one in log_dirs if (path := Path(one, FILE_NAME)).exists()):
            copies.append(_copied(path, Path(folder, f"{number}.db")))
        if not copies:
            raise CommandFailed(f"no {FILE_NAME} in {', '.join(log_dirs)}: `kbroker backup` needs a kbroker")
        try:
            return portable(max(copies, key=lambda copy: copy.version), node_id, directory_id, NEWEST, now_ms)
        finally:
            for store in copies:
                store.close()


def _copied(path: Path, copy: Path) -> Store:
    """A copy of a store that a broker uses. Raises CommandFailed."""
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as one,
            closing(sqlite3.connect(copy)) as other,
        ):
            one.backup(other)
        return Store(copy, reserve=False)
    except (sqlite3.Error, StoreError) as error:
        raise CommandFailed(f"{path}: {error}; is this its broker's user, with the same kbroker?") from None


def _partition(
    repository: Backups,
    partition: Partition,
    folder: str,
    bounds: tuple[int, int],
    advance: Callable[[int], None],
) -> PartitionFiles | None:
    """Store one partition; None if it was deleted meanwhile. Raises CommandFailed, OSError."""
    topic_id = topic_id_of(folder)
    for _ in range(_ATTEMPTS):
        try:
            epochs = [(epoch, start) for epoch, start in known_leader_epochs(folder) if start < bounds[1]]
            segments = _segments(repository, folder, bounds[1], advance)
        except (Changed, FileNotFoundError):
            if not Path(folder).is_dir():
                return None
            continue
        found = topic_id_of(folder)
        if topic_id is None and found is None and Path(folder).is_dir():
            raise CommandFailed(
                f"{folder} has no readable {files.PARTITION_METADATA}: the backup would lack this partition"
            )
        if topic_id is None or found != topic_id:
            return None
        first = segments[0].base_offset if segments else bounds[1]
        text = format_uuid(topic_id)
        return PartitionFiles(*partition, text, max(bounds[0], first), bounds[1], segments, epochs)
    raise CommandFailed(f"{folder}: its segments changed during each of {_ATTEMPTS} attempts to copy them")


def _segments(
    repository: Backups, folder: str, end: int, advance: Callable[[int], None]
) -> list[SegmentFile]:
    """All segments below `end`. Raises Changed, FileNotFoundError if the files have changed, and
    Changed during a swap: its result may be listed beside segments that it replaces, and a start
    would cut the restored log where the two overlap."""
    open_files = OpenFiles()
    reader = LogReader(folder, open_files)
    listed = {one.base_offset: one.inode for one in files.list_segments(folder)}
    last_base, last_bytes = _end(reader, end)
    stored = []
    for base in sorted(base for base in listed if base <= last_base):
        log = open_files.get(folder, base, files.LOG)
        if log.inode != listed[base]:
            raise Changed
        size = last_bytes if base == last_base else log.size()
        if size:
            stored.append(_segment(repository, folder, base, log, size, whole=base != last_base))
        advance(size)
    # before the list: of a swap that has ended the replaced segments are gone now
    if any(path.name.endswith(files.LOG + files.SWAP) for path in Path(folder).iterdir()):
        raise Changed
    now = {one.base_offset: one.inode for one in files.list_segments(folder)}
    first = min(now, default=0)
    if any(now.get(base) != listed[base] for base in listed if base >= first and base <= last_base):
        raise Changed
    return stored


def _segment(
    repository: Backups, folder: str, base: int, log: OpenFile, size: int, *, whole: bool
) -> SegmentFile:
    if not whole:
        return SegmentFile(base, size, repository.store(log.fd, size))
    status = os.fstat(log.fd)
    key = f"{folder}/{base}:{status.st_ino}:{size}:{status.st_mtime_ns}"
    sha256 = repository.known(key, size)
    if sha256 is None:
        sha256 = repository.store(log.fd, size, whole=True)
        repository.note(key, sha256)
    return SegmentFile(base, size, sha256)


def _end(reader: LogReader, end: int) -> tuple[int, int]:
    """Base offset of the segment that holds the last record below `end`, and the byte after it; -1
    without one."""
    bases = [base for base in reader.base_offsets() if base < end]
    for start in [
        end - 1,
        *reversed(bases),
    ]:  # earlier segments only matter if compaction removed the last records
        found = None
        for placed in walk(reader, max(start, 0)):
            if placed.batch.base_offset >= end:
                break
            found = placed.segment_base, placed.position + placed.batch.size
        if found is not None:
            return found
    return -1, 0
