"""Small text files that are replaced as a whole: offset and leader epoch checkpoints,
partition.metadata.

Formats are Kafka's (CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile,
PartitionMetadataFile), version 0.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.log import files
from kbroker.protocol.kafka_uuid import format_uuid, parse_uuid

log = logging.getLogger(__name__)

VERSION = 0
PIECE = 1 << 16
TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]
Changes = Mapping[TopicPartition, int | None]
"""New offsets of entries; None drops an entry."""
Rows = list[list[str]]


class CorruptCheckpoint(Exception):
    """A checkpoint file does not parse; the text names file and line."""


def replace_file(path: str, data: bytes, sync: bool = True) -> None:
    """Write a file so that after a crash it is the old or the new one: tmp, fsync, rename, fsync of
    the folder.

    sync=False only for what can be rebuilt: after a power cut such a file may be missing or empty.
    One that is not there yet is written in its place then, because a rename is what new partitions
    would wait for longest."""
    if not sync and _write_new(path, data):
        return
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        files.write_all(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    crash_point("checkpoint: temporary file written")
    Path(temporary).replace(path)
    crash_point("checkpoint: renamed")
    if sync:
        files.sync_folder(str(Path(path).parent))


def _write_new(path: str, data: bytes) -> bool:
    """Write a file that is not there yet; False when it is."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        if os.write(fd, data) == len(data):
            return True
    finally:
        os.close(fd)
    return False


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """(topic, partition) to offset; empty when there is no file. Raises CorruptCheckpoint."""
    found: dict[TopicPartition, int] = {}
    for topic, partition, offset in _read(path, 3):
        found[topic, _int(path, partition)] = _int(path, offset, 64)
    return found


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint as a whole."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    _write(path, lines)


def entries(path: str) -> frozenset[str]:
    """``<topic> <partition>`` of each entry of an offset checkpoint. Offsets are not parsed: there
    may be thousands. Raises OSError."""
    try:
        lines = _text(path).splitlines()[2:]
    except (FileNotFoundError, CorruptCheckpoint):
        return frozenset()
    return frozenset(line.rpartition(" ")[0] for line in lines)


def update_offsets(
    path: str,
    changed: Changes | Callable[[Offsets], Changes],
    dropped: Iterable[TopicPartition] = (),
) -> None:
    """Change some entries of an offset checkpoint. Several IO workers share a log dir and so its
    checkpoints: the folder is locked meanwhile, also while `changed` is called with the offsets in
    the file. A file that does not parse counts as empty, as in Kafka."""
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            offsets = read_offsets(path)
        except CorruptCheckpoint:
            offsets = {}
        before = dict(offsets)
        for partition in dropped:
            offsets.pop(partition, None)
        for partition, offset in (changed(before) if callable(changed) else changed).items():
            if offset is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = offset
        if offsets != before or not Path(path).exists():
            write_offsets(path, offsets)
    finally:
        os.close(folder)


def read_leader_epochs(folder: str) -> list[tuple[int, int]]:
    """(epoch, start offset) in the file's order; empty when there is none. Raises
    CorruptCheckpoint."""
    path = f"{folder}/{files.LEADER_EPOCH_CHECKPOINT}"
    return [(_int(path, epoch), _int(path, start, 64)) for epoch, start in _read(path, 2)]


def known_leader_epochs(folder: str) -> list[tuple[int, int]]:
    """As `read_leader_epochs`; empty without a readable checkpoint. Raises OSError if the next try
    may be able to read it."""
    try:
        return read_leader_epochs(folder)
    except CorruptCheckpoint:
        pass
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
    return []


def write_leader_epochs(folder: str, epochs: Sequence[tuple[int, int]], sync: bool = True) -> None:
    """Replace leader-epoch-checkpoint."""
    _write(f"{folder}/{files.LEADER_EPOCH_CHECKPOINT}", (f"{epoch} {start}" for epoch, start in epochs), sync)


def read_topic_id(folder: str) -> bytes | None:
    """The 16 bytes of the topic id in partition.metadata, None when there is none or it is empty
    (see `replace_file`). Raises CorruptCheckpoint."""
    path = f"{folder}/{files.PARTITION_METADATA}"
    try:
        lines = _text(path).splitlines()
    except FileNotFoundError:
        return None
    if not lines:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != str(VERSION) or "topic_id" not in fields:
        raise CorruptCheckpoint(f"{path}: neither version {VERSION} nor a topic_id in {lines}")
    try:
        topic_id = parse_uuid(fields["topic_id"])
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error
    if not any(topic_id):
        raise CorruptCheckpoint(f"{path}: the topic id is zero, which no topic has")
    return topic_id


def topic_id_of(folder: str) -> bytes | None:
    """As `read_topic_id`; None also when the file is damaged or the disk cannot read it, which is
    logged. Raises OSError if the next try may be able to read it."""
    try:
        return read_topic_id(folder)
    except CorruptCheckpoint as error:
        log.warning("%s", error)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        log.warning("%s has no readable %s: %s", folder, files.PARTITION_METADATA, error)
    return None


def write_topic_id(folder: str, topic_id: bytes) -> None:
    """Write partition.metadata; not synced, its writer knows the id and writes it again where it is
    missing."""
    text = f"version: {VERSION}\ntopic_id: {format_uuid(topic_id)}"
    replace_file(f"{folder}/{files.PARTITION_METADATA}", text.encode(), sync=False)


def _text(path: str) -> str:
    """A small file in three calls of the system: thousands are read at a start. A named pipe in its
    place is not waited for, it is an empty file. Raises CorruptCheckpoint, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = [os.read(fd, PIECE)]
        while len(parts[-1]) == PIECE:
            parts.append(os.read(fd, PIECE))
    finally:
        os.close(fd)
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def _read(path: str, width: int) -> Rows:
    try:
        text = _text(path)
    except FileNotFoundError:
        return []
    if text and not text.endswith("\n"):
        raise CorruptCheckpoint(f"{path}: its last line has no end")
    lines = text.splitlines()
    if lines and _int(path, lines[0]) != VERSION:
        raise CorruptCheckpoint(f"{path}: version {lines[0]}, only {VERSION} is known")
    if len(lines) < 2:
        return []  # created, not yet written
    rows = [line.split() for line in lines[2:]]
    for row in rows:
        if len(row) != width:
            raise CorruptCheckpoint(f"{path}: malformed line {' '.join(row)!r}")
    if len(rows) != _int(path, lines[1]):
        raise CorruptCheckpoint(f"{path}: {lines[1]} entries announced, {len(rows)} found")
    return rows


def _write(path: str, lines: Iterable[str], sync: bool = True) -> None:
    body = list(lines)
    replace_file(path, "".join(f"{line}\n" for line in (str(VERSION), str(len(body)), *body)).encode(), sync)


def _int(path: str, text: str, bits: int = 32) -> int:
    """A number that fits the words of tables and of Kafka's files. Raises CorruptCheckpoint."""
    try:
        number = int(text)
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {text!r} is no number") from error
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise CorruptCheckpoint(f"{path}: {number} does not fit {bits} bits")
    return number
