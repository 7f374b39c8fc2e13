"""Offsets are found wherever they are, and ranges hold what a fetch must send."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from tests.log.batch_bytes import batch
from tests.log.folder import Folder


def sample(tmp_path: Path, interval: int = 200) -> Folder:
    """Three segments; offsets 30-39 and 74 are gaps, as compaction leaves them."""
    folder = Folder(tmp_path / "t-0", interval)
    folder.segment(0, [batch(n * 3, [b"x" * 50] * 3) for n in range(10)])
    folder.segment(40, [batch(40 + n, [b"y" * 90]) for n in range(34)])
    folder.segment(75, [batch(75 + n * 2, [b"z"] * 2) for n in range(20)], closed=False)
    return folder


def test_every_offset_is_located_as_by_a_plain_search(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    end = folder.reader_end()
    for offset in range(120):
        want = next((w for w in folder.batches if w.last_offset >= offset), None)
        got = reader.locate(offset, *end)
        if want is None:
            assert got is None
        else:
            assert got == (want.segment, want.position, want.base_offset, want.last_offset, want.size)


def test_nothing_is_located_at_or_after_the_end(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    mark = folder.batches[20]
    assert mark.segment == 40
    assert reader.locate(mark.base_offset, mark.segment, mark.position) is None
    assert reader.locate(mark.base_offset - 1, mark.segment, mark.position) is not None
    assert reader.locate(100, mark.segment, mark.position) is None


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    gaps=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=9),
    interval=st.integers(0, 1500),
    offset=st.integers(0, 200),
)
@settings(max_examples=80, deadline=None)
def test_locate_equals_the_model_for_any_layout(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    gaps: list[int],
    sizes: list[int],
    interval: int,
    offset: int,
) -> None:
    folder = Folder(tmp_path_factory.mktemp("log") / "t-0", interval)
    at = 0
    for segment, count in enumerate(counts):
        base, batches = at, []
        for n in range(count):
            at += gaps[(segment + n) % 4] if n else 0
            records = 1 + n % 3
            batches.append(batch(at, [bytes(sizes[n % len(sizes)])] * records))
            at += records
        folder.segment(base, batches)
    reader = LogReader(str(folder.path), OpenFiles())
    want = next((w for w in folder.batches if w.last_offset >= offset), None)
    got = reader.locate(offset, *WHOLE_LOG)
    place = got and (got.segment_base, got.position, got.size)
    assert place == (want and (want.segment, want.position, want.size))


def test_a_range_stays_in_its_segment_and_is_cut_at_max_bytes(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    end = folder.reader_end()
    place = reader.locate(3, *end)
    assert place is not None
    whole = reader.range(place, 1 << 20, *end)
    assert whole is not None
    data = folder.file(0, ".log").read_bytes()
    assert os.pread(whole.file.fd, whole.length, whole.position) == data[place.position :]
    cut = reader.range(place, 100, *end)
    assert cut is not None
    assert cut.length == 100
    assert reader.range(place, 0, *end) is None
    one = reader.range(place, 0, *end, min_one=True)
    assert one is not None
    assert one.length == place.size


def test_a_range_ends_at_the_readers_end(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    mark = folder.batches[20]
    place = reader.locate(40, mark.segment, mark.position)
    assert place is not None
    found = reader.range(place, 1 << 20, mark.segment, mark.position)
    assert found is not None
    assert found.position + found.length == mark.position


@pytest.mark.parametrize("damage", ["missing", "garbage", "between batches", "zero tail", "torn entry"])
def test_a_bad_index_only_costs_time(tmp_path: Path, damage: str) -> None:
    folder = sample(tmp_path, 100)
    index = folder.file(40, ".index")
    good = index.read_bytes()
    if damage == "missing":
        index.unlink()
    elif damage == "garbage":
        index.write_bytes(os.urandom(len(good)))
    elif damage == "between batches":
        shifted = bytearray(good)
        for at in range(7, len(good), 8):
            shifted[at] ^= 1
        index.write_bytes(shifted)
    elif damage == "zero tail":
        index.write_bytes(good + bytes(4000))
    else:
        index.write_bytes(good + b"\0\0\0")
    reader = LogReader(str(folder.path), OpenFiles())
    for want in folder.batches:
        if damage == "garbage" and want.segment == 40:
            continue
        got = reader.locate(want.base_offset, *folder.reader_end())
        assert got is not None
        assert got.position == want.position


@pytest.mark.parametrize("damage", ["", "missing", "garbage", "between batches", "zero tail", "torn entry"])
def test_an_offset_after_a_position_is_that_of_a_batch_there(tmp_path: Path, damage: str) -> None:
    folder = sample(tmp_path, 100)
    index = folder.file(40, ".index")
    good = index.read_bytes()
    if damage == "missing":
        index.unlink()
    elif damage == "garbage":
        index.write_bytes(os.urandom(len(good)))
    elif damage == "between batches":
        index.write_bytes(b"".join(struct.pack(">ii", o, p + 1) for o, p in struct.iter_unpack(">ii", good)))
    else:
        index.write_bytes(good + {"": b"", "zero tail": bytes(4000), "torn entry": bytes(3)}[damage])
    reader = LogReader(str(folder.path), OpenFiles())
    batches = [each for each in folder.batches if each.segment == 40]
    indexed = {position for _, position in struct.iter_unpack(">ii", good)}
    assert len(indexed) > 5
    for position in range(0, batches[-1].position + 100, 13):
        expected = [
            each.base_offset for each in batches if each.position in indexed and each.position >= position
        ]
        found = reader.offset_after(40, position)
        if damage in ("", "zero tail", "torn entry"):
            assert found == (expected[0] if expected else None)
        else:
            assert found is None or found in expected


def test_a_preallocated_index_with_millions_of_zeros_is_searched(tmp_path: Path) -> None:
    folder = sample(tmp_path, 50)
    with open(folder.file(0, ".index"), "r+b") as index:
        index.truncate(10485760)
    reader = LogReader(str(folder.path), OpenFiles())
    for want in folder.batches[:10]:
        got = reader.locate(want.last_offset, *WHOLE_LOG)
        assert got is not None
        assert got.position == want.position


def test_a_new_version_shows_new_segments_and_drops_deleted_ones(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    assert reader.base_offsets(2) == [0, 40, 75]
    folder.segment(115, [batch(115)])
    for suffix in (".log", ".index", ".timeindex"):
        folder.file(0, suffix).rename(f"{folder.file(0, suffix)}.deleted")
    assert reader.base_offsets(2) == [0, 40, 75]
    assert reader.base_offsets(4) == [40, 75, 115]
    place = reader.locate(0, *WHOLE_LOG, 4)
    assert place is not None
    assert place.base_offset == 40


def test_a_segment_deleted_under_an_old_list_is_passed_over(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    assert reader.base_offsets(1) == [0, 40, 75]
    for suffix in (".log", ".index", ".timeindex"):
        folder.file(0, suffix).unlink()
    place = reader.locate(5, *folder.reader_end(), 1)
    assert place is not None
    assert place.base_offset == 40


def test_an_end_in_an_unknown_segment_refreshes_the_list(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    reader.base_offsets(1)
    folder.segment(115, [batch(115)])
    place = reader.locate(115, *folder.reader_end(), 1)
    assert place is not None
    assert place.segment_base == 115


def test_a_recreated_segment_is_not_read_through_the_old_file(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    reader = LogReader(str(folder.path), OpenFiles())
    assert reader.locate(0, *WHOLE_LOG, 1) is not None
    folder.file(0, ".log").rename(folder.path / "old")
    folder.segment(0, [batch(0, [b"new"])])
    place = reader.locate(0, *WHOLE_LOG, 2)
    assert place is not None
    assert place.last_offset == 0


def test_a_range_in_flight_keeps_its_file_open_beyond_eviction(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    cache = OpenFiles(capacity=2)
    reader = LogReader(str(folder.path), cache)
    place = reader.locate(0, *WHOLE_LOG)
    assert place is not None
    held = reader.range(place, 1000, *WHOLE_LOG)
    assert held is not None
    reader.locate(50, *WHOLE_LOG)
    reader.locate(80, *WHOLE_LOG)
    assert cache.statistics() == (2, 3)
    assert os.pread(held.file.fd, held.length, held.position) == folder.file(0, ".log").read_bytes()[:1000]
    del held
    assert cache.statistics() == (2, 2)


def test_garbage_in_a_log_is_reported(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    data = bytearray(folder.file(75, ".log").read_bytes())
    data[folder.batches[-1].position + 16] = 9
    folder.file(75, ".log").write_bytes(data)
    reader = LogReader(str(folder.path), OpenFiles())
    with pytest.raises(CorruptLog, match=r"0075\.log"):
        reader.locate(114, *WHOLE_LOG)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogReader(str(tmp_path / "none-0"), OpenFiles()).locate(0, *WHOLE_LOG)
