"""What a cleaned segment hands to the disk before its fsync."""

from pathlib import Path

import numpy as np
import pytest

from kbroker.cleaner import cleaned_segment
from kbroker.cleaner.cleaned_segment import WRITE_OUT_BYTES, CleanedSegment
from kbroker.kernels.scan_rows import ScannedBatch


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
