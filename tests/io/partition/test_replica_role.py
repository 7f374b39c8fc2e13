"""What a log with several replicas says of itself while its leaders change."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files import leader_epoch_cache
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import checkpoint, files
from kbroker.log.reader import LogReader
from kbroker.protocol import batch_layout
from tests.io.append.plain_append import NOW, Log, offsets
from tests.log.batch_bytes import batch
from tests.syncs import Syncs


def reopened(log: Log, leads: bool, mark: int | None) -> Log:
    """As the successor of an IO worker opens it. mark: the high watermark that it finds in shared
    memory."""
    log.partition.close()
    log.__post_init__()
    log.replicated, log.leads, log.known_mark = True, leads, mark
    log.open(epoch=1)
    return log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """With three records."""
    made = Log(tmp_path)
    made.open()
    for _ in range(3):
        made.append(batch(0, [b"v"]))
    return made


def is_behind(log: Log) -> bool:
    """Whether no client is answered where the log ends."""
    return bool(log.words[Slot.HIGH_WATERMARK] < log.words[Slot.EPOCH_START])


@pytest.mark.parametrize("mark", [None, 1])
def test_a_leader_does_not_tell_its_end_before_its_mark_is_at_the_start_of_its_epoch(
    log: Log, mark: int | None
) -> None:
    opened = reopened(log, leads=True, mark=mark).partition
    assert is_behind(log), "it is online, though control has not made it a leader yet"
    opened.role.lead(2)
    assert is_behind(log)
    opened.role.publish_high_watermark(2)
    assert is_behind(log)
    opened.role.publish_high_watermark(3)
    assert not is_behind(log)
    log.append(batch(0, [b"later"]))
    assert not is_behind(log)


@pytest.mark.parametrize("lead_first", [False, True])
def test_a_replica_on_a_full_disk_takes_no_appends_as_the_next_leader(log: Log, lead_first: bool) -> None:
    """Its producers' state has batches that were not written. It acknowledged their retries as
    duplicates, and lost them."""
    role = log.partition.role
    role.lead(2) if lead_first else role.follow(2)
    log.partition.active.refuse_appends()
    for step in (lambda: role.follow(3), role.resign, lambda: role.lead(4)):
        step()
        assert log.row[AppendRow.STATE] == AppendState.DISK_FULL
    log.partition.repair(NOW)
    assert log.row[AppendRow.STATE] == AppendState.OPEN


def test_a_follower_whose_epoch_found_no_room_takes_no_appends_when_there_is_some(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would have the epoch of another leader, whose log may have other records there."""
    role = log.partition.role
    role.follow(2)
    log.partition.active.refuse_appends()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(leader_epoch_cache, "write_leader_epochs", full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            role.lead(3)
    log.partition.repair(NOW)
    assert not role.leads
    assert log.row[AppendRow.STATE] != AppendState.OPEN
    role.lead(3)
    assert log.row[AppendRow.STATE] == AppendState.OPEN
    assert log.partition.active.leader_epoch == 3


def test_a_known_mark_above_the_end_is_the_end(log: Log) -> None:
    """The log may have lost its end with its predecessor."""
    reopened(log, leads=True, mark=99)
    assert log.words[Slot.HIGH_WATERMARK] == 3


def test_a_log_takes_appends_only_while_it_leads_and_is_not_paused(log: Log) -> None:
    role = log.partition.role
    states = []
    for step in (
        lambda: role.lead(2),
        role.pause,
        lambda: role.lead(3),
        role.resume,
        lambda: role.follow(-1),
    ):
        step()
        states.append((int(log.row[AppendRow.STATE]) == AppendState.OPEN, int(log.words[Slot.STATE])))
    role.let_append()
    assert log.row[AppendRow.STATE] != AppendState.OPEN
    online, recovering = SlotState.ONLINE, SlotState.RECOVERING
    assert states == [
        (True, online),
        (False, recovering),
        (False, recovering),
        (True, online),
        (False, online),
    ]


def test_a_follower_does_not_tell_its_end(log: Log) -> None:
    opened = reopened(log, leads=False, mark=3).partition
    assert is_behind(log)
    opened.role.follow(2)
    assert is_behind(log)
    opened.role.lead(3)
    assert not is_behind(log)
    opened.role.resign()
    assert is_behind(log)


def test_a_single_replica_publishes_its_end_at_once(log: Log) -> None:
    assert not is_behind(log)


def test_the_high_watermark_of_a_copy_does_not_go_back(log: Log) -> None:
    opened = reopened(log, leads=False, mark=3).partition
    opened.role.publish_copied(1)
    assert opened.high_watermark == 3


def test_a_high_watermark_below_the_end_has_the_place_of_its_record(log: Log) -> None:
    opened = reopened(log, leads=True, mark=None).partition
    size = int(log.row[AppendRow.POSITION]) // 3
    opened.role.publish_high_watermark(2)
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (0, 2 * size)
    assert offsets(log) == [0, 1]
    opened.roll(NOW)
    log.append(batch(0, [b"later"]))
    opened.role.publish_high_watermark(1)
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (0, size)


def test_a_high_watermark_in_a_damaged_segment_is_published_without_a_place(log: Log) -> None:
    """A leader finds the place of the log start at each start of its IO worker, which ended."""
    opened = reopened(log, leads=True, mark=None).partition
    with open(files.path(opened.folder, 0, files.LOG), "r+b") as segment:
        segment.seek(batch_layout.MAGIC)
        segment.write(b"\7")
    opened.role.lead(2)
    opened.role.publish_high_watermark(1)
    assert opened.high_watermark == 1
    opened.role.publish_high_watermark(3)
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (0, log.row[AppendRow.POSITION])


def test_a_high_watermark_is_published_without_a_place_while_no_file_can_be_opened(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reopened(log, leads=True, mark=None).partition

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as shortage:
        shortage.setattr(LogReader, "locate", refuse)
        opened.role.publish_high_watermark(1)
        assert opened.high_watermark == 1
    opened.role.publish_high_watermark(2)
    assert log.words[Slot.HW_POSITION] == 2 * int(log.row[AppendRow.POSITION]) // 3


def test_a_high_watermark_from_before_records_were_deleted_begins_at_the_log_start(log: Log) -> None:
    log.partition.close()
    log.__post_init__()
    log.replicated, log.leads, log.known_mark = True, False, 1
    assert log.open(log_start=2, epoch=1).high_watermark == 2


def test_the_epoch_of_a_new_leader_is_on_disk_before_it_takes_appends(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reopened(log, leads=False, mark=3).partition
    syncs = Syncs(tmp_path, monkeypatch)
    opened.role.lead(2)
    assert any(name.startswith("t-0/leader-epoch-checkpoint") for name in syncs.taken())
    opened.role.set_leader_epoch(3)
    assert any(name.startswith("t-0/leader-epoch-checkpoint") for name in syncs.taken())


def test_no_high_watermark_is_beyond_the_end_of_the_log(log: Log) -> None:
    opened = reopened(log, leads=True, mark=None).partition
    opened.role.publish_high_watermark(4)
    assert opened.high_watermark == 3
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (0, log.row[AppendRow.POSITION])
    opened.role.follow(2)
    opened.role.publish_copied(5)
    assert opened.high_watermark == 3


def test_a_leader_that_has_moved_finds_the_place_of_its_high_watermark_in_the_new_folder(
    log: Log, tmp_path: Path
) -> None:
    opened = reopened(log, leads=True, mark=None).partition
    size = int(log.row[AppendRow.POSITION]) // 3
    opened.role.publish_high_watermark(1)
    left = Path(opened.folder)
    moved = tmp_path / "other" / left.name
    opened.role.pause()
    shutil.copytree(left, moved)
    opened.relocate(str(moved), 0, NOW)
    assert not left.exists()
    opened.role.publish_high_watermark(2)
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (0, 2 * size)


def test_a_high_watermark_at_the_end_has_the_place_of_the_end(log: Log) -> None:
    size = int(log.row[AppendRow.POSITION]) // 3

    def place() -> tuple[int, int]:
        return int(log.words[Slot.HW_BASE]), int(log.words[Slot.HW_POSITION])

    assert place() == (0, 3 * size)
    log.partition.roll(NOW)
    assert place() == (3, 0)
    log.partition.truncate_to(2, NOW)
    assert place() == (0, 2 * size)
    log.partition.truncate_fully(9, NOW)
    assert place() == (9, 0)


def test_the_epoch_of_a_leader_without_records_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be given again; thousands of partitions may be created at a time."""
    log = Log(tmp_path)
    role = log.open().role
    syncs = Syncs(tmp_path, monkeypatch)
    role.lead(2)
    assert syncs.taken() == []
    assert checkpoint.read_leader_epochs(str(log.folder))[-1] == (2, 0)
    log.append(batch(0, [b"v"]))
    log.partition.delete_records(1)
    role.lead(3)
    assert syncs.taken() == []


def test_a_log_has_the_epoch_of_its_leader(log: Log) -> None:
    opened = reopened(log, leads=False, mark=3).partition
    epochs = [int(log.words[Slot.LEADER_EPOCH])]
    for step in (
        lambda: opened.role.follow(7),
        lambda: opened.role.lead(8),
        opened.role.resign,
        lambda: opened.role.lead(5),
    ):
        step()
        assert opened.active.leader_epoch == log.words[Slot.LEADER_EPOCH]
        epochs.append(opened.active.leader_epoch)
    assert epochs == [-1, 7, 8, 8, 8]
