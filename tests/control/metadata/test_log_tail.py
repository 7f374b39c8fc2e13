"""The newest records of a log on disk."""

from pathlib import Path

import pytest

from kbroker.control.metadata.log_tail import UNKNOWN, LogTail, is_part_of, tail_of
from kbroker.log import files
from tests.io.append.plain_append import Log, topic_config
from tests.log.batch_bytes import batch


def log(root: Path, records: int, **settings: object) -> Log:
    made = Log(root, topic_config(index_interval_bytes=100, **settings))
    made.open(epoch=3)
    for _ in range(records):
        made.append(batch(0, [b"x" * 60]))
    return made


@pytest.mark.parametrize("segment_bytes", [700, 1 << 20])
def test_the_last_batch_of_the_last_segment_is_the_tail(tmp_path: Path, segment_bytes: int) -> None:
    made = log(tmp_path, 20, segment_bytes=segment_bytes)
    assert tail_of(str(made.folder)) == LogTail(3, 20)
    made.partition.roll(made.now_ms)
    assert tail_of(str(made.folder)) == LogTail(3, 20), "the last segment is empty"
    Path(files.path(str(made.folder), 20, files.LOG)).rename(files.path(str(made.folder), 25, files.LOG))
    assert tail_of(str(made.folder)) == LogTail(3, 25)


def test_a_torn_batch_is_not_counted_and_an_index_need_not_fit(tmp_path: Path) -> None:
    """After a power cut."""
    made = log(tmp_path, 20)
    path = Path(files.path(str(made.folder), 0, files.LOG))
    index = Path(files.path(str(made.folder), 0, files.INDEX))
    size = path.stat().st_size // 20
    path.write_bytes(path.read_bytes()[: 15 * size + 30])
    assert tail_of(str(made.folder)) == LogTail(3, 15, False), "the index has entries beyond the end"
    index.write_bytes(b"\0\0\0\1\0\0\0\7")
    assert tail_of(str(made.folder)) == LogTail(3, 15, False), "an entry between batches"
    index.unlink()
    assert tail_of(str(made.folder)) == LogTail(3, 15, False)


def test_a_log_without_records_or_files_has_an_end(tmp_path: Path) -> None:
    made = log(tmp_path, 0)
    assert tail_of(str(made.folder)) == LogTail(-1, 0)
    Path(files.path(str(made.folder), 0, files.LOG)).unlink()
    assert tail_of(str(made.folder)) == LogTail(-1, 0)


def test_a_log_that_cannot_be_read_is_no_part_of_another(tmp_path: Path) -> None:
    assert tail_of(str(tmp_path / "missing")) == UNKNOWN
    made = log(tmp_path, 2)
    path = Path(files.path(str(made.folder), 0, files.LOG))
    data = bytearray(path.read_bytes())
    size = len(data) // 2
    data[size + 16] = 7  # the magic of the second batch
    path.write_bytes(data)
    assert tail_of(str(made.folder)) == UNKNOWN
    assert not is_part_of(UNKNOWN, LogTail(1, 5))
    assert not is_part_of(LogTail(1, 5), UNKNOWN)


def test_a_log_may_have_records_after_a_damaged_length(tmp_path: Path) -> None:
    """They look like a torn batch."""
    made = log(tmp_path, 3)
    path = Path(files.path(str(made.folder), 0, files.LOG))
    data = bytearray(path.read_bytes())
    data[len(data) // 3 + 8] = 1  # the length of the second batch
    path.write_bytes(data)
    Path(files.path(str(made.folder), 0, files.INDEX)).unlink()
    assert tail_of(str(made.folder)) == LogTail(3, 1, False)


def test_a_log_is_a_part_of_one_that_is_as_long_and_as_new() -> None:
    assert is_part_of(LogTail(1, 5), LogTail(1, 5))
    assert is_part_of(LogTail(1, 5), LogTail(2, 5, False))
    assert is_part_of(LogTail(-1, 0), LogTail(-1, 0))
    assert not is_part_of(LogTail(1, 5, False), LogTail(1, 5))
    assert not is_part_of(LogTail(1, 6), LogTail(2, 5))
    assert not is_part_of(LogTail(2, 5), LogTail(1, 6))
