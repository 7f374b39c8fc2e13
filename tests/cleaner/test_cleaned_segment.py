"""The files of a cleaned segment, and what it hands to the disk before its fsync."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kbroker.cleaner import cleaned_segment
from kbroker.cleaner.cleaned_segment import WRITE_OUT_BYTES, CleanedSegment
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.log import transaction_index
from kbroker.log.transaction_index import AbortedTransaction
from tests.descriptors import open_files


def test_a_log_is_written_out_in_pieces_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[tuple[int, int]] = []

    def write_out(fd: int, position: int, count: int) -> None:
        assert Path(f"/proc/self/fd/{fd}").readlink().name.endswith(".log.cleaned")
        pieces.append((position, count))

    monkeypatch.setattr(cleaned_segment, "_write_out", write_out)
    segment = CleanedSegment(str(tmp_path), 0, 4096, 1 << 20, 1)
    rows = ScannedBatch.table(1)
    data = np.zeros(WRITE_OUT_BYTES * 3 // 8, np.uint8)
    try:
        for _ in range(8):
            segment.append(data, rows, 0)
    finally:
        segment.remove()
    ends = [position + count for position, count in pieces]
    assert [position for position, _ in pieces] == [0, *ends[:-1]]
    assert all(WRITE_OUT_BYTES <= count < WRITE_OUT_BYTES + len(data) for _, count in pieces)
    assert segment.size - ends[-1] < WRITE_OUT_BYTES


def test_writing_out_is_a_call_that_the_kernel_takes(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.write(b"x" * 8192)
        file.flush()
        assert (
            cleaned_segment.SYNC_FILE_RANGE(file.fileno(), 0, 8192, cleaned_segment.SYNC_FILE_RANGE_WRITE)
            == 0
        )
        assert cleaned_segment.SYNC_FILE_RANGE(-1, 0, 8192, cleaned_segment.SYNC_FILE_RANGE_WRITE) == -1


BASE = 1000
MODIFIED_MS = 1_700_000_000_123


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[CleanedSegment]:
    """A cleaned segment whose indexes have an entry for each batch but the first."""
    created = CleanedSegment(str(tmp_path), BASE, 0, 1 << 20, 4)
    yield created
    created.remove()


def add(segment: CleanedSegment, *batches: tuple[int, int]) -> None:
    """Append batches of 100 bytes: (last offset, largest timestamp)."""
    rows = ScannedBatch.table(len(batches))
    for n, (last_offset, timestamp) in enumerate(batches):
        rows[n, ScannedBatch.POSITION] = segment.size + 100 * n
        rows[n, ScannedBatch.SIZE] = 100
        rows[n, ScannedBatch.LAST_OFFSET] = last_offset
        rows[n, ScannedBatch.MAX_TIMESTAMP] = timestamp
    segment.append(np.zeros(100 * len(batches), np.uint8), rows, len(batches))


def time_entries(segment: CleanedSegment, folder: Path) -> list[tuple[int, int]]:
    segment.finish([], MODIFIED_MS)
    return list(struct.iter_unpack(">qi", (folder / f"{BASE:020d}.timeindex.cleaned").read_bytes()))


def test_a_largest_time_without_an_entry_has_the_last_one(tmp_path: Path, segment: CleanedSegment) -> None:
    """A closed segment's last entry is final, and readers go by it."""
    add(segment, (BASE + 4, 50))
    assert segment.max_timestamp == 50
    assert time_entries(segment, tmp_path) == [(50, 4)]


def test_a_largest_time_that_has_an_entry_gets_no_second_one(tmp_path: Path, segment: CleanedSegment) -> None:
    add(segment, (BASE + 4, 50), (BASE + 7, 60))
    add(segment, (BASE + 9, 55))
    assert time_entries(segment, tmp_path) == [(60, 7)]


def test_a_segment_without_a_batch_has_no_time(tmp_path: Path, segment: CleanedSegment) -> None:
    assert segment.max_timestamp == -1
    assert time_entries(segment, tmp_path) == []


def test_index_entries_continue_from_one_append_to_the_next(tmp_path: Path, segment: CleanedSegment) -> None:
    add(segment, (BASE + 1, 1), (BASE + 3, 2))
    add(segment, (BASE + 5, 3))
    index = (tmp_path / f"{BASE:020d}.index.cleaned").read_bytes()
    assert list(struct.iter_unpack(">ii", index)) == [(3, 100), (5, 200)]


def test_aborted_transactions_are_in_the_order_of_their_markers_and_synced(
    tmp_path: Path, segment: CleanedSegment, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, early = (
        AbortedTransaction(1, BASE, BASE + 9, BASE + 10),
        AbortedTransaction(2, BASE, BASE + 3, BASE),
    )
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().suffixes[0])
    )
    segment.finish([late, early], MODIFIED_MS)
    path = tmp_path / f"{BASE:020d}.txnindex.cleaned"
    assert transaction_index.parse_entries(path.read_bytes(), "") == [early, late]
    assert sorted(synced) == [".index", ".log", ".timeindex", ".txnindex"]


def test_the_log_has_the_age_of_the_old_segments_in_milliseconds(
    tmp_path: Path, segment: CleanedSegment
) -> None:
    segment.finish([], MODIFIED_MS)
    assert not (tmp_path / f"{BASE:020d}.txnindex.cleaned").exists()
    status = (tmp_path / f"{BASE:020d}.log.cleaned").stat()
    assert status.st_mtime_ns == status.st_atime_ns == MODIFIED_MS * 1_000_000
    assert segment.inode == status.st_ino


def test_a_segment_that_cannot_be_created_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / f"{BASE:020d}.timeindex.cleaned").touch()
    before = open_files()
    with pytest.raises(FileExistsError):
        CleanedSegment(str(tmp_path), BASE, 0, 1 << 20, 1)
    assert open_files() == before
