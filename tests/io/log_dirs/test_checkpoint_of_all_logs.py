"""The checkpoint of all logs, which a thread writes, beside what the loop writes meanwhile."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs import offset_checkpoints
from kbroker.ipc.layout import Slot
from kbroker.log import checkpoint
from tests.io.append.plain_append import NOW
from tests.io.log_dirs.gate import Gate
from tests.io.three_logs import A_IS_OFFLINE, ALL_ONLINE, WAIT_S, ThreeLogs
from tests.log.batch_bytes import batch

THREAD = "checkpoints"
OPEN = 2
"""Recovery point of a synced log of three records in its checkpoint: see
LogDurability.checkpointed."""


@pytest.fixture
def scene(tmp_path: Path) -> ThreeLogs:
    return ThreeLogs(tmp_path)


def sync_all(scene: ThreeLogs) -> None:
    for log in scene.opened:
        log.partition.durability.flush()


def finish(scene: ThreeLogs) -> None:
    scene.logs._checkpoints.close()


def points(log_dir: str) -> dict[tuple[str, int], int]:
    return LogDir(log_dir).recovery_points()


def test_an_append_does_not_wait_for_the_disk_of_the_checkpoint(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_all(scene)
    sync, continues = os.fsync, threading.Event()

    def slow(fd: int) -> None:
        assert threading.current_thread() is not threading.main_thread(), "an append waits for this"
        assert continues.wait(WAIT_S)
        sync(fd)

    with monkeypatch.context() as slow_disk:
        slow_disk.setattr(os, "fsync", slow)
        scene.logs.begin_checkpoint()
        assert scene.opened[0].append(batch(0, [b"v"])) == 3
        scene.logs.take_checkpoint()
        scene.logs.begin_checkpoint()  # in progress: nothing begins
        assert points(scene.paths[0]) == {}
        continues.set()
        finish(scene)
    assert points(scene.paths[0]) == {("t0", 0): OPEN, ("t1", 0): OPEN}
    assert points(scene.paths[1]) == {("t2", 0): OPEN}


def test_each_checkpoint_has_the_offsets_of_its_time(scene: ThreeLogs) -> None:
    for end in (3, 4):
        sync_all(scene)
        scene.logs.begin_checkpoint()
        job = scene.logs._checkpoints._thread._job
        assert job is not None
        job.result(WAIT_S)
        assert points(scene.paths[0])["t0", 0] == end - 1
        scene.opened[0].append(batch(0, [b"v"]))
    finish(scene)


def test_many_logs_are_collected_a_slice_per_turn(scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends would wait for the collection of thousands of logs."""
    monkeypatch.setattr(offset_checkpoints, "SLICE", 1)
    sync_all(scene)
    thread = scene.logs._checkpoints._thread
    scene.logs.begin_checkpoint()
    turns = 1
    while scene.logs.collecting_checkpoint:
        assert not thread.is_busy
        assert not scene.logs._checkpoints.take()
        scene.logs.begin_checkpoint()  # in progress: nothing begins
        scene.logs.collect_checkpoint()
        turns += 1
    assert turns == 3
    finish(scene)
    assert points(scene.paths[0]) == {("t0", 0): OPEN, ("t1", 0): OPEN}
    assert points(scene.paths[1]) == {("t2", 0): OPEN}


def test_a_log_that_is_deleted_while_logs_are_collected_is_left_out(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_checkpoints, "SLICE", 2)
    sync_all(scene)
    scene.logs.begin_checkpoint()
    assert scene.logs.delete([0, 2]) == {}
    scene.logs.collect_checkpoint()
    finish(scene)
    assert points(scene.paths[0]) == {("t1", 0): OPEN}
    assert points(scene.paths[1]) == {}


def test_a_stop_ends_a_collection(scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_checkpoints, "SLICE", 1)
    scene.logs.begin_checkpoint()
    finish(scene)
    assert not scene.logs.collecting_checkpoint
    assert points(scene.paths[0]) == {}


def test_records_deleted_during_a_checkpoint_stay_deleted(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, THREAD, LogDir, "update_log_start_offsets")
    scene.logs.begin_checkpoint()
    gate.wait()
    scene.delete_records(0, 2)
    gate.open()
    finish(scene)
    assert scene.starts(scene.paths[0]) == {("t0", 0): 2}


def test_a_log_start_that_is_on_disk_before_its_log_advances_is_not_replaced(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = scene.opened[0].partition
    scene.delete_records(0, 1)
    advance = partition.advance_log_start

    def late(offset: int) -> None:
        scene.logs.begin_checkpoint()
        finish(scene)
        assert (partition.log_start, scene.starts(scene.paths[0])) == (1, {("t0", 0): 2})
        advance(offset)

    monkeypatch.setattr(partition, "advance_log_start", late)
    scene.logs.advance_log_starts({0: 2})
    assert partition.log_start == 2


def test_a_log_start_stays_on_disk_until_the_segments_before_it_are_renamed(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is killed before that would have the deleted records again."""
    partition = scene.opened[0].partition
    partition.roll(NOW)
    scene.opened[0].append(batch(0, [b"v"]))
    scene.delete_records(0, 3)
    gate = Gate(monkeypatch, THREAD, LogDir, "update_log_start_offsets")
    scene.logs.begin_checkpoint()
    gate.wait()
    starts: list[dict[tuple[str, int], int]] = []
    delete = partition.segments.delete_oldest

    def late(*arguments: Any) -> None:
        assert partition.base_offsets == [3]
        gate.open()
        finish(scene)
        starts.append(scene.starts(scene.paths[0]))
        delete(*arguments)

    monkeypatch.setattr(partition.segments, "delete_oldest", late)
    assert partition.retention(NOW) == 1
    assert starts == [{("t0", 0): 3}]


def test_a_log_start_in_the_name_of_the_first_file_leaves_the_checkpoint(scene: ThreeLogs) -> None:
    partition = scene.opened[0].partition
    partition.roll(NOW)
    scene.delete_records(0, 3)
    assert scene.starts(scene.paths[0]) == {("t0", 0): 3}
    assert partition.retention(NOW) == 1
    scene.logs.begin_checkpoint()
    finish(scene)
    assert scene.starts(scene.paths[0]) == {}


def test_a_point_that_was_lowered_during_a_checkpoint_stays_low(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_all(scene)
    scene.logs._checkpoints.write(scene.logs)
    gate = Gate(monkeypatch, THREAD, LogDir, "update_recovery_points")
    scene.logs.begin_checkpoint()
    gate.wait()
    scene.opened[0].partition.truncate_to(1, NOW)
    scene.logs.truncated(0)
    gate.open()
    finish(scene)
    assert points(scene.paths[0]) == {("t0", 0): 0, ("t1", 0): OPEN}


def test_records_deleted_again_after_a_truncation_are_on_disk_as_deleted(scene: ThreeLogs) -> None:
    """The lower log start is on disk before the log grows again: a start would remove new records
    below the old one."""
    scene.delete_records(0, 2)
    scene.opened[0].partition.truncate_to(1, NOW)
    scene.logs.truncated(0)
    assert scene.starts(scene.paths[0]) == {("t0", 0): 1}
    scene.opened[0].append(batch(0, [b"v"]))
    scene.delete_records(0, 2)
    assert scene.starts(scene.paths[0]) == {("t0", 0): 2}


def test_records_deleted_from_a_log_that_begins_earlier_since_a_truncation_stay_deleted(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an unclean election, while the thread waits for the disk."""
    partition = scene.opened[0].partition
    partition.roll(NOW)
    scene.opened[0].append(batch(0, [b"v"]))
    scene.delete_records(0, 3)
    partition.retention(NOW)
    assert partition.base_offsets == [3]
    gate = Gate(monkeypatch, THREAD, LogDir, "update_log_start_offsets")
    scene.logs.begin_checkpoint()
    gate.wait()
    partition.truncate_to(1, NOW)
    scene.logs.truncated(0)
    for _ in range(2):
        scene.opened[0].append(batch(0, [b"w"]))
    scene.delete_records(0, 2)
    gate.open()
    finish(scene)
    assert scene.starts(scene.paths[0]) == {("t0", 0): 2}


@pytest.mark.parametrize("name", ["update_recovery_points", "update_log_start_offsets"])
def test_a_log_that_is_deleted_during_a_checkpoint_leaves_no_entry(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scene.delete_records(0, 2)
    gate = Gate(monkeypatch, THREAD, LogDir, name)
    scene.logs.begin_checkpoint()
    gate.wait()
    assert scene.logs.delete([0]) == {}
    scene.shared.slots[0, Slot.DURABLE] = 99  # of the next log in this slot
    gate.open()
    finish(scene)
    assert points(scene.paths[0]).keys() == {("t1", 0)}
    assert scene.starts(scene.paths[0]) == {}


def test_a_stop_waits_for_the_checkpoint_and_writes_the_last_one_after_it(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_all(scene)
    gate = Gate(monkeypatch, THREAD, LogDir, "update_recovery_points")
    writers: list[bool] = []
    write = checkpoint.write_offsets

    def watched(path: str, offsets: dict[tuple[str, int], int]) -> None:
        if path.startswith(scene.paths[0]) and offsets:
            writers.append(threading.current_thread() is threading.main_thread())
        write(path, offsets)

    monkeypatch.setattr(checkpoint, "write_offsets", watched)
    scene.logs.begin_checkpoint()
    gate.wait()
    scene.opened[0].append(batch(0, [b"v"]))
    close = scene.logs._checkpoints.close

    def stop() -> None:
        gate.open()
        close()

    monkeypatch.setattr(scene.logs._checkpoints, "close", stop)
    assert scene.logs.close_all(lambda _: (0, "")) == 0
    assert writers == [False, True]
    assert points(scene.paths[0]) == {("t0", 0): 4, ("t1", 0): 3}


@pytest.mark.parametrize(("number", "states"), [(errno.EIO, A_IS_OFFLINE), (errno.ENOSPC, ALL_ONLINE)])
def test_a_log_dir_that_the_thread_cannot_write_fails_in_the_loop(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch, number: int, states: list[int]
) -> None:
    update = LogDir.update_log_start_offsets

    def broken(log_dir: LogDir, *arguments: Any) -> None:
        if log_dir.path == scene.paths[0]:
            raise OSError(number, os.strerror(number))
        update(log_dir, *arguments)

    monkeypatch.setattr(LogDir, "update_log_start_offsets", broken)
    scene.logs.begin_checkpoint()
    job = scene.logs._checkpoints._thread._job
    assert job is not None
    job.result(WAIT_S)
    assert scene.states == ALL_ONLINE
    scene.logs.take_checkpoint()
    assert scene.states == states
    assert points(scene.paths[1]).keys() == {("t2", 0)}
    finish(scene)
