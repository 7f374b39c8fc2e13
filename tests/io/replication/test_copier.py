"""What a copy takes over of each batch, and what it refuses."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, Batch
from kbroker.io.replication import copier
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from tests.io.append.plain_append import NOW
from tests.io.replication.following_scene import Scene
from tests.log.batch_bytes import batch, end_marker

Make = Callable[..., Scene]
FAR = 3 << 31


def test_a_copy_keeps_what_rolls_flushes_and_indexes_go_by(scene: Make) -> None:
    case = scene(index_interval_bytes=0)
    case.leader.append(batch(0, [b"a", b"b"], [NOW, NOW + 5]))
    case.leader.append(batch(0, [b"c"], [NOW + 3]))
    case.leader.append(batch(0, [b"d"], [NOW + 9]))
    assert case.own.row[AppendRow.LAST_APPEND_MS] == 0
    case.follow()
    own_part, its = case.own.row, case.leader.row
    for word in (
        AppendRow.POSITION,
        AppendRow.NEXT_OFFSET,
        AppendRow.FIRST_TIMESTAMP,
        AppendRow.MAX_TIMESTAMP,
        AppendRow.MAX_TIMESTAMP_OFFSET,
        AppendRow.UNFLUSHED_RECORDS,
        AppendRow.INDEX_BYTES,
        AppendRow.TIME_INDEX_BYTES,
        AppendRow.SINCE_INDEX,
    ):
        assert own_part[word] == its[word], word
    assert (own_part[AppendRow.FIRST_TIMESTAMP], own_part[AppendRow.UNFLUSHED_RECORDS]) == (NOW + 5, 4)
    assert own_part[AppendRow.LAST_APPEND_MS] > 0
    for suffix in ("index", "timeindex"):
        (one,), (other,) = (log.folder.glob(f"*.{suffix}") for log in (case.own, case.leader))
        assert (
            one.read_bytes()[: int(own_part[AppendRow.INDEX_BYTES])]
            == (other.read_bytes()[: int(its[AppendRow.INDEX_BYTES])])
        )


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_more_batches_than_a_call_of_the_kernel_takes_are_copied(scene: Make, rows: int) -> None:
    case = scene()
    case.following._copier._batches = Batch.table(rows)
    case.write(b"a", b"b", b"c", b"d", b"e")
    case.follow()
    case.assert_equal()
    assert case.own.row[AppendRow.UNFLUSHED_RECORDS] == 5


def test_a_marker_at_the_start_of_a_buffer_ends_its_transaction(scene: Make) -> None:
    case = scene()
    case.leader.append(batch(0, [b"a"], attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0))
    case.follow()
    assert case.own.row[AppendRow.FIRST_UNSTABLE] == 0
    case.leader.append(end_marker(0, 5, 0, commit=True))
    case.following.pull()
    assert case.own.row[AppendRow.FIRST_UNSTABLE] == -1
    (entry,) = case.own.partition.producers.entries()
    assert (entry.producer_id, len(entry.batches)) == (5, 1), "a marker is no batch of the producer"


def test_a_batch_of_another_format_is_not_copied(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b")
    (path,) = case.leader.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 16] = 3  # the magic is not covered by the checksum
    path.write_bytes(data)
    case.follow()
    case.check(later_ns=1_000_000_000)
    assert case.end == 1


@pytest.mark.parametrize(("epoch", "entries"), [(0, ((0, 0),)), (4, ((4, 0),)), (-1, ())])
def test_a_copied_batch_begins_its_leader_epoch(
    tmp_path: Path, scene: Make, epoch: int, entries: tuple[tuple[int, int], ...]
) -> None:
    """-1: Kafka of old wrote batches without one."""
    case = scene()
    case.own.partition.epochs.clear()
    case.own.partition.active.note_copied_epoch(case.own.partition.epochs.latest)
    source = tmp_path / "source"
    source.write_bytes(batch(0, [b"a"], leader_epoch=epoch) + batch(1, [b"b"], leader_epoch=epoch))
    fd = os.open(source, os.O_RDONLY)
    try:
        done = copier.Copier(case.drain).copy(case.own.partition, fd, 0, source.stat().st_size)
    finally:
        os.close(fd)
    assert done == source.stat().st_size
    assert case.own.partition.epochs.entries == entries
    assert case.own.row[AppendRow.BATCH_EPOCH] == epoch


@pytest.mark.parametrize("first", [0, FAR])
def test_a_gap_longer_than_a_segment_is_copied(tmp_path: Path, scene: Make, first: int) -> None:
    """Compaction of a log of billions of records leaves one. A segment's offsets are relative to
    its base, as int32."""
    case = scene()
    offsets = [first, first + 1, first + FAR]
    source = tmp_path / "source"
    source.write_bytes(b"".join(batch(offset, [b"a"], leader_epoch=1) for offset in offsets))
    fd = os.open(source, os.O_RDONLY)
    try:
        done = copier.Copier(case.drain).copy(case.own.partition, fd, 0, source.stat().st_size)
    finally:
        os.close(fd)
    assert done == source.stat().st_size
    case.own.partition.role.publish_copied(0)
    bases = sorted({0, first, first + FAR})
    assert case.own.partition.base_offsets == bases
    case.own.reopen(clean=False)
    assert case.own.partition.base_offsets == bases
    assert case.own.partition.log_end == offsets[-1] + 1
    reader, end = LogReader(str(case.own.folder), OpenFiles(8)), (bases[-1], 1 << 20)
    places = [reader.locate(offset, *end) for offset in (0, first + 2)]
    assert [place and place.base_offset for place in places] == [first, first + FAR]


def test_bytes_that_hold_no_whole_batch_are_damage(tmp_path: Path, scene: Make) -> None:
    case = scene()
    source = tmp_path / "source"
    source.write_bytes(batch(0, [b"a"])[:-1])
    fd = os.open(source, os.O_RDONLY)
    try:
        with pytest.raises(copier.DamagedBatch, match="hold no whole batch"):
            copier.Copier(case.drain).copy(case.own.partition, fd, 0, source.stat().st_size)
    finally:
        os.close(fd)
    assert case.own.row[AppendRow.NEXT_OFFSET] == 0


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF])
def test_a_length_that_no_batch_has_takes_no_memory(tmp_path: Path, scene: Make, length: int) -> None:
    case = scene()
    source = tmp_path / "source"
    data = batch(0, [b"a"])
    source.write_bytes(data[:8] + length.to_bytes(4, "big") + data[12:])
    own_part = copier.Copier(case.drain)
    fd = os.open(source, os.O_RDONLY)
    try:
        with pytest.raises(copier.DamagedBatch):
            own_part.copy(case.own.partition, fd, 0, len(data))
    finally:
        os.close(fd)
    assert len(own_part._buffer) == copier.BUFFER_BYTES


def test_batches_of_one_buffer_that_overlap_are_damage_after_the_first(tmp_path: Path, scene: Make) -> None:
    case = scene()
    source = tmp_path / "source"
    source.write_bytes(batch(0, [b"a", b"b"]) + batch(1, [b"c", b"d"]))
    fd = os.open(source, os.O_RDONLY)
    try:
        with pytest.raises(copier.DamagedBatch, match="does not begin at offset 2"):
            copier.Copier(case.drain).copy(case.own.partition, fd, 0, source.stat().st_size)
    finally:
        os.close(fd)
    assert case.own.row[AppendRow.NEXT_OFFSET] == 2


def test_producers_of_copied_batches_take_up_room_in_the_table(scene: Make) -> None:
    """Else it would fill until no look-up ends."""
    case = scene()
    for producer_id, sequence in ((5, 0), (6, 0), (5, 1)):
        case.leader.append(
            batch(0, [b"v"], producer_id=producer_id, producer_epoch=2, base_sequence=sequence)
        )
    case.drain.producers.make_room(2 * Batch.ROWS)
    before = case.drain.producers.room
    case.follow()
    assert case.end == 3
    assert case.drain.producers.room == before - 2
