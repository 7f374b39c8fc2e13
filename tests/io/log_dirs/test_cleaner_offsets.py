"""First dirty offsets are written by a thread, with the offsets of the time when it has the
lock."""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.checkpoint_thread import CheckpointThread
from kbroker.io.log_dirs.cleaner_offsets import CleanerOffsets
from tests.io.append.plain_append import NOW
from tests.io.log_dirs.gate import Gate
from tests.io.three_logs import WAIT_S, ThreeLogs

OLD = {("t0", 0): 1, ("other", 0): 7}


class Scene:
    """The checkpoint of three logs. "a" has an old one."""

    def __init__(self, root: Path) -> None:
        self.logs = ThreeLogs(root)
        self.partitions = [log.partition for log in self.logs.opened]
        self.offsets = CleanerOffsets(self.logs.logs.log_dir)
        LogDir(self.logs.paths[0]).update_cleaner_offsets(OLD)

    def clean(self, slot: int, offset: int) -> None:
        self.partitions[slot].cleaned_up_to(offset)
        self.offsets.cleaned(self.partitions[slot])

    def written(self, log_dir: int = 0) -> dict[tuple[str, int], int]:
        return LogDir(self.logs.paths[log_dir]).cleaner_offsets()

    def wait(self) -> None:
        job = self.offsets._thread._job
        assert job is not None
        job.result(WAIT_S)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another write has the checkpoints of "a" locked, and waits for the disk."""
        folder = os.open(self.logs.paths[0], os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(CheckpointThread, "rest_is_due", True)  # as if many logs were cleaned
    return Scene(tmp_path)


def test_the_offset_of_one_cleaned_log_is_written_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointThread, "rest_is_due", False)
    scene.clean(0, 2)
    scene.wait()
    assert scene.written() == OLD | {("t0", 0): 2}
    scene.clean(0, 3)  # the first write has ended, without a check in between
    scene.wait()
    assert scene.written() == OLD | {("t0", 0): 3}
    scene.offsets.close()


def test_offsets_of_many_logs_are_written_together_later(scene: Scene) -> None:
    scene.clean(0, 2)
    scene.clean(1, 3)
    assert not scene.offsets._thread.is_busy
    assert scene.written() == OLD
    scene.offsets.close()
    assert scene.written() == OLD | {("t0", 0): 2, ("t1", 0): 3}


def test_appends_do_not_wait_while_another_write_has_the_lock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def watched(fd: int, operation: int) -> None:
        assert threading.current_thread() is not threading.main_thread(), "appends wait for this"
        lock(fd, operation)

    with scene.locked():
        monkeypatch.setattr(fcntl, "flock", watched)
        scene.clean(0, 2)
        scene.offsets.write()
        scene.clean(1, 3)
        scene.offsets.write()  # in progress: nothing begins
        assert scene.written() == OLD
    scene.wait()
    assert scene.written() == OLD | {("t0", 0): 2}
    scene.offsets.write()
    scene.wait()
    assert scene.written() == OLD | {("t0", 0): 2, ("t1", 0): 3}
    scene.offsets.close()


def test_one_write_has_the_offsets_of_all_logs_that_were_cleaned(scene: Scene) -> None:
    for slot in range(3):
        scene.clean(slot, slot + 1)
    scene.clean(0, 3)
    scene.offsets.write()
    scene.wait()
    assert scene.written() == OLD | {("t0", 0): 3, ("t1", 0): 2}
    assert scene.written(1) == {("t2", 0): 3}
    scene.offsets.close()


def test_an_offset_that_a_truncation_lowers_meanwhile_stays_low(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, tombstones of the new records would go before the records that these delete."""
    gate = Gate(monkeypatch, "cleaner-offsets", LogDir, "update_cleaner_offsets")
    scene.clean(0, 3)
    scene.offsets.write()
    gate.wait()
    scene.partitions[0].truncate_to(1, NOW)
    scene.logs.logs.truncated(0)
    gate.open()
    scene.offsets.close()
    assert scene.written() == OLD


def test_a_log_that_is_deleted_meanwhile_leaves_no_entry(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "cleaner-offsets", LogDir, "update_cleaner_offsets")
    scene.clean(0, 3)
    scene.clean(1, 3)
    scene.offsets.write()
    gate.wait()
    assert scene.logs.logs.delete([0]) == {}
    gate.open()
    scene.offsets.close()
    assert scene.written() == {("other", 0): 7, ("t1", 0): 3}


def test_a_log_that_moves_meanwhile_leaves_no_entry(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread writes between the removal of the old entries and the move."""
    partition, moved = scene.partitions[0], f"{scene.logs.paths[1]}/t0-0"
    shutil.copytree(partition.folder, moved)
    partition.role.pause()
    relocate = partition.relocate

    def slowly(*arguments: Any) -> None:
        scene.clean(0, 3)
        scene.offsets.write()
        scene.wait()
        assert scene.written() == OLD | {("t0", 0): 3}
        relocate(*arguments)

    monkeypatch.setattr(partition, "relocate", slowly)
    scene.logs.logs.relocate(0, moved, NOW)
    scene.offsets.close()
    assert scene.written() == {("other", 0): 7}


def test_a_stop_writes_what_was_cleaned_during_the_last_write(scene: Scene) -> None:
    with scene.locked():
        scene.clean(0, 2)
        scene.offsets.write()
        scene.clean(0, 3)
        scene.clean(2, 3)
    scene.offsets.close()
    assert scene.written()["t0", 0] == 3
    assert scene.written(1) == {("t2", 0): 3}


@pytest.mark.parametrize("at_stop", [False, True])
def test_a_checkpoint_that_cannot_be_written_is_logged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at_stop: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(LogDir, "update_cleaner_offsets", fail)
    scene.clean(0, 2)
    if not at_stop:
        scene.offsets.write()
    scene.offsets.close()
    assert f"{scene.logs.paths[0]}: cannot write first dirty offsets" in caplog.text
