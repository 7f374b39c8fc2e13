"""ListOffsets by time: the first record at or after a time, and the record with the largest
time."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.timestamps import locate_batch, locate_timestamp, max_timestamp
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch
from tests.log import batch_bytes
from tests.log.folder import Folder


def build(path: Path, segments: list[list[list[int]]], interval: int, codec: Codec) -> list[tuple[int, int]]:
    """A folder of segments of batches of timestamps; gives (offset, timestamp) of every record."""
    folder = Folder(path, interval)
    offset, records = 0, []
    for segment in segments:
        base, batches = offset, []
        for times in segment:
            new = [(None, b"v" * 40, (), time) for time in times]
            batches.append(build_batch(new, base_offset=offset, codec=codec, partition_leader_epoch=3))
            records += [(offset + n, time) for n, time in enumerate(times)]
            offset += len(times)
        folder.segment(base, batches, closed=segment is not segments[-1])
    return records


def model(segments: list[list[list[int]]], timestamp: int, start: int) -> tuple[int, int] | None:
    """Kafka's rule: only the first segment that reaches the timestamp and is not wholly below the
    start."""
    offset = 0
    for segment in segments:
        records = [time for times in segment for time in times]
        if offset + len(records) > start and max(records) >= timestamp:
            for n, time in enumerate(records):
                if time >= timestamp and offset + n >= start:
                    return time, offset + n
            return None
        offset += len(records)
    return None


layout = st.lists(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


@given(layout, st.integers(0, 400), st.integers(0, 62), st.integers(0, 20), st.sampled_from(list(Codec)))
@settings(max_examples=80, deadline=None)
def test_the_first_record_at_or_after_a_time_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[list[int]]],
    interval: int,
    timestamp: int,
    start: int,
    codec: Codec,
) -> None:
    path = tmp_path_factory.mktemp("log") / "t-0"
    build(path, segments, interval, codec)
    found = locate_timestamp(LogReader(str(path), OpenFiles()), timestamp, start, *WHOLE_LOG)
    want = model(segments, timestamp, start)
    assert (None if found is None else (found.timestamp, found.offset)) == want
    assert found is None or found.leader_epoch == 3


@given(layout, st.integers(0, 400), st.sampled_from([Codec.NONE, Codec.ZSTD]))
@settings(max_examples=60, deadline=None)
def test_the_largest_time_is_found_at_its_first_record(
    tmp_path_factory: pytest.TempPathFactory, segments: list[list[list[int]]], interval: int, codec: Codec
) -> None:
    path = tmp_path_factory.mktemp("log") / "t-0"
    records = build(path, segments, interval, codec)
    found = max_timestamp(LogReader(str(path), OpenFiles()), 0, *WHOLE_LOG)
    largest = max(time for _, time in records)
    assert found is not None
    assert (found.timestamp, found.offset) == (largest, next(o for o, time in records if time == largest))


@given(layout, st.integers(0, 400), st.integers(-1, 65), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_everything_before_the_batch_that_reaches_a_time_is_older(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[list[int]]],
    interval: int,
    timestamp: int,
    start: int,
) -> None:
    path = tmp_path_factory.mktemp("log") / "t-0"
    build(path, segments, interval, Codec.NONE)
    found = locate_batch(LogReader(str(path), OpenFiles()), timestamp, start, *WHOLE_LOG)
    offset, want = 0, None
    for times in (batch for segment in segments for batch in segment):
        if want is None and max(times) >= timestamp and offset + len(times) > start:
            want = max(times), offset
        offset += len(times)
    assert (None if found is None else (found.timestamp, found.offset)) == want


def test_times_are_found_without_time_index_and_with_a_preallocated_one(tmp_path: Path) -> None:
    build(tmp_path / "t-0", [[[10], [20]], [[30], [40]]], 60, Codec.NONE)
    (tmp_path / "t-0" / f"{0:020d}.timeindex").unlink()
    with open(tmp_path / "t-0" / f"{2:020d}.timeindex", "r+b") as index:
        index.truncate(10485756)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    for timestamp, offset in ((0, 0), (10, 0), (11, 1), (20, 1), (21, 2), (40, 3)):
        found = locate_timestamp(reader, timestamp, 0, *WHOLE_LOG)
        assert found is not None
        assert found.offset == offset
    assert locate_timestamp(reader, 41, 0, *WHOLE_LOG) is None


def test_times_after_the_last_index_entry_of_the_active_segment_are_found(tmp_path: Path) -> None:
    build(tmp_path / "t-0", [[[10], [20], [30], [40]]], 150, Codec.NONE)
    assert (tmp_path / "t-0" / f"{0:020d}.timeindex").read_bytes() == struct.pack(">qi", 30, 2)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    for found in (max_timestamp(reader, 0, *WHOLE_LOG), locate_timestamp(reader, 31, 0, *WHOLE_LOG)):
        assert found is not None
        assert (found.timestamp, found.offset) == (40, 3)


def test_records_after_the_end_are_not_seen(tmp_path: Path) -> None:
    build(tmp_path / "t-0", [[[10], [20]]], 4096, Codec.NONE)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    second = reader.locate(1, *WHOLE_LOG)
    assert second is not None
    assert locate_timestamp(reader, 15, 0, 0, second.position) is None
    found = max_timestamp(reader, 0, 0, second.position)
    assert found is not None
    assert found.offset == 0


@given(layout, st.integers(0, 400), st.lists(st.integers(0, 100), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_reader_finds_the_largest_time_at_each_end_as_a_new_one_does(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[list[int]]],
    interval: int,
    percents: list[int],
) -> None:
    """The end grows with the high watermark; that of a new leader may be lower."""
    path = tmp_path_factory.mktemp("log") / "t-0"
    build(path, segments, interval, Codec.NONE)
    reader = LogReader(str(path), OpenFiles())
    places = [place for offset in range(100) if (place := reader.locate(offset, *WHOLE_LOG)) is not None]
    for percent in percents:
        end = places[percent * (len(places) - 1) // 100]
        new = LogReader(str(path), OpenFiles())
        at = end.segment_base, end.position
        assert max_timestamp(reader, 0, *at) == max_timestamp(new, 0, *at)


def test_batches_of_the_active_segment_are_walked_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    batches = [
        build_batch([(None, b"v", (), time)], base_offset=offset) for offset, time in enumerate((30, 10, 20))
    ]
    folder.segment(0, batches, closed=False)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    third = reader.locate(2, *WHOLE_LOG)
    assert third is not None
    assert max_timestamp(reader, 0, 0, third.position) == (30, 0, -1)
    second = len(batches[0])
    with folder.file(0, ".log").open("r+b") as log:
        log.seek(second + 16)
        log.write(b"\x09")  # its magic
    assert max_timestamp(reader, 0, *WHOLE_LOG) == (30, 0, -1)
    reader.refresh()
    with pytest.raises(CorruptLog):
        max_timestamp(reader, 0, *WHOLE_LOG)


def test_a_truncated_segment_is_walked_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    batches = [build_batch([(None, b"v", (), time)], base_offset=at) for at, time in enumerate((10, 50, 20))]
    folder.segment(0, batches, closed=False)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    end = sum(map(len, batches))
    assert max_timestamp(reader, 0, 0, end, version=2) == (50, 1, -1)
    later = [build_batch([(None, b"v", (), time)], base_offset=at) for at, time in ((1, 15), (2, 20))]
    folder.segment(0, [batches[0], *later], closed=False)
    assert max_timestamp(reader, 0, 0, end, version=4) == (20, 2, -1)


def test_a_closed_segment_that_was_cut_and_has_grown_again_has_its_new_largest_time(tmp_path: Path) -> None:
    """A replica that leads again was cut as a follower, while no client asked this reader."""
    folder = Folder(tmp_path / "t-0")

    def rewritten(times: list[int], changed_s: int) -> None:
        data = [build_batch([(None, b"v", (), time)], base_offset=at) for at, time in enumerate(times)]
        folder.segment(0, data[:2])
        os.utime(folder.file(0, ".log"), (changed_s, changed_s))
        folder.segment(2, data[2:], closed=False)

    rewritten([10, 50, 60], 1000)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    assert locate_timestamp(reader, 40, 0, *WHOLE_LOG, version=2) == (50, 1, -1)
    rewritten([10, 20, 60], 2000)
    assert locate_timestamp(reader, 40, 0, *WHOLE_LOG, version=6) == (60, 2, -1)
    rewritten([10, 55, 60], 3000)
    assert locate_timestamp(reader, 52, 0, *WHOLE_LOG, version=10) == (55, 1, -1)


def test_a_segment_that_compaction_has_emptied_hides_no_later_one(tmp_path: Path) -> None:
    """Its last batch stays as a header, with a largest timestamp that no record has."""
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch_bytes.batch(0, [], [50], last_offset_delta=0)])
    folder.file(0, ".timeindex").write_bytes(b"")
    folder.segment(1, [build_batch([(None, b"v", (), 20)], base_offset=1)])
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    assert locate_timestamp(reader, 15, 0, *WHOLE_LOG) == (20, 1, -1)
    assert locate_timestamp(reader, 21, 0, *WHOLE_LOG) is None
    assert max_timestamp(reader, 0, *WHOLE_LOG) == (20, 1, -1)


def test_the_largest_time_is_not_that_of_an_emptied_batch_before_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    kept = build_batch([(None, b"v", (), 20)], base_offset=1)
    folder.segment(0, [batch_bytes.batch(0, [], [50], last_offset_delta=0), kept])
    folder.file(0, ".timeindex").write_bytes(struct.pack(">qi", 20, 1))
    folder.segment(2, [build_batch([(None, b"v", (), 10)], base_offset=2)], closed=False)
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    assert max_timestamp(reader, 0, *WHOLE_LOG) == (20, 1, -1)


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    Folder(tmp_path / "t-0").segment(0, [])
    reader = LogReader(str(tmp_path / "t-0"), OpenFiles())
    assert locate_timestamp(reader, 0, 0, *WHOLE_LOG) is None
    assert max_timestamp(reader, 0, *WHOLE_LOG) is None
