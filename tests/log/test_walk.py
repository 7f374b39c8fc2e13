"""Replay sees every batch once, in order, and stops where a log is torn."""

import struct
from pathlib import Path

import pytest

from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.walk import CHUNK_BYTES, batches_of, walk
from tests.log.batch_bytes import batch
from tests.log.folder import Folder


def offsets(path: Path, start: int = 0) -> list[int]:
    return [placed.batch.base_offset for placed in walk(LogReader(str(path), OpenFiles()), start)]


def test_batches_larger_than_a_chunk_and_across_segments_are_walked(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(
        0, [batch(0), batch(1, [bytes(CHUNK_BYTES + 7)]), batch(2), batch(3, [bytes(CHUNK_BYTES)])]
    )
    folder.segment(4, [batch(4)])
    assert offsets(folder.path) == [0, 1, 2, 3, 4]
    for start in range(5):
        assert offsets(folder.path, start) == list(range(start, 5))


def test_positions_and_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    parts = [batch(n, [bytes(n * 100)]) for n in range(30)]
    folder.segment(0, parts)
    for placed, written, part in zip(
        walk(LogReader(str(folder.path), OpenFiles())), folder.batches, parts, strict=True
    ):
        assert (placed.segment_base, placed.position) == (0, written.position)
        assert placed.batch.data == part


@pytest.mark.parametrize("tail", [b"", b"\0" * 5000, batch(2)[:30], batch(2)[:-1]])
def test_a_torn_or_preallocated_tail_ends_the_walk(tmp_path: Path, tail: bytes) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(0), batch(1)], closed=False)
    with open(folder.file(0, ".log"), "ab") as log:
        log.write(tail)
    assert offsets(folder.path) == [0, 1]


def test_a_walk_ends_where_the_file_was_truncated_meanwhile(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(0), batch(1, [bytes(1000)])])
    (view,) = LogReader(str(folder.path), OpenFiles()).views(0, *WHOLE_LOG)
    with open(folder.file(0, ".log"), "r+b") as log:
        log.truncate(view.end - 100)
    assert [placed.batch.base_offset for placed in batches_of(view)] == [0]


def test_other_formats_and_garbage_are_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(0), batch(1, magic=1)])
    with pytest.raises(UnsupportedFormat, match="format 1"):
        offsets(folder.path)
    folder.segment(0, [batch(0), batch(1, magic=7)])
    with pytest.raises(CorruptLog, match="magic 7"):
        offsets(folder.path)


def test_an_index_entry_before_the_file_begins_means_a_walk_from_its_start(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(0), batch(1), batch(2)])
    folder.file(0, ".index").write_bytes(struct.pack(">ii", 1, -5))
    assert offsets(folder.path, 2) == [2]
