"""Byte layout of Kafka's log as numpy types: record batches of magic 2, indexes, names of files and
folders.

Written from Apache Kafka's documentation ("Message Format") and nothing else: the judge shares no
code with the broker whose files it reads.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),  # bytes after this field
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),  # CRC-32C of everything from the attributes on
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
HEADER_BYTES = HEADER.itemsize
OFFSETS = 1 << 63  # one more than the highest
LENGTH_AT, MAGIC_AT, CHECKED_FROM = 8, 16, 21
LENGTH_OVERHEAD = 12  # bytes before those that `length` counts
MAGIC = 2

CODEC_MASK = 0x07
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

# columns of a batch's row
POSITION = 0  # in the file
SIZE = 1
BASE_OFFSET = 2
LAST_OFFSET = 3
BASE_TIMESTAMP = 4
MAX_TIMESTAMP = 5
LEADER_EPOCH = 6
ATTRIBUTES = 7
PRODUCER_ID = 8
PRODUCER_EPOCH = 9
BASE_SEQUENCE = 10
RECORD_COUNT = 11
CONTROL_TYPE = 12  # 0 abort, 1 commit, -1: no marker, or one that cannot be read
FAULT = 13
COORDINATOR_EPOCH = 14  # of a marker, -1 as for its type
BATCH_COLUMNS = 15


class Fault(IntEnum):
    """The fault of a batch; also the reason why a walk over batches stopped."""

    SOUND = 1  # of a walk: exactly at the end
    TORN = 2  # the file ends within it
    BAD_LENGTH = 3
    BAD_MAGIC = 4
    OLD_FORMAT = 5  # message format 0 or 1
    BAD_CRC = 6
    BAD_COUNT = 8
    BAD_RECORDS = 9  # they cannot be unpacked or decoded, or are not as many as the header says
    BAD_DELTAS = 10  # their offsets do not rise, or lie outside of the batch
    BAD_MARKS = 11  # a record has attributes, which are not in use


COMMIT = 1  # of CONTROL_TYPE

INDEX_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
ABORTED_ENTRY = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)

LOG_FILE, INDEX_FILE, TIME_INDEX_FILE, ABORTED_FILE = ".log", ".index", ".timeindex", ".txnindex"
EPOCHS_FILE = "leader-epoch-checkpoint"
_FOLDER = re.compile(r"^(\S+)-(\d+)$")
_LEAVING = re.compile(r"^(\S+)-(\d+)\.(\S+)-(delete|future|stray)$")


class PartitionFolder(NamedTuple):
    topic: str
    partition: int


def parse_folder(name: str) -> PartitionFolder | None:
    """Topic and partition of a folder's name; None for other names, and for a log that is deleted
    or moved."""
    if _LEAVING.match(name):
        return None
    found = _FOLDER.match(name)
    return PartitionFolder(found[1], int(found[2])) if found else None


def segment_path(folder: str, segment: int, suffix: str) -> str:
    return f"{folder}/{segment:020d}{suffix}"


def segments_among(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among a folder's names, ascending."""
    stems = [name.removesuffix(LOG_FILE) for name in names if name.endswith(LOG_FILE)]
    bases = (int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())
    return sorted(base for base in bases if base < OFFSETS)
