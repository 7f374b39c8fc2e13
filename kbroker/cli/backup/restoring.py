"""Restores a point into a log dir on which kbroker starts: segments, checkpoints and metadata,
verified while they are written.

Files are written into a folder beside the target, which is renamed at the end: an interrupted
restore continues with the files it has. A backup has no indexes and no producer state: the first
start rebuilds them from the segments and checks every record.
"""

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path

from kbroker.cli.backup.place import Backups
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.control.kraft.metadata_folder import FOLDER
from kbroker.control.kraft.snapshot import SnapshotId
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.io.files.meta_properties import MetaProperties, write
from kbroker.log import checkpoint, files
from kbroker.protocol.kafka_uuid import parse_uuid

RESTORING = ".restoring"


def restore(
    repository: Backups,
    point: Point,
    target: Path,
    topics: Collection[str],
    advance: Callable[[int], None],
) -> list[PartitionFiles]:
    """Create the log dir `target`, which must not exist; returns its partitions. topics: empty
    means all.

    Raises CommandFailed, UsageFailed, OSError."""
    if target.exists() and any(target.iterdir()):
        raise UsageFailed(f"{target} is not empty")
    if missing := sorted(set(topics) - {one.topic for one in point.partitions}):
        raise CommandFailed(f"not in the backup of {point.name}: {', '.join(missing)}")
    chosen = [one for one in point.partitions if not topics or one.topic in topics or one.topic in INTERNAL]
    folder = target.with_name(target.name + RESTORING)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for partition in chosen:
        _partition(repository, partition, folder, advance)
    starts = {(one.topic, one.index): one.log_start for one in chosen if one.log_start}
    checkpoint.write_offsets(str(folder / files.LOG_START_OFFSETS), starts)
    metadata = folder / FOLDER
    metadata.mkdir(mode=0o700, exist_ok=True)
    _file(repository, point.metadata, metadata / SnapshotId(1, 1).file_name)
    write(str(folder), MetaProperties(point.cluster_id, point.node_id, point.directory_id))
    if target.exists():
        target.rmdir()
    folder.rename(target)
    files.sync_folder(str(target.parent))
    return chosen


def _partition(
    repository: Backups, one: PartitionFiles, log_dir: Path, advance: Callable[[int], None]
) -> None:
    folder = log_dir / files.folder_name(one.topic, one.index)
    folder.mkdir(mode=0o700, exist_ok=True)
    for segment in one.segments:
        _file(repository, segment, Path(files.path(str(folder), segment.base_offset, files.LOG)))
        advance(segment.size)
    if not one.segments:  # the offsets continue where they were
        Path(files.path(str(folder), one.high_watermark, files.LOG)).touch(0o600)
    checkpoint.write_leader_epochs(str(folder), one.epochs)
    checkpoint.write_topic_id(str(folder), parse_uuid(one.topic_id))


def _file(repository: Backups, segment: SegmentFile, place: Path) -> None:
    if place.exists() and place.stat().st_size == segment.size:
        with open(place, "rb") as restored:
            if hashlib.file_digest(restored, "sha256").hexdigest() == segment.sha256:
                return
    repository.fetch(segment, place)
