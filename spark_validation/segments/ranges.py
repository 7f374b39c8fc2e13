"""Division of a data directory among tasks: ranges of segment files that start and end between
batches."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark_validation.segments import layout
from spark_validation.segments.layout import HEADER, HEADER_BYTES, INDEX_ENTRY

SPLIT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of one segment file. last: of the partition's newest segment, which may
    end torn."""

    segment: int
    start: int
    end: int
    last: bool


@dataclass(frozen=True, slots=True)
class Range:
    """Neighbouring pieces of one partition, in order: the work of one task. `later` follows them in
    the log."""

    folder: str
    topic: str
    partition: int
    pieces: tuple[Piece, ...]
    later: tuple[Piece, ...] = ()


def partition_folders(data_dirs: list[str], topics: list[str]) -> list[tuple[str, str, int]]:
    """(folder, topic, partition) of the partitions below log directories; no topics named: all."""
    found = []
    for data_dir in data_dirs:
        for folder in sorted(Path(data_dir).iterdir()):
            parsed = layout.parse_folder(folder.name) if folder.is_dir() else None
            if parsed and (not topics or parsed.topic in topics):
                found.append((str(folder), parsed.topic, parsed.partition))
    return found


def plan(
    data_dirs: list[str],
    topics: list[str],
    split_bytes: int = SPLIT_BYTES,
    since: dict[str, int] | None = None,
    empty: bool = False,
) -> list[Range]:
    """All ranges of the partitions below log directories, as their files are now. Raises
    FileNotFoundError.

    since: "topic-partition" -> offset: of these partitions alone, without segments that end below
    the offset. empty: segments that hold nothing, too.
    """
    found: list[Range] = []
    for folder, topic, partition in partition_folders(data_dirs, topics):
        if since is not None and f"{topic}-{partition}" not in since:
            continue
        pieces = pieces_of(folder, split_bytes, empty)
        if since is not None:
            first = max((p.segment for p in pieces if p.segment <= since[f"{topic}-{partition}"]), default=0)
            pieces = [piece for piece in pieces if piece.segment >= first]
        groups = grouped(pieces, split_bytes)
        at = 0
        for group in groups:
            at += len(group)
            found.append(Range(folder, topic, partition, tuple(group), tuple(pieces[at:])))
    return found


def bundled(works: list[Range], split_bytes: int = SPLIT_BYTES) -> list[tuple[Range, ...]]:
    """Ranges put together into tasks of at most split_bytes: a Python task costs a tenth of a
    second before it reads.

    A small log still gives some eight tasks, so that all cores have work.
    """
    sizes = [sum(piece.end - piece.start for piece in work.pieces) for work in works]
    target = min(split_bytes, max(sum(sizes) // 8, 4 << 20))
    bundles: list[list[Range]] = []
    filled = 0
    for work, size in zip(works, sizes, strict=True):
        if not bundles or filled + size > target:
            bundles.append([])
            filled = 0
        bundles[-1].append(work)
        filled += size
    return [tuple(bundle) for bundle in bundles]


def newest_segments(data_dirs: list[str], topics: list[str]) -> dict[tuple[str, int], int]:
    """(topic, partition) -> base offset of its newest segment, which may hold nothing yet."""
    found = {}
    for folder, topic, partition in partition_folders(data_dirs, topics) if topics else ():
        if segments := layout.segments_among(path.name for path in Path(folder).iterdir()):
            found[topic, partition] = segments[-1]
    return found


def pieces_of(folder: str, split_bytes: int, empty: bool = False) -> list[Piece]:
    """A partition's segments in order, the large ones cut at entries of their index. empty: those
    that hold nothing, too."""
    segments = layout.segments_among(path.name for path in Path(folder).iterdir())
    pieces = []
    for segment in segments:
        last = segment == segments[-1]
        try:
            size = Path(layout.segment_path(folder, segment, layout.LOG_FILE)).stat().st_size
        except FileNotFoundError:  # retention took it since the folder was listed
            continue
        if empty and not size:
            pieces.append(Piece(segment, 0, 0, last))
        cuts = [0, *cut_positions(folder, segment, size, split_bytes), size]
        pieces += [Piece(segment, start, end, last) for start, end in itertools.pairwise(cuts) if end > start]
    return pieces


def grouped(pieces: list[Piece], split_bytes: int) -> list[list[Piece]]:
    """Neighbours put together until they hold split_bytes."""
    groups: list[list[Piece]] = []
    size = 0
    for piece in pieces:
        if not groups or size + piece.end - piece.start > split_bytes:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.end - piece.start
    return groups


def cut_positions(folder: str, base_offset: int, size: int, split_bytes: int) -> list[int]:
    """Batch starts about split_bytes apart, out of the offset index; none where the index is
    missing or wrong."""
    if size <= split_bytes * 3 // 2:
        return []
    try:
        data = Path(layout.segment_path(folder, base_offset, layout.INDEX_FILE)).read_bytes()
    except FileNotFoundError:
        return []
    entries = np.frombuffer(data[: len(data) // INDEX_ENTRY.itemsize * INDEX_ENTRY.itemsize], INDEX_ENTRY)
    entries = entries[(entries["position"] > 0) & (entries["position"] < size)]
    targets = np.arange(split_bytes, size - split_bytes // 2, split_bytes)
    cuts = []
    with open(layout.segment_path(folder, base_offset, layout.LOG_FILE), "rb") as log:
        for place in np.unique(np.searchsorted(entries["position"], targets)):
            if place < len(entries):
                position = int(entries["position"][place])
                header = os.pread(log.fileno(), HEADER_BYTES, position)
                if starts_batch(header, base_offset + int(entries["relative_offset"][place])):
                    cuts.append(position)
    return cuts


def starts_batch(header: bytes, last_offset: int) -> bool:
    """Whether bytes are the header of the batch that ends with an offset, so that an index entry
    can be trusted."""
    if len(header) < HEADER_BYTES:
        return False
    found = np.frombuffer(header, HEADER)[0]
    return bool(
        found["magic"] == layout.MAGIC and found["base_offset"] + found["last_offset_delta"] == last_offset
    )
