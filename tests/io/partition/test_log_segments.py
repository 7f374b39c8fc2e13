"""A log whose end goes back: batches, indexes, epochs and producers go with it, and it continues
from there."""

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files import producer_snapshot
from kbroker.io.files import segment as segment_files
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.io.partition import log_segments, unified_log
from kbroker.ipc.layout import Slot
from kbroker.log import checkpoint, files, transaction_index
from kbroker.log.transaction_index import AbortedTransaction
from tests.descriptors import open_files
from tests.io.append.plain_append import NOW, Log, offsets, topic_config
from tests.io.deaths import Deaths
from tests.log.batch_bytes import batch, end_marker


def test_truncation_removes_batches_index_entries_and_epochs(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_bytes=300, index_interval_bytes=50))
    log.open(epoch=0)
    for n in range(12):
        if n == 6:
            log.partition.role.set_leader_epoch(1)
        log.append(batch(0, [b"x" * 40], [NOW + n], producer_id=5, producer_epoch=0, base_sequence=n))
    for offset in (11, 8, 5, 0):
        log.partition.truncate_to(offset, NOW)
        assert offsets(log) == list(range(offset))
        assert log.partition.log_end == offset
        entries = log.producers.entries(3)
        assert (entries[0].last_sequence if entries else -1) == offset - 1
        assert len(log.partition.epochs.entries) == (2 if offset > 6 else 1 if offset else 0)
    log.partition.role.set_leader_epoch(2)
    assert log.append(batch()) == 0
    log.reopen(clean=False, epoch=2)
    assert offsets(log) == [0]


def test_a_log_that_was_truncated_inside_a_batch_ends_there_without_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"a"]))
    log.append(batch(0, [b"b"] * 3))
    log.partition.truncate_to(2, NOW)
    assert (log.partition.log_end, offsets(log)) == (2, [0])
    assert log.append(batch()) == 2
    assert offsets(log) == [0, 2]


def test_no_index_entry_of_a_truncated_batch_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the segment is not read again for it."""
    monkeypatch.setattr(log_segments, "rebuild_indexes", None)
    log = Log(tmp_path, topic_config(index_interval_bytes=0))
    log.open()
    for n in range(6):
        log.append(batch(0, [b"v"], [NOW + n]))
    log.partition.truncate_to(3, NOW)
    offset_index = (log.folder / f"{0:020d}.index").read_bytes()
    time_index = (log.folder / f"{0:020d}.timeindex").read_bytes()
    assert [offset for offset, _ in struct.iter_unpack(">ii", offset_index)] == [1, 2]
    assert list(struct.iter_unpack(">qi", time_index)) == [(NOW + 1, 1), (NOW + 2, 2)]
    assert log.partition.active.largest_timestamp == NOW + 2
    assert log.partition.segments.unsynced.first_base is None, "the segment is the active one again"


def test_truncation_removes_the_aborted_transactions_that_ended_after_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(4):
        log.append(batch())
    kept, gone = AbortedTransaction(1, 0, 1, 2), AbortedTransaction(1, 2, 3, 4)
    for entry in (kept, gone):
        transaction_index.append_entry(str(log.folder), 0, entry)
    log.partition.truncate_to(3, NOW)
    assert transaction_index.read_index(str(log.folder), 0) == [kept]


def test_a_failed_append_is_repaired(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], producer_id=5, producer_epoch=0, base_sequence=0))
    log.partition.active.open_files()
    os.pwrite(int(log.row[AppendRow.LOG_FD]), batch(1)[:40], int(log.row[AppendRow.POSITION]))
    log.row[AppendRow.STATE] = 0
    log.producers.put(3, ProducerEntry(6, 0))
    log.partition.repair(NOW)
    assert log.row[AppendRow.STATE] == 1
    assert (log.folder / f"{0:020d}.log").stat().st_size == log.row[AppendRow.POSITION]
    assert [entry.producer_id for entry in log.producers.entries(3)] == [5]


def test_a_marker_without_its_index_entry_gets_it_with_the_repair(tmp_path: Path) -> None:
    """A full disk refused the entry: readers of committed records saw the aborted ones."""
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0))
    log.append(end_marker(0, 5, 0, commit=False))
    log.row[AppendRow.STATE] = AppendState.DISK_FULL
    log.partition.repair(NOW)
    assert transaction_index.read_index(str(log.folder), 0) == [AbortedTransaction(5, 0, 1, 2)]
    assert (log.row[AppendRow.FIRST_UNSTABLE], log.row[AppendRow.LAST_ABORTED]) == (-1, 1)


def test_a_repair_shows_no_reader_an_index_that_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that finds another version of the segments after its reads gives no records. Readers
    of committed records saw the aborted ones."""
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"]))
    version = int(log.words[Slot.SEGMENTS_VERSION])
    during, reset = list[int](), transaction_index.reset_index

    def watched(folder: str, base_offset: int) -> None:
        during.append(int(log.words[Slot.SEGMENTS_VERSION]))
        reset(folder, base_offset)

    monkeypatch.setattr(transaction_index, "reset_index", watched)
    log.partition.repair(NOW)
    assert during == [version + 1]
    assert log.words[Slot.SEGMENTS_VERSION] == version + 2


def test_a_roll_on_a_full_disk_leaves_unwritten_batches_out_of_its_snapshot(tmp_path: Path) -> None:
    """Retention rolls before it deletes a whole log. The log was healed with this snapshot, and
    took the retry of such a batch for a duplicate."""
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], producer_id=5, producer_epoch=0, base_sequence=0))
    log.producers.put(3, ProducerEntry(6, 0))
    log.partition.active.refuse_appends()
    log.partition.roll(NOW)
    assert [entry.producer_id for entry in producer_snapshot.read(str(log.folder), 1)] == [5]
    assert log.row[AppendRow.STATE] == AppendState.DISK_FULL


def test_a_log_that_starts_over_has_nothing_from_before(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_bytes=300, index_interval_bytes=50))
    log.open(epoch=0)
    for n in range(12):
        log.append(batch(0, [b"x" * 40], [NOW + n], producer_id=5, producer_epoch=0, base_sequence=n))
    log.partition.truncate_fully(100, NOW)
    assert (log.partition.log_start, log.partition.log_end, log.partition.high_watermark) == (100, 100, 100)
    assert log.producers.entries(3) == []
    assert log.partition.epochs.entries == ()
    assert [segment.base_offset for segment in files.list_segments(str(log.folder))] == [100]
    assert log.append(batch(0, [b"v"])) == 100
    log.reopen(clean=False, epoch=1)
    assert offsets(log) == [100]


@pytest.mark.parametrize("target", [0, 1, 5, 9])
def test_a_truncation_that_dies_anywhere_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: int
) -> None:
    config = topic_config(segment_bytes=300, index_interval_bytes=50)
    log = Log(tmp_path / "log", config)
    log.open()
    for n in range(12):
        log.append(batch(0, [b"x" * 40], [NOW + n], producer_id=5, producer_epoch=0, base_sequence=n))
    log.partition.abandon()
    kept = tmp_path / "kept"
    shutil.copytree(log.folder, kept)
    deaths = Deaths(monkeypatch, log_segments, segment_files, unified_log)

    def truncate() -> None:
        log.reopen(clean=False)
        log.partition.truncate_to(target, NOW)

    while deaths.next(truncate):
        log.reopen(clean=False)
        found = offsets(log)
        assert found == list(range(len(found))), deaths.place
        assert target <= len(found)
        assert [entry.last_sequence for entry in log.producers.entries(3)] == found[-1:]
        log.partition.truncate_to(target, NOW)
        assert offsets(log) == list(range(target))
        log.partition.abandon()
        shutil.rmtree(log.folder)
        shutil.copytree(kept, log.folder)
    assert {
        "retention: file renamed",
        "truncate: segments deleted",
        "truncate: epochs written",
    } <= deaths.places


def test_a_roll_that_fails_leaves_no_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, where each append tries again."""
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], producer_id=5, producer_epoch=0, base_sequence=0))

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(producer_snapshot, "write", full)
        before = open_files()
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                log.partition.roll(NOW)
        assert open_files() == before
    log.partition.roll(NOW)
    assert log.append(batch()) == 1
    assert offsets(log) == [0, 1]


def test_the_checkpoint_of_epochs_has_none_that_was_truncated(tmp_path: Path) -> None:
    """The next records of these offsets have another one."""
    log = Log(tmp_path)
    log.open(epoch=1)
    log.append(batch())
    log.partition.role.set_leader_epoch(3)
    for _ in range(2):
        log.append(batch())
    path = log.folder / files.LEADER_EPOCH_CHECKPOINT
    written = path.stat().st_ino
    log.partition.truncate_to(2, NOW)
    assert path.stat().st_ino == written, "all epochs are left"
    log.partition.truncate_to(1, NOW)
    assert checkpoint.read_leader_epochs(str(log.folder)) == [(1, 0)]


def test_a_segment_may_begin_after_a_gap(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.roll(NOW, at=10)
    assert (log.partition.base_offsets, log.partition.log_end) == ([0, 10], 10)
    assert files.list_snapshots(str(log.folder)) == [10]
    log.partition.roll(NOW, at=5)
    assert log.partition.base_offsets == [0, 10]
    assert log.append(batch()) == 10
    assert offsets(log) == [0, 10]


def test_small_segments_of_a_log_with_very_many_are_rolled_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose records have ever later times, and segment.ms=1, made thousands a second."""
    monkeypatch.setattr(log_segments, "MANY_SEGMENTS", 3)
    log = Log(tmp_path, topic_config(retention_ms=1))
    log.open()
    grow_until = []
    for number in range(5):
        log.append(batch(0, [b"v"], [NOW + number]))
        log.partition.durability.flush()
        log.partition.roll(NOW + number)
        grow_until.append(int(log.row[AppendRow.GROW_UNTIL_MS]))
    slow = log_segments.SLOW_ROLL_MS
    assert grow_until == [0, 0, NOW + 2 + slow, NOW + 3 + slow, NOW + 4 + slow]
    log.partition.retention(NOW + 1000)
    assert log.row[AppendRow.GROW_UNTIL_MS] == 0


def test_small_segments_are_not_rolled_while_many_wait_for_their_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has three open files."""
    monkeypatch.setattr(log_segments, "MANY_UNSYNCED", 3)
    log = Log(tmp_path)
    log.open()
    for number in range(3):
        assert log.row[AppendRow.GROW_UNTIL_MS] == 0
        log.append(batch(0, [b"v"], [NOW + number]))
        log.partition.roll(NOW + number)
    assert log.row[AppendRow.GROW_UNTIL_MS] > NOW
    log.partition.durability.flush()
    assert log.row[AppendRow.GROW_UNTIL_MS] == 0
