"""A segment is read through a buffer: batches that end later stay in it, and a file that is too
short is damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.cleaner.segment_source import SegmentSource
from kbroker.log.errors import CorruptLog
from tests.descriptors import open_files

DATA = b"0123456789"


class Source:
    """Bytes 2 to 9 of a file, through a buffer of 4. reads: bytes of each read."""

    def __init__(self, folder: Path, size: int = len(DATA)) -> None:
        self.path = folder / "log"
        self.path.write_bytes(DATA)
        self.reads: list[int] = []
        self.source = SegmentSource(str(self.path), size, 2, 4, self.reads.append)

    def fill(self) -> bytes:
        """The bytes in the buffer."""
        self.source.fill()
        return bytes(self.source.buffer[: self.source.filled])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Source]:
    found = Source(tmp_path)
    with found.source:
        yield found


def test_bytes_that_were_not_taken_are_the_first_of_the_next_fill(made: Source) -> None:
    assert made.fill() == b"2345"
    made.source.take(3, 0)
    assert made.source.position == 5
    assert made.fill() == b"5678"
    assert not made.source.done
    made.source.take(4, 0)
    assert made.fill() == b"9"
    made.source.take(1, 0)
    assert (made.reads, made.source.done) == ([4, 3, 1], True)


def test_a_batch_that_is_longer_than_the_buffer_makes_it_longer(made: Source) -> None:
    made.fill()
    made.source.take(0, 6)
    assert made.fill() == b"234567"
    assert bytes(made.source.batch(1, 3)) == b"345"
    made.source.take(2, 4)
    assert len(made.source.buffer) == 6, "it does not get shorter"
    assert made.fill() == b"456789"


def test_a_batch_may_end_with_the_file_and_not_beyond_it(made: Source) -> None:
    made.fill()
    made.source.take(0, 8)
    with pytest.raises(CorruptLog, match="byte 2: the file ends within a batch"):
        made.source.take(0, 9)


def test_a_file_that_ends_within_a_batch_of_unknown_size_is_damaged(made: Source) -> None:
    made.fill()
    made.source.take(4, 0)
    made.fill()
    made.source.take(1, 0)
    assert made.fill() == b"789"
    with pytest.raises(CorruptLog, match="byte 7: the file ends within a batch"):
        made.source.take(0, 0)


def test_a_buffer_without_a_whole_batch_is_filled_further(made: Source) -> None:
    made.fill()
    made.source.take(0, 0)
    assert (made.source.position, made.source.filled) == (2, 4)


def test_a_file_that_is_shorter_than_its_segment_is_damaged(tmp_path: Path) -> None:
    made = Source(tmp_path, 11)
    with made.source:
        made.fill()
        made.source.take(4, 0)
        made.fill()
        made.source.take(4, 0)
        with pytest.raises(CorruptLog, match=f"{made.path}: 10 bytes, not 11"):
            made.fill()


def test_a_damaged_batch_is_named_by_its_byte_in_the_file(made: Source) -> None:
    made.fill()
    made.source.take(3, 0)
    assert str(made.source.damaged(2)) == f"{made.path}: byte 7: a damaged batch"


def test_the_file_is_open_as_long_as_the_source_is_used(tmp_path: Path) -> None:
    before = open_files()
    made = Source(tmp_path)
    with made.source:
        assert open_files() == before + 1
        assert made.source.inode == made.path.stat().st_ino
    assert open_files() == before
