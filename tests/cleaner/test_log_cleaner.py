"""What is left of a log after cleaning: the latest value of each key, at its old offset."""

from pathlib import Path

import pytest

from kbroker.cleaner.log_cleaner import LogChanged, MapTooSmall
from kbroker.io.append.rows import AppendRow
from kbroker.ipc.cleaning_messages import SwapSegments
from kbroker.kernels.memory import INT64_MAX
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.protocol import batch_layout as b
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch, read_records
from tests.cleaner.compacted import DAY, Compacted
from tests.io.append.plain_append import NOW
from tests.syncs import Syncs


def filled(case: Compacted, rounds: int = 20, keys: int = 7, codec: Codec = Codec.NONE) -> None:
    for n in range(rounds):
        case.append([(b"k%d" % (k % keys), b"%d" % n * 20) for k in range(n % 5 + 1)], codec)
    case.roll()


@pytest.mark.parametrize("codec", list(Codec))
def test_the_latest_value_of_each_key_stays_at_its_offset(tmp_path: Path, codec: Codec) -> None:
    case = Compacted(tmp_path)
    filled(case, codec=codec)
    before = {record.offset: record for record in case.records()}
    latest = {record.key: record for record in case.records()}
    done = case.clean()
    assert done is not None
    assert done.end == case.partition.log_end
    after = case.records()
    assert sorted(record.offset for record in after) == [record.offset for record in after]
    assert {record.key: record for record in after} == latest
    assert all(before[record.offset] == record for record in after)
    assert len(after) == len(latest)  # everything was dirty and in one map
    assert all(batch.codec == codec for batch in case.batches() if batch.record_count)


def test_a_batch_that_keeps_every_record_is_copied_as_it_is(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"old"), (b"b", b"stays")])
    case.append([(b"c", b"1"), (b"d", b"2")], Codec.ZSTD)
    case.append([(b"a", b"new")])
    case.roll()
    original = {batch.base_offset: bytes(batch.data) for batch in case.batches()}
    case.clean()
    copies = {batch.base_offset: bytes(batch.data) for batch in case.batches()}
    assert copies[2] == original[2]
    assert copies[4] == original[4]
    assert copies[0] != original[0]


def test_a_filtered_batch_keeps_base_and_last_offset_sequence_and_epochs(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], producer=9)
    case.append([(b"b", b"3")], producer=9)
    case.roll()
    old = case.batches()[0]
    case.clean()
    new = case.batches()[0]
    same = ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence")
    assert all(getattr(new, name) == getattr(old, name) for name in (*same, "partition_leader_epoch"))
    assert [record.offset for record in read_records(new)] == [2]


def test_small_segments_become_one_and_readers_find_every_offset_across_the_gaps(tmp_path: Path) -> None:
    case = Compacted(tmp_path, segment_bytes=600)
    filled(case, 30)
    bases = case.partition.base_offsets
    assert len(bases) > 5
    case.clean()  # groups are made by the sizes before it, so the next one finds small neighbours
    assert case.partition.base_offsets == bases
    filled(case, 3)
    case.clean()
    assert len(case.partition.base_offsets) < len(bases)
    kept = [record.offset for record in case.records()]
    reader = LogReader(str(case.log.folder), OpenFiles())
    for offset in range(case.partition.log_end):
        place = reader.locate(offset, *WHOLE_LOG)
        following = [other for other in kept if other >= offset]
        assert place is None if not following else place is not None and place.last_offset >= offset
        if place is not None and following:
            assert place.base_offset <= following[0]


def test_cleaning_again_changes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    filled(case)
    case.clean()
    files_before = {path.name: path.stat().st_ino for path in case.log.folder.glob("*.log")}
    case.append([(b"other", b"1")])
    case.roll()
    done = case.clean()
    assert done is not None
    assert {path.name: path.stat().st_ino for path in case.log.folder.glob("*.log")}.items() >= {
        name: inode
        for name, inode in files_before.items()
        if name != f"{case.partition.base_offsets[-1]:020d}.log"
    }.items() or done.swaps  # a group of one unchanged segment is left alone
    assert case.clean() is None


def test_tombstones_stay_until_their_horizon_and_then_go(tmp_path: Path) -> None:
    case = Compacted(tmp_path, delete_retention_ms=DAY)
    case.append([(b"a", b"1"), (b"b", b"1")])
    case.append([(b"a", None)])
    case.roll()
    case.clean()
    assert case.latest() == {b"a": None, b"b": b"1"}
    tombstone = next(batch for batch in case.batches() if batch.base_offset == 2)
    assert tombstone.attributes & b.ATTRIBUTE_DELETE_HORIZON
    assert tombstone.base_timestamp == NOW + DAY
    assert next(read_records(tombstone)).timestamp_ms == NOW  # deltas are from the horizon back
    case.clock += DAY - 1
    case.append([(b"c", b"1")])
    case.roll()
    case.clean()
    assert case.latest() == {b"a": None, b"b": b"1", b"c": b"1"}
    case.clock += 1
    case.append([(b"d", b"1")])
    case.roll()
    case.clean()
    assert case.latest() == {b"b": b"1", b"c": b"1", b"d": b"1"}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_tombstones_and_markers_stay_for_good_with_the_longest_retention(
    tmp_path: Path, codec: Codec
) -> None:
    """Now plus the largest long is no time: as in Kafka such batches get no horizon."""
    case = Compacted(tmp_path, delete_retention_ms=INT64_MAX)
    case.append([(b"a", b"1"), (b"b", b"1")])
    case.append([(b"a", None)], codec)
    case.end(9, commit=True)
    case.append([(b"c", b"1")])
    case.roll()
    case.clean()
    case.clock += DAY
    case.append([(b"d", b"1")])
    case.roll()
    case.clean()
    assert case.latest() == {b"a": None, b"b": b"1", b"c": b"1", b"d": b"1"}
    assert [batch.base_offset for batch in case.batches() if batch.is_control] == [3]
    assert not any(batch.attributes & b.ATTRIBUTE_DELETE_HORIZON for batch in case.batches())


def test_an_empty_value_is_no_tombstone(tmp_path: Path) -> None:
    """Neither does it set a horizon, nor does it go with the tombstones of its batch."""
    case = Compacted(tmp_path, delete_retention_ms=DAY)
    case.append([(b"a", b""), (b"b", None)])
    alone = case.append([(b"c", b"")])
    case.roll()
    case.clean()
    empty = next(batch for batch in case.batches() if batch.base_offset == alone)
    assert not empty.attributes & b.ATTRIBUTE_DELETE_HORIZON
    case.clock += DAY
    case.append([(b"d", b"1")])
    case.roll()
    case.clean()
    assert case.latest() == {b"a": b"", b"c": b"", b"d": b"1"}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_a_horizon_is_set_without_changing_any_timestamp(tmp_path: Path, codec: Codec) -> None:
    case = Compacted(tmp_path, delete_retention_ms=3 * DAY)
    case.append([(b"key%d" % n, None if n % 2 else b"v" * n) for n in range(40)], codec)
    case.roll()
    before = case.records()
    case.clean()
    assert case.records() == before
    assert all(batch.attributes & b.ATTRIBUTE_DELETE_HORIZON for batch in case.batches())


def test_records_without_a_key_are_removed(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(None, b"1"), (b"a", b"2")])
    case.roll()
    done = case.clean()
    assert done is not None
    assert done.without_key == 1
    assert [record.value for record in case.records()] == [b"2"]


def test_an_empty_key_is_a_key(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"", b"1"), (b"", b"2")])
    case.append([(b"x", b"3")])
    case.roll()
    case.clean()
    assert case.latest() == {b"": b"2", b"x": b"3"}


def test_the_last_batch_of_an_active_producer_stays_as_a_header(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"1")], producer=5)
    case.append([(b"a", b"2")], producer=6)
    case.append([(b"a", b"3")])
    case.append([(b"z", b"3")])
    case.roll()
    case.clean()
    assert [(batch.base_offset, batch.producer_id, batch.record_count) for batch in case.batches()] == [
        (0, 5, 0), (1, 6, 0), (2, -1, 1), (3, -1, 1)
    ]  # fmt: skip
    case.reopen(clean=False)
    entries = {entry.producer_id: entry for entry in case.log.producers.entries(3)}
    assert {producer: entry.last_sequence for producer, entry in entries.items()} == {5: 0, 6: 0}


def test_the_last_batch_of_the_cleaned_part_stays_for_its_offset(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"1")])
    case.append([(None, b"no key")])
    case.roll()
    case.clean()
    assert [(batch.base_offset, batch.record_count) for batch in case.batches()] == [(0, 1), (1, 0)]


def test_a_full_map_cleans_its_records_and_the_next_pass_the_others(tmp_path: Path) -> None:
    case = Compacted(tmp_path, map_bytes=24 * 64, segment_bytes=100000)
    for n in range(60):
        case.append([(b"key%d" % (n * 5 + k), b"%d" % n) for k in range(5)])
    for n in range(60):
        case.append([(b"key%d" % (n * 5 + k), b"new%d" % n) for k in range(5)])
    case.roll()
    latest = case.latest()
    rounds = 0
    ends = []
    while (done := case.clean()) is not None:
        assert case.latest() == latest
        ends.append(done.end)
        rounds += 1
    assert rounds > 5
    assert ends == sorted(set(ends))
    assert ends[-1] == case.partition.log_end


def test_a_batch_larger_than_the_map_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    case = Compacted(tmp_path, map_bytes=24 * 10, segment_bytes=100000)
    case.append([(b"key%d" % n, b"") for n in range(50)])
    case.roll()
    with pytest.raises(MapTooSmall):
        case.clean()
    assert len(case.records()) == 50


def test_batches_larger_than_every_buffer_are_cleaned(tmp_path: Path) -> None:
    case = Compacted(tmp_path, map_bytes=1 << 21, segment_bytes=1 << 22)
    for codec in Codec:
        case.append([(b"key%d" % (n % 300), b"v" * 1000) for n in range(400)], codec)
        case.append([(b"t%d" % n, None) for n in range(30000)], codec)
    case.roll()
    latest = case.latest()
    case.clean()
    assert case.latest() == latest
    assert len(case.records()) == len(latest)


@pytest.mark.parametrize("flip", [30, 80])
def test_a_damaged_batch_is_never_rewritten(tmp_path: Path, flip: int) -> None:
    case = Compacted(tmp_path)
    filled(case)
    path = case.log.folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[flip] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLog):
        case.clean()
    assert path.read_bytes() == data
    assert not list(case.log.folder.glob("*.cleaned"))


def test_a_log_that_changed_meanwhile_is_not_swapped(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    filled(case)
    latest = case.latest()
    swap = case.cleaning.swap

    def refuse(body: object) -> bool:
        case.partition.advance_log_start(case.partition.base_offsets[1])
        assert case.partition.retention(case.clock) == 1
        return swap(body)

    case.cleaning.swap = refuse  # type: ignore[method-assign]
    with pytest.raises(LogChanged):
        case.clean()
    assert not list(case.log.folder.glob("*.cleaned"))
    assert latest.items() >= case.latest().items()


def test_the_cleaned_segment_has_the_age_of_the_last_it_replaces(tmp_path: Path) -> None:
    case = Compacted(tmp_path, segment_bytes=600)
    filled(case)
    ages = {segment.base_offset: segment.modified_ms for segment in case.partition.segments.closed}
    case.clean()
    first = case.partition.segments.closed[0]
    assert first.modified_ms in ages.values()
    assert (case.log.folder / f"{0:020d}.log").stat().st_mtime_ns // 1_000_000 == first.modified_ms


def test_snapshots_of_replaced_segments_go_that_of_the_first_stays(tmp_path: Path) -> None:
    case = Compacted(tmp_path, segment_bytes=600)
    filled(case, 30)
    case.clean()
    filled(case, 3)
    case.clean()
    bases = case.partition.base_offsets
    assert set(files.list_snapshots(str(case.log.folder))) <= {*bases, case.partition.log_end}
    case.reopen()
    assert case.partition.base_offsets == bases


def test_a_cleaned_segment_is_on_disk_before_it_takes_the_place_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"1")], producer=9, transactional=True)
    case.end(9, commit=False)
    filled(case)
    case.partition.durability.flush()
    syncs = Syncs(case.log.folder, monkeypatch)
    at_swap: list[list[str]] = []
    swap = case.cleaning.swap

    def watched(request: SwapSegments) -> bool:
        at_swap.append(syncs.taken())
        return swap(request)

    monkeypatch.setattr(case.cleaning, "swap", watched)
    assert case.clean() is not None
    first, *others = at_swap
    files_of_one = {f"{0:020d}{suffix}.cleaned" for suffix in (".log", ".index", ".timeindex")}
    assert files_of_one <= set(first)
    assert all(before[0] == "." for before in others), "the swap before is on disk, too"
    assert syncs.taken() == ["."]


def test_an_aborted_transaction_of_the_clean_part_does_not_hide_the_producers_next_records(
    tmp_path: Path,
) -> None:
    """Its entry of the transaction index is still there when the next transaction is mapped."""
    case = Compacted(tmp_path)
    old = case.append([(b"a", b"old")])
    case.append([(b"a", b"aborted")], producer=9, transactional=True)
    case.end(9, commit=False)
    case.roll()
    case.clean()
    case.append([(b"a", b"new")], producer=9, transactional=True)
    case.end(9, commit=True)
    case.roll()
    case.clean()
    assert case.latest() == {b"a": b"new"}
    assert old not in {record.offset for record in case.records()}


def test_a_gap_at_the_end_of_a_segment_is_clean_afterwards(tmp_path: Path) -> None:
    """Otherwise the log would be cleaned again and again for offsets that no record has."""
    case = Compacted(tmp_path)
    case.append([(b"a", b"1")])
    case.log.row[AppendRow.NEXT_OFFSET] += 5
    case.partition.published.publish(high_watermark=6)
    case.roll()
    done = case.clean()
    assert done is not None
    assert done.end == case.partition.base_offsets[-1] == 6


def test_a_segment_after_the_end_of_a_full_map_is_left_alone(tmp_path: Path) -> None:
    case = Compacted(tmp_path, map_bytes=24 * 20)
    for first in (0, 9, 18, 27):
        case.append([(b"key%d" % n, b"1") for n in range(first, first + 9)])
        if first % 2:
            case.roll()
    assert case.partition.base_offsets[:2] == [0, 18]
    done = case.clean()
    assert done is not None
    assert (done.end, done.swaps) == (18, 0)
    assert case.partition.base_offsets[:2] == [0, 18]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_filtered_batch_with_the_time_of_its_append_keeps_it(tmp_path: Path, codec: Codec) -> None:
    """Its records have no times of their own."""
    case = Compacted(tmp_path)
    pair = [(b"a", b"1", (), NOW), (b"b", b"1", (), NOW + 3)]
    case.log.append(build_batch(pair, codec=codec, log_append_time_ms=NOW + 9), NOW)
    case.append([(b"b", b"2")])
    case.roll()
    before = case.batches()[0]
    case.clean()
    after = case.batches()[0]
    assert after.record_count == 1
    assert after.max_timestamp == before.max_timestamp == NOW + 9
