"""What counts as durable is on disk, every file of it, and nothing counts before."""

import errno
import os
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.openings import published_end
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.log import files
from kbroker.log.transaction_index import AbortedTransaction, append_entry
from tests.descriptors import open_files
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import batch
from tests.syncs import Syncs


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Of three segments with a record each, the first two closed; nothing is synced."""
    made = Log(tmp_path)
    made.open()
    for _ in range(2):
        made.append(batch())
        append_entry(str(made.folder), made.partition.active.base_offset, AbortedTransaction(1, 0, 0, 1))
        made.partition.roll(NOW)
    made.append(batch())
    return made


@pytest.fixture
def syncs(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(tmp_path, monkeypatch)


def segment(base: int, *suffixes: str) -> set[str]:
    return {f"t-0/{files.file_name(base, suffix)}" for suffix in suffixes}


CLOSED = (
    segment(0, *files.SEGMENT_SUFFIXES)
    | segment(1, *files.SEGMENT_SUFFIXES, files.SNAPSHOT)
    | segment(2, files.SNAPSHOT)
)
NAMES = {f"t-0/{files.LEADER_EPOCH_CHECKPOINT}", "t-0", "."}
ACTIVE = segment(2, files.LOG)


def test_the_first_sync_is_of_every_file_and_of_their_names(log: Log, syncs: Syncs) -> None:
    log.partition.durability.flush()
    assert set(syncs.taken()) == CLOSED | NAMES | ACTIVE
    assert log.partition.recovery_point == 3


def test_later_syncs_only_sync_the_active_log(log: Log, syncs: Syncs) -> None:
    log.partition.durability.flush()
    syncs.taken()
    log.append(batch())
    job = log.partition.durability.begin()
    assert job.only_active
    job.run()
    assert set(syncs.taken()) == ACTIVE


def test_a_sync_after_a_roll_is_of_the_closed_segment_and_the_folder(log: Log, syncs: Syncs) -> None:
    log.partition.durability.flush()
    syncs.taken()
    log.partition.roll(NOW)
    log.append(batch())
    job = log.partition.durability.begin()
    assert not job.only_active
    job.run()
    closed = segment(2, files.LOG, files.INDEX, files.TIME_INDEX, files.SNAPSHOT)
    assert set(syncs.taken()) == closed | segment(3, files.SNAPSHOT, files.LOG) | {"t-0"}


def test_a_sync_of_closed_segments_leaves_the_active_log_out(log: Log, syncs: Syncs) -> None:
    job = log.partition.durability.begin(rolled_only=True)
    assert not job.only_active
    job.run()
    assert set(syncs.taken()) == CLOSED | NAMES
    log.partition.durability.finish(job)
    assert log.partition.recovery_point == 2


def test_a_close_syncs_the_indexes_of_the_active_segment_too(log: Log, syncs: Syncs) -> None:
    log.partition.durability.flush()
    log.append(batch())
    syncs.taken()
    log.partition.close()
    active = segment(2, files.LOG, files.INDEX, files.TIME_INDEX, files.SNAPSHOT)
    assert set(syncs.taken()) == active | segment(4, files.SNAPSHOT) | {"t-0"}


def test_a_close_syncs_the_names_of_a_log_that_was_just_opened(tmp_path: Path, syncs: Syncs) -> None:
    log = Log(tmp_path, topic="other")
    log.open()
    log.partition.close()
    assert {"other-0", "."} <= set(syncs.taken())


def test_a_close_without_a_sync_leaves_all_of_it_to_its_caller(log: Log, syncs: Syncs) -> None:
    log.partition.close(sync=False)
    assert syncs.taken() == []


def test_a_file_that_retention_has_taken_is_not_missed(log: Log, syncs: Syncs) -> None:
    job = log.partition.durability.begin()
    for path in log.folder.glob("*.snapshot"):
        path.unlink()
    job.run()
    assert set(syncs.taken()) >= ACTIVE


def test_closed_segments_that_a_killed_process_may_not_have_synced_are_synced(log: Log, syncs: Syncs) -> None:
    """The recovery point passed them by: after a power cut they were not checked."""
    log.reopen(clean=False, recovery_point=1)
    assert log.partition.segments.first_unsynced_base == 1
    syncs.taken()
    job = log.partition.durability.begin()
    job.run()
    synced = set(syncs.taken())
    assert synced >= segment(1, *files.SEGMENT_SUFFIXES, files.SNAPSHOT) | ACTIVE
    assert synced.isdisjoint(segment(0, files.LOG))
    log.partition.durability.finish(job)
    assert (log.partition.recovery_point, log.partition.durability.is_synced) == (3, True)


def test_records_of_a_killed_process_are_durable_up_to_its_recovery_point(log: Log) -> None:
    """Beyond it nothing shows that they reached the disk: acks of a synced topic wait for a
    sync."""
    log.reopen(clean=False, recovery_point=1)
    assert (log.partition.log_end, log.words[Slot.DURABLE]) == (3, 1)


def test_a_durable_log_of_a_killed_process_is_on_disk_before_it_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a segment that was closed and not synced: the retry of a batch in it was acknowledged as
    a duplicate. Without its transaction index a later start would show aborted records."""
    log = Log(tmp_path, topic_config(write_caching=False), flags=SlotFlag.DURABLE)
    log.open()
    log.append(batch())
    append_entry(str(log.folder), 0, AbortedTransaction(1, 0, 0, 1))
    log.partition.roll(NOW)
    log.append(batch())
    end = published_end(log.words)
    log.partition.abandon()
    syncs = Syncs(tmp_path, monkeypatch)
    log.load(trusted_end=end)
    assert set(syncs.taken()) >= segment(0, *files.SEGMENT_SUFFIXES)


@pytest.mark.parametrize("next_offset", [0, 1, 2])
def test_the_durable_offset_never_goes_back(log: Log, next_offset: int) -> None:
    log.partition.durability.flush()
    log.partition.durability.publish(next_offset, 2, 0)
    assert log.partition.recovery_point == 3


def test_beyond_a_closed_segment_that_is_not_synced_nothing_is_durable(log: Log) -> None:
    log.partition.durability.flush()
    log.append(batch())
    log.partition.roll(NOW)
    log.append(batch())
    log.partition.roll(NOW)
    log.append(batch())
    log.partition.durability.publish(6, 5, 71)
    assert log.partition.recovery_point == 3, "the segment of offset 2 has grown since"
    job = log.partition.durability.begin(rolled_only=True)
    log.partition.roll(NOW)
    log.append(batch())
    job.run()
    log.partition.durability.finish(job)
    assert log.partition.recovery_point == 5
    log.partition.durability.publish(7, 6, 71)
    assert log.partition.recovery_point == 5
    assert not log.partition.durability.is_synced


def test_a_sync_that_ends_after_the_close_says_nothing_of_the_slot(log: Log) -> None:
    job = log.partition.durability.begin()
    log.partition.abandon()
    before = log.words.copy()
    job.run()
    log.partition.durability.finish(job)
    assert (log.words == before).all()
    assert log.words[Slot.DURABLE] == 0


def test_a_log_is_synced_when_all_of_it_is(log: Log) -> None:
    durability = log.partition.durability
    assert not durability.is_synced
    durability.flush()
    assert durability.is_synced
    log.append(batch())
    assert not durability.is_synced


def test_the_sync_after_a_truncation_is_of_the_folder_too(log: Log, syncs: Syncs) -> None:
    """Segments that were deleted would be back after a power cut, beside new records of the same
    offsets."""
    for truncate in (
        lambda: log.partition.truncate_to(2, NOW),
        lambda: log.partition.truncate_to(0, NOW),
        lambda: log.partition.truncate_fully(100, NOW),
    ):
        log.append(batch())
        log.partition.durability.flush()
        syncs.taken()
        cuts = int(log.row[AppendRow.CUTS])
        truncate()
        assert log.row[AppendRow.CUTS] == cuts + 1  # a sync in progress does not count
        log.append(batch())
        job = log.partition.durability.begin()
        assert not job.only_active
        job.run()
        assert "t-0" in syncs.taken()
        log.partition.durability.finish(job)
        assert log.partition.durability.begin().only_active


def test_a_sync_of_a_log_with_closed_files_leaves_them_closed(log: Log, syncs: Syncs) -> None:
    """Their number has a limit, which only appends observe."""
    log.reopen(clean=False)
    syncs.taken()
    before = open_files()
    log.partition.durability.flush()
    assert open_files() == before
    assert log.row[AppendRow.LOG_FD] == AppendRow.NO_FD
    assert set(syncs.taken()) >= ACTIVE
    assert log.partition.durability.is_synced


@pytest.mark.parametrize("made", range(7))
def test_a_sync_that_finds_no_descriptors_keeps_none(
    log: Log, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    """The active .log, and three files of each closed segment."""
    dup, left = os.dup, [made]

    def few(fd: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EMFILE, "no descriptors")
        return dup(fd)

    before = open_files()
    with monkeypatch.context() as full:
        full.setattr(os, "dup", few)
        with pytest.raises(OSError, match="no descriptors"):
            log.partition.durability.begin()
    assert open_files() == before
    log.partition.durability.begin().close()


def test_a_close_of_a_log_that_is_on_disk_waits_for_no_sync(log: Log, syncs: Syncs) -> None:
    log.reopen()
    log.partition.durability.flush()
    syncs.taken()
    log.partition.close()
    assert syncs.taken() == []
