"""The segments of a log on disk, one after the other: each begins where the one before ends,
whatever the moment at which the broker died. A start deletes what does not fit, so a fault is seen
only before it."""

import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

HEAD = struct.Struct(">qi")
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT, HEADER_BYTES = 23, 61


def chain_faults(folder: Path) -> list[str]:
    """What is wrong with the segments of a partition, oldest first; an unfinished write at the
    log's end is not."""
    faults = []
    for path, following in pairwise(sorted(folder.glob("*.log"))):
        end, is_whole = segment_end(path)
        if not is_whole:
            faults.append(f"{path} ends within a batch, and {following.name} follows")
        elif end != int(following.stem):
            faults.append(f"{path} ends at offset {end}, and {following.name} follows")
    return faults


def all_faults(dirs: Iterable[Path], topic: str) -> list[str]:
    """The same of all partitions of a topic in some log dirs."""
    return [
        fault for each in dirs for folder in sorted(each.glob(f"{topic}-*")) for fault in chain_faults(folder)
    ]


def segment_end(path: Path) -> tuple[int, bool]:
    """The offset after a segment's last whole batch, and whether nothing follows that batch."""
    data = path.read_bytes()
    end, position = int(path.stem), 0
    while position + HEADER_BYTES <= len(data):
        base, length = HEAD.unpack_from(data, position)
        following = position + HEAD.size + length
        if following > len(data):
            break
        end = base + LAST_OFFSET_DELTA.unpack_from(data, position + LAST_OFFSET_DELTA_AT)[0] + 1
        position = following
    return end, position == len(data)
