"""Names in a log directory (Kafka's LogFileUtils and LocalLog), the segments in a partition folder,
and its sync."""

import os
import re
from collections.abc import Iterable

from msgspec import Struct

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETED = ".deleted"  # after a file name: removed after file.delete.delay.ms
CLEANED = ".cleaned"  # being written by compaction
SWAP = ".swap"  # complete result of compaction, about to replace segments

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLOSED_LOGS = ".kbroker-closed-logs-"  # and the number of an IO worker
BOOT_MARK = ".kbroker-boot"
LOCK = ".lock"

DELETE_FOLDER = "-delete"
FUTURE_FOLDER = "-future"
STRAY_FOLDER = "-stray"
MAX_NAME_BYTES = 255
MAX_PARTITION_INDEX = 1_000_000
"""No topic of one host has so many partitions: a folder of a higher number is not of a topic."""

_DATED = re.compile(r"^(\S+)-(\d+)\.(\S+)(-delete|-future|-stray)$")
_PLAIN = re.compile(r"^(\S+)-(\d+)$")


def file_name(base_offset: int, suffix: str) -> str:
    """20 digits and a suffix: ``00000000000000000042.log``."""
    return f"{base_offset:020d}{suffix}"


def path(folder: str, base_offset: int, suffix: str) -> str:
    """Path of a segment's file."""
    return f"{folder}/{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Offset in a file name such as ``00000000000000000042.timeindex``; None for other names, also
    of a number that is no offset."""
    digits = name[: name.find(".")] if "." in name else ""
    if len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset < 1 << 63 else None


class PartitionFolder(Struct, frozen=True):
    """A parsed folder name. suffix: "" or one of DELETE_FOLDER, FUTURE_FOLDER, STRAY_FOLDER."""

    topic: str
    partition: int
    suffix: str = ""


def folder_name(topic: str, partition: int) -> str:
    """``<topic>-<partition>``."""
    return f"{topic}-{partition}"


def log_dir_of(folder: str) -> str:
    """The log dir of a partition's folder."""
    return folder.rpartition("/")[0]


def dated_folder_name(topic: str, partition: int, unique: str, suffix: str) -> str:
    """``<topic>-<partition>.<unique><suffix>``, the topic cut so that the name fits into 255
    bytes."""
    tail = f"-{partition}.{unique}{suffix}"
    return topic[: MAX_NAME_BYTES - len(tail)] + tail


def is_dated(name: str, topic: str, partition: int, suffix: str) -> bool:
    """Whether `dated_folder_name` makes this name of the partition. Of long topics with the same
    beginning, too."""
    found = _DATED.match(name)
    return found is not None and name == dated_folder_name(topic, partition, found[3], suffix)


def parse_folder(name: str) -> PartitionFolder | None:
    """Topic and partition of a folder name, None when it is no partition's."""
    if found := _DATED.match(name):
        return PartitionFolder(found[1], int(found[2]), found[4])
    if found := _PLAIN.match(name):
        return PartitionFolder(found[1], int(found[2]))
    return None


class SegmentFile(Struct, frozen=True):
    """One ``.log`` file of a folder. inode: distinguishes a file from a later one of the same
    name."""

    base_offset: int
    inode: int


def list_segments(folder: str) -> list[SegmentFile]:
    """The ``.log`` files of a partition folder in order of base offset. Raises
    FileNotFoundError."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(LOG) and (base := base_offset_of(name)) is not None:
                found.append(SegmentFile(base, entry.inode()))
    return sorted(found, key=lambda segment: segment.base_offset)


def list_snapshots(folder: str) -> list[int]:
    """Offsets of the producer snapshots of a folder, ascending."""
    with os.scandir(folder) as entries:
        return snapshots_among([entry.name for entry in entries])


def snapshots_among(names: Iterable[str]) -> list[int]:
    """Offsets of the producer snapshots among a folder's names, ascending."""
    return sorted(
        offset for name in names if name.endswith(SNAPSHOT) and (offset := base_offset_of(name)) is not None
    )


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of the bytes: a call may write a part of them, as on a disk that becomes full.
    Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def pwrite_all(fd: int, data: bytes, at: int) -> None:
    """As `write_all`, at a position."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written


def sync_file(path: str) -> None:
    """fsync of a file by its path."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Make creations, renames and removals in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
