"""Bytes after a place of a log, and how many of them only the disk has."""

import os
from mmap import PAGESIZE
from pathlib import Path

import pytest

from kbroker.http import segment_bytes
from kbroker.http.segment_bytes import Ahead, SegmentBytes
from kbroker.log import files
from kbroker.log.cachestat import page_counts
from tests.http.evicted import evict, keep_cached_from

BASES = [0, 10, 20]
PAGES = 64


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Three segments, all in the page cache."""
    for base in BASES:
        Path(files.path(str(tmp_path), base, files.LOG)).write_bytes(bytes(PAGES * PAGESIZE))
    return str(tmp_path)


def segment(folder: str, base: int) -> Path:
    return Path(files.path(folder, base, files.LOG))


def needs_cachestat(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        page_counts(fd)
    except OSError:
        pytest.skip("this kernel cannot report what is in the page cache")
    finally:
        os.close(fd)


def test_a_cached_log_has_no_cold_bytes(folder: str) -> None:
    found = SegmentBytes().ahead(folder, BASES, 10, 5000)
    assert found == Ahead(2 * PAGES * PAGESIZE - 5000, 0)


def test_cold_bytes_are_those_after_the_place(folder: str) -> None:
    needs_cachestat(segment(folder, 10))
    if not evict([segment(folder, 20)]):
        pytest.skip("this file system keeps its pages")
    keep_cached_from(segment(folder, 10), 32)
    size = PAGES * PAGESIZE
    found = [SegmentBytes().ahead(folder, BASES, base, at) for base, at in ((0, 0), (10, 0), (10, size // 2))]
    assert [each.cold for each in found] == [size + size // 2, size + size // 2, size]
    found_late = SegmentBytes().ahead(folder, BASES, 10, size // 4 + 1)
    assert found_late.cold == size + size // 4, "a page is cold as a whole"
    assert SegmentBytes().ahead(folder, BASES, 20, size - 1).cold == 1


def test_a_segment_that_several_groups_will_read_is_sampled_once(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    sampled = segment_bytes.sampled

    def count(folder: str, base: int, position: int) -> Ahead:
        seen.append(base)
        return sampled(folder, base, position)

    monkeypatch.setattr(segment_bytes, "sampled", count)
    segments = SegmentBytes()
    for position in (0, 10, 20):
        segments.ahead(folder, BASES, 0, position)
    assert sorted(seen) == [0, 0, 0, 10, 20]


def test_bytes_between_places_of_different_segments(folder: str) -> None:
    segments, size = SegmentBytes(), PAGES * PAGESIZE
    assert segments.between(folder, BASES, (0, 100), (0, 300)) == 200
    assert segments.between(folder, BASES, (0, 100), (20, 300)) == 2 * size + 200
    assert segments.between(folder, BASES, (20, 300), (0, 100)) == -2 * size - 200
    assert segments.between(folder, BASES[1:], (0, 100), (20, 100)) == size, "the first segment was deleted"


def test_a_kernel_that_cannot_report_it_says_nothing_is_cold(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> tuple[int, ...]:
        raise PermissionError("seccomp")

    monkeypatch.setattr(segment_bytes, "page_counts", refused)
    assert SegmentBytes().ahead(folder, BASES, 0, 0) == Ahead(3 * PAGES * PAGESIZE, 0)
