"""The order of syncs and answers of an IO worker's logs, and what an error does to its log only."""

import errno
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.durability import Durability
from kbroker.io.files import producer_snapshot
from kbroker.io.files.log_dir import LogDir
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.io.log_dirs.log_move import LogMove
from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.ipc.messages import OpenPartition
from kbroker.log import checkpoint, files
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.io.append.plain_append import NOW, topic_config
from tests.io.three_logs import A_IS_OFFLINE, EMPTY, WAIT_S, ThreeLogs
from tests.log.batch_bytes import batch


@pytest.fixture
def scene(tmp_path: Path) -> ThreeLogs:
    return ThreeLogs(tmp_path)


def test_listeners_hear_of_new_settings_after_they_apply(scene: ThreeLogs) -> None:
    heard: list[tuple[int, bool]] = []
    scene.logs.configured_listeners.append(lambda log: heard.append((log.slot, log.config.compact)))
    scene.logs.configure(scene.opened[2].partition, topic_config(cleanup_policy="compact"))
    assert heard == [(2, True)]


def test_a_slot_without_a_log_has_no_leader_here(scene: ThreeLogs) -> None:
    assert scene.refusal(EMPTY) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_log_that_an_error_of_another_has_taken_offline_is_neither_rolled_nor_opened(
    scene: ThreeLogs,
) -> None:
    """One drain may report a failed write, and stop because another log needs a new segment, or its
    files."""
    scene.logs.failures.write_failed(0, errno.EIO)
    scene.logs.roll(1)
    assert not scene.logs.open_files(1)
    assert scene.states == A_IS_OFFLINE


def test_deleted_records_are_on_disk_as_deleted_when_their_log_start_is_written(scene: ThreeLogs) -> None:
    assert scene.delete_records(0, 2) == 2
    assert scene.starts(scene.paths[0]) == {("t0", 0): 2}
    assert scene.shared.slots[0, Slot.LOG_START] == 2
    with pytest.raises(KafkaError):
        scene.logs.delete_records(EMPTY, 1)


def test_a_leaders_log_start_is_on_disk_before_others_see_it_and_within_the_high_watermark(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.shared.slots[0, Slot.HIGH_WATERMARK] = 2
    seen: list[tuple[int, dict[tuple[str, int], int]]] = []
    publish = scene.opened[0].partition.published.publish

    def watched(*arguments: Any, **settings: Any) -> None:
        publish(*arguments, **settings)
        seen.append((int(scene.shared.slots[0, Slot.LOG_START]), scene.starts(scene.paths[0])))

    monkeypatch.setattr(scene.opened[0].partition.published, "publish", watched)
    scene.logs.advance_log_starts({0: 3, EMPTY: 1})
    assert seen == [(2, {("t0", 0): 2})]
    scene.logs.advance_log_starts({0: 1})
    assert scene.shared.slots[0, Slot.LOG_START] == 2, "it never goes back"


def test_a_leaders_log_start_that_finds_no_room_is_not_seen_before_there_is_room(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments below it are removed, which makes room."""
    log = scene.opened[0]
    log.partition.roll(NOW)
    log.append(batch(0, [b"v"]))
    log.append(batch(0, [b"v"]))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full_disk:
        full_disk.setattr(checkpoint, "write_offsets", full)
        scene.logs.advance_log_starts({0: 4})
    assert (scene.shared.slots[0, Slot.LOG_START], log.partition.base_offsets) == (3, [3])
    scene.logs.advance_log_starts({0: 4})
    assert (scene.shared.slots[0, Slot.LOG_START], scene.starts(scene.paths[0])) == (4, {("t0", 0): 4})


def test_a_deleted_log_leaves_its_folder_and_its_lines_in_checkpoints(scene: ThreeLogs) -> None:
    scene.delete_records(0, 2)
    scene.logs.begin_checkpoint()
    scene.logs._checkpoints.close()
    assert LogDir(scene.paths[0]).recovery_points().keys() == {("t0", 0), ("t1", 0)}
    folder = Path(scene.opened[0].partition.folder)
    assert scene.logs.delete([0]) == {}
    assert not folder.exists()
    assert scene.shared.slots[0, Slot.STATE] == SlotState.DELETED
    assert LogDir(scene.paths[0]).recovery_points().keys() == {("t1", 0)}
    assert scene.starts(scene.paths[0]) == {}


def test_deleted_logs_share_one_sync_of_their_log_dir_after_their_renames(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []

    def watched(folder: str) -> None:
        left = sorted(path.name for path in Path(folder).glob("t*-0"))
        synced.append((folder, left))

    monkeypatch.setattr(files, "sync_folder", watched)
    monkeypatch.setattr(scene.logs._checkpoints, "forget", lambda *_: None)
    assert scene.logs.delete([0, 1, EMPTY, 2]) == {}
    assert synced == [(scene.paths[0], []), (scene.paths[1], [])]


def test_a_log_dir_that_cannot_be_synced_fails_its_deletions_and_no_others(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = OSError(errno.EIO, "broken")
    sync = files.sync_folder

    def refuse(folder: str) -> None:
        if folder == scene.paths[0]:
            raise broken
        sync(folder)

    monkeypatch.setattr(files, "sync_folder", refuse)
    assert scene.logs.delete([0, 2, 1]) == {0: broken, 1: broken}


def test_a_log_that_cannot_be_renamed_fails_alone(scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = scene.opened[0].partition.folder
    Path(gone).rename(f"{gone}-elsewhere")
    errors = scene.logs.delete([0, 1])
    assert list(errors) == [0]
    assert isinstance(errors[0], FileNotFoundError)


def left_in(log_dir: str) -> bool:
    """Whether an IO worker says that its logs were closed."""
    return Path(log_dir, f"{files.CLOSED_LOGS}0").exists()


def test_a_stop_says_that_logs_were_closed_once_they_are_on_disk(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool, dict[tuple[str, int], int]]] = []
    whole = LogDir.sync

    def sync(log_dir: LogDir) -> None:
        assert all(state != SlotState.ONLINE for state in scene.states)
        synced.append((log_dir.path, left_in(log_dir.path), log_dir.recovery_points()))
        whole(log_dir)

    monkeypatch.setattr(LogDir, "sync", sync)
    assert scene.logs.close_all(lambda _: (0, "")) == 0
    assert synced == [(path, False, {}) for path in scene.paths]
    assert all(left_in(path) for path in scene.paths)
    assert LogDir(scene.paths[0]).recovery_points() == {("t0", 0): 3, ("t1", 0): 3}
    assert LogDir(scene.paths[1]).recovery_points() == {("t2", 0): 3}


def test_a_log_dir_that_cannot_be_synced_at_a_stop_does_not_pass_for_closed(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(log_dir: LogDir) -> None:
        if log_dir.path == scene.paths[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(LogDir, "sync", sync)
    scene.logs.close_all(lambda _: (0, ""))
    assert [left_in(path) for path in scene.paths] == [False, True]
    assert scene.errors.of(scene.paths[0]) == errno.EIO
    assert LogDir(scene.paths[0]).recovery_points() == {}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_log_dir_without_descriptors_for_its_sync_at_a_stop_is_checked_by_the_next_start(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Nothing has failed: it must not go offline, and not pass for synced."""

    def sync(log_dir: LogDir) -> None:
        if log_dir.path == scene.paths[0]:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(LogDir, "sync", sync)
    assert scene.logs.close_all(lambda _: (0, "")) == 1
    assert [left_in(path) for path in scene.paths] == [False, True]
    assert [scene.errors.of(path) for path in scene.paths] == [0, 0]
    assert LogDir(scene.paths[0]).recovery_points() == {}


def test_a_log_that_cannot_be_closed_takes_its_log_dir_along(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(sync: bool = True) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(scene.opened[0].partition, "close", close)
    scene.logs.close_all(lambda _: (0, ""))
    assert scene.errors.of(scene.paths[0]) == errno.EIO
    assert scene.errors.of(scene.paths[1]) == 0


@pytest.mark.parametrize(("number", "left"), [(errno.ENOSPC, 1), (errno.EMFILE, 1), (errno.EIO, 0)])
def test_a_log_that_finds_no_room_to_be_closed_is_checked_by_the_next_start(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, number: int, left: int
) -> None:
    """It lacks its last snapshot: after a clean stop, its producers would be unknown."""

    def write(*_: object) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(scene.opened[2].partition.producers, "last_snapshot", write)
    assert scene.logs.close_all(lambda _: (0, "")) == left
    assert scene.errors.of(scene.paths[0]) == 0
    assert bool(scene.errors.of(scene.paths[1])) == (not left)


def test_a_batch_that_a_full_disk_refused_is_not_known_after_a_stop(scene: ThreeLogs) -> None:
    """Its producer repeats it: the next start acknowledged it as a duplicate, and the log did not
    have it."""
    log = scene.opened[0]
    log.append(batch(0, [b"v"], producer_id=4, producer_epoch=0, base_sequence=0))
    refused = BatchMetadata(0, 0, log.partition.log_end, log.partition.log_end, NOW)
    scene.drain.producers.put(0, ProducerEntry(5, 0, last_timestamp=NOW, batches=(refused,)))
    scene.logs.failures.log_failed(0, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert scene.logs.close_all(lambda _: (0, "")) == 0
    assert [entry.producer_id for entry in producer_snapshot.read(str(log.folder), 4)] == [4]


@pytest.mark.parametrize("flags", [0, SlotFlag.DURABLE, SlotFlag.REPLICATED])
def test_records_that_waited_for_the_disk_are_readable_once_they_need_not_wait(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    """Readers got them with the next append: the end of the sync did not move the high
    watermark."""
    log, notified = scene.opened[0], list[int]()
    monkeypatch.setattr(scene.drain, "notify", notified.append)
    log.flags = log.words[Slot.FLAGS] = SlotFlag.DURABLE
    log.append(batch(0, [b"v"]))
    log.words[Slot.FLAGS] = flags
    scene.logs.configure(log.partition, topic_config())
    assert (log.partition.high_watermark, notified) == ((3, []) if flags else (4, [0]))
    scene.logs.configure(log.partition, topic_config())
    assert len(notified) == (not flags)


@pytest.mark.parametrize("flags", [0, SlotFlag.DURABLE, SlotFlag.DURABLE | SlotFlag.REPLICATED])
def test_records_from_before_write_caching_was_turned_off_are_synced(scene: ThreeLogs, flags: int) -> None:
    """A retry of them waited until another append."""
    log = scene.opened[0]
    durability = Durability(scene.shared, scene.drain, scene.logs)
    log.append(batch(0, [b"v"]))
    assert not log.partition.durability.is_synced
    log.words[Slot.FLAGS] = flags
    scene.logs.configure(log.partition, topic_config())
    if flags:
        durability.wait()
        durability.take_flushed()
    assert log.partition.durability.is_synced == bool(flags)
    scene.logs.configure(log.partition, topic_config())
    assert not durability._syncing
    durability.close()


def test_a_roll_that_fails_is_an_error_of_the_log_dir(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.logs.roll(0)
    assert scene.opened[0].partition.base_offsets == [0, 3]

    def roll(now_ms: int) -> None:
        assert now_ms > NOW
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(scene.opened[1].partition, "roll", roll)
    scene.logs.roll(1)
    assert scene.states == A_IS_OFFLINE


def test_fetches_that_wait_at_a_log_are_woken_in_its_new_log_dir(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, notified = scene.opened[0].partition, list[tuple[int, str]]()
    monkeypatch.setattr(
        scene.drain, "notify", lambda slot: notified.append((slot, scene.logs.require(slot).folder))
    )
    partition.durability.flush()
    target = f"{scene.paths[1]}/t0-0"
    shutil.copytree(partition.folder, target)
    partition.role.pause()
    scene.logs.relocate(0, target, NOW)
    assert notified == [(0, target)]


@pytest.mark.parametrize(("clean", "former_start"), [(False, 0), (True, 0), (False, 9)])
def test_a_log_that_is_opened_where_its_move_ended_is_as_it_was(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, clean: bool, former_start: int
) -> None:
    """The checkpoints of its new log dir, which were read when this process began, had nothing of
    it: deleted records were back. After a clean stop it had no producers either. If a deleted topic
    of its name had begun there above its end, it lost all records."""
    logs, log, there = scene.logs, scene.opened[0], scene.paths[1]
    if former_start:
        LogDir(there).update_log_start_offsets({("t0", 0): former_start})
    logs._checkpoints.at_start(there)
    logs._openings._clean_dirs = frozenset([there] if clean else ())
    log.append(batch(0, [b"v"], producer_id=5, producer_epoch=0, base_sequence=0))
    scene.delete_records(0, 2)
    move = LogMove(log.partition, there, lambda: math.inf)
    move.start()
    log.partition.role.pause()
    assert move.complete()
    logs.checkpoint_copy(0, there)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail() -> None:
        raise full

    monkeypatch.setattr(log.partition.epochs, "write", fail)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        logs.relocate(0, move.rename(), NOW)
    logs.failures.log_lost(0, there, full)
    logs.open(OpenPartition(0, 0, "t0", 0, b"\1" * 16, there, 0, topic_config()), 1)
    while not logs.take_opened(lambda _: (0, "")):
        assert scene.interrupted.wait(WAIT_S)
        scene.interrupted.clear()
    opened = logs.require(0)
    assert (opened.folder, opened.log_start, opened.log_end) == (f"{there}/t0-0", 2, 4)
    assert [entry.producer_id for entry in opened.producers.entries()] == [5]
    assert logs.failures.lost == {}
