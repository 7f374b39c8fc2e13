"""Index files are believed only when they can be true."""

import os
import struct
from pathlib import Path

import pytest

from kbroker.io.files import segment
from kbroker.io.files.segment import IndexEnds


class Files:
    """Both index files of a segment, open."""

    def __init__(self, root: Path, offsets: bytes, times: bytes) -> None:
        self.paths = (root / "i.index", root / "i.timeindex")
        for path, content in zip(self.paths, (offsets, times), strict=True):
            path.write_bytes(content)
        self.fds = (os.open(self.paths[0], os.O_RDWR), os.open(self.paths[1], os.O_RDWR))

    def contents(self) -> tuple[bytes, bytes]:
        return self.paths[0].read_bytes(), self.paths[1].read_bytes()


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


GOOD = (offsets((5, 100), (9, 200)), times((1000, 4), (1001, 9)))


@pytest.mark.parametrize("zeros", [0, 1, 7, 1000])
def test_ends_are_found_before_preallocated_zeros(tmp_path: Path, zeros: int) -> None:
    files = Files(tmp_path, GOOD[0] + bytes(8 * zeros), GOOD[1] + bytes(12 * zeros))
    assert segment.read_ends(*files.fds, 300) == IndexEnds(16, 9, 200, 24, 1001, 9)


def test_empty_indexes_are_sane(tmp_path: Path) -> None:
    assert segment.read_ends(*Files(tmp_path, b"", b"").fds, 0) == IndexEnds(0, -1, 0, 0, -1, 0)
    assert segment.read_ends(*Files(tmp_path, bytes(80), bytes(120)).fds, 0) == IndexEnds(0, -1, 0, 0, -1, 0)


@pytest.mark.parametrize(
    ("offset_bytes", "time_bytes", "log_bytes"),
    [
        (GOOD[0], GOOD[1], 200),  # points to the end of the log
        (GOOD[0] + b"x", GOOD[1], 300),
        (GOOD[0], GOOD[1] + b"x", 300),
        (offsets((9, 200), (5, 100)), b"", 300),
        (offsets((-1, 100)), b"", 300),
        (offsets((5, 0)), b"", 300),
        (offsets((5, -7)), b"", 300),
        (b"", times((1001, 4), (1000, 9)), 300),
        (b"", times((1000, 9), (1001, 4)), 300),
        (b"", times((-5, 1)), 300),
        (b"", times((1000, 1)), 0),
    ],
)
def test_indexes_that_can_not_be_true_are_refused(
    tmp_path: Path, offset_bytes: bytes, time_bytes: bytes, log_bytes: int
) -> None:
    assert segment.read_ends(*Files(tmp_path, offset_bytes, time_bytes).fds, log_bytes) is None


@pytest.mark.parametrize(
    ("relative", "kept"), [(10, (2, 2)), (9, (1, 1)), (5, (0, 1)), (4, (0, 0)), (0, (0, 0))]
)
def test_truncation_removes_entries_at_and_after_an_offset(
    tmp_path: Path, relative: int, kept: tuple[int, int]
) -> None:
    files = Files(tmp_path, GOOD[0] + bytes(16), GOOD[1] + bytes(5))
    segment.truncate_after(*files.fds, relative)
    assert files.contents() == (GOOD[0][: 8 * kept[0]], GOOD[1][: 12 * kept[1]])


def test_the_last_time_of_a_closed_segment(tmp_path: Path) -> None:
    files = Files(tmp_path, b"", GOOD[1] + bytes(120))
    assert segment.last_time(str(files.paths[1])) == (1001, 9)
    files.paths[1].write_bytes(b"")
    assert segment.last_time(str(files.paths[1])) is None
    assert segment.last_time(str(tmp_path / "none")) is None
