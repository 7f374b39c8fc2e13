"""Restores a point into a log dir on which kbroker starts: segments, checkpoints and metadata,
verified while they are written.

Files are written into a folder beside the target, which is renamed at the end: an interrupted
restore continues with the files it has, and removes those of another restore. A backup has no
indexes and no producer state: the first
start rebuilds them from the segments and checks every record.
"""

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from kbroker.cli.backup.place import Backups, refuse_log_dir
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.failures import FEW_COMMANDS, CommandFailed, UsageFailed
from kbroker.cli.points_in_time import format_time
from kbroker.control.kraft.metadata_folder import FOLDER
from kbroker.control.kraft.snapshot import SnapshotId
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.io.files.log_dir import LogDir
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
    target = target.resolve()  # a link, as systemd's /var/lib/kbroker, remains
    _check_target(target)
    chosen = _chosen(point, topics)
    folder = target.with_name(target.name + RESTORING)
    _check_begun(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        _check_contents(folder)
        try:
            _fill(repository, point, chosen, folder, advance)
            LogDir(str(folder)).sync()  # also what an interrupted restore has left in memory
        except OSError as error:
            raise CommandFailed(
                f"{error.filename or folder}: {error.strerror}; the same command continues, with the files in {folder}"
            ) from error
        if target.exists():
            target.rmdir()
        folder.rename(target)
        files.sync_folder(str(target.parent))
    return chosen


def _check_target(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UsageFailed(f"{target} is not a folder")
    if target.is_mount():  # another folder cannot be renamed to it
        raise UsageFailed(f"{target} is a mount point: give a folder in it, such as {target / 'kbroker'}")
    if target.exists() and any(target.iterdir()):
        raise UsageFailed(f"{target} is not empty: give a new or an empty folder")
    refuse_log_dir(target)


def _check_begun(folder: Path) -> None:
    """Files in it will be removed: it must be the folder of an interrupted restore. In /tmp another
    user may have made a link. Raises UsageFailed."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise UsageFailed(f"{folder} is not a folder: move it away")
    if status.st_uid != os.geteuid():
        raise UsageFailed(f"{folder} belongs to another user: run the command as this user, or move it away")


def _check_contents(folder: Path) -> None:
    """Raises UsageFailed for files in the folder's folders that no restore makes."""
    for place in folder.iterdir():
        if place.is_dir() and place.name != FOLDER:
            inside = [place] if place.is_symlink() else place.iterdir()
            if other := next((path for path in inside if not _may_be_restored(path)), None):
                raise UsageFailed(f"no restore wrote {other}: move {folder} away")


def _may_be_restored(file: Path) -> bool:
    known = (files.LEADER_EPOCH_CHECKPOINT, files.PARTITION_METADATA)
    named = file.suffix == files.LOG or file.name.removesuffix(".tmp") in known
    return named and file.is_file() and not file.is_symlink()


def _chosen(point: Point, topics: Collection[str]) -> list[PartitionFiles]:
    """The partitions of these topics, and of the coordinators'. Raises CommandFailed for a missing
    topic."""
    known = {one.topic for one in point.partitions}
    if missing := sorted(set(topics) - known):
        others = sorted(known - set(INTERNAL))
        has = f"; it has {', '.join(others)}" if 0 < len(others) <= FEW_COMMANDS else ""
        raise CommandFailed(f"not in the backup of {format_time(point.time_ms)}: {', '.join(missing)}{has}")
    return [one for one in point.partitions if not topics or one.topic in topics or one.topic in INTERNAL]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises CommandFailed while another restore fills it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CommandFailed(f"another restore fills {folder}: try again when that is done") from None
    finally:
        os.close(lock)


def _fill(
    repository: Backups,
    point: Point,
    chosen: Collection[PartitionFiles],
    folder: Path,
    advance: Callable[[int], None],
) -> None:
    _remove_others(folder, chosen)
    for partition in chosen:
        _partition(repository, partition, folder, advance)
    starts = {(one.topic, one.index): one.log_start for one in chosen if one.log_start}
    checkpoint.write_offsets(str(folder / files.LOG_START_OFFSETS), starts)
    metadata = folder / FOLDER
    metadata.mkdir(mode=0o700, exist_ok=True)
    _file(repository, point.metadata, metadata / SnapshotId(1, 1).file_name)
    write(str(folder), MetaProperties(point.cluster_id, point.node_id, point.directory_id))


def _remove_others(folder: Path, chosen: Collection[PartitionFiles]) -> None:
    """Remove files of an interrupted restore of another point or of other topics: the broker would
    serve them."""
    expected = {
        files.folder_name(one.topic, one.index): {
            files.file_name(base, files.LOG)
            for base in [segment.base_offset for segment in one.segments] or [one.high_watermark]
        }
        for one in chosen
    }
    for place in folder.iterdir():
        names = expected.get(place.name)
        if names is not None:
            for file in place.iterdir():
                if file.name not in names:
                    file.unlink()
        elif place.is_dir() and place.name != FOLDER:
            shutil.rmtree(place)


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
