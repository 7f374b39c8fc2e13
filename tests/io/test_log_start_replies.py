"""Replies to DeleteRecords calls wait for the disk, and appends do not."""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.commands import Commands, LogCommands
from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_start_replies import LogStartReplies
from kbroker.io.openings import load_again
from kbroker.io.recovery.loaded_log import LoadedLog
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import DeleteRecords, Reply
from kbroker.log import checkpoint
from kbroker.protocol.errors import ErrorCode
from tests.io.append.plain_append import NOW
from tests.io.log_dirs.gate import Gate
from tests.io.three_logs import ALL_ONLINE, WAIT_S, ThreeLogs
from tests.log.batch_bytes import batch

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Scene:
    """Three logs, and a disk that syncs only while `disk` is set. The loop must not wait for it,
    unless `loop_syncs`. retained: slots whose segments are to be deleted soon."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs = ThreeLogs(root)
        self.retained: list[int] = []
        self.loop_syncs = False
        self.replies = LogStartReplies(self.logs.logs, self.retained.append)
        self.commands = Commands(LogCommands(self.logs.logs).handlers)
        self.disk = threading.Event()
        self.begun = threading.Event()
        self.syncs: list[str] = []
        sync = os.fsync

        def slow(fd: int) -> None:
            in_loop = threading.current_thread() is threading.main_thread()
            assert self.loop_syncs or not in_loop, "appends wait for this"
            self.begun.set()
            assert self.disk.wait(WAIT_S)
            self.syncs.append(Path(f"/proc/self/fd/{fd}").readlink().name)
            sync(fd)

        monkeypatch.setattr(os, "fsync", slow)

    def call(self, call_id: int, slot: int, offset: int) -> None:
        reply = self.commands.handle(call_id, DeleteRecords(slot, offset))
        assert not reply.error
        self.replies.hold(slot, reply)

    def answered(self, count: int = 1) -> list[Reply]:
        """The next replies, at least this many, by call. The threads report the ends of writes."""
        found = self.replies.run()
        while len(found) < count:
            assert self.logs.interrupted.wait(WAIT_S)
            self.logs.interrupted.clear()
            found += self.replies.run()
        return sorted(found, key=lambda reply: reply.call_id)

    def refused(self) -> list[int]:
        """The calls of one write, which all fail with a retriable error."""
        replies = self.answered()
        assert {(reply.value, reply.error) for reply in replies} == {(None, ErrorCode.KAFKA_STORAGE_ERROR)}
        return [reply.call_id for reply in replies]

    def starts(self) -> list[dict[tuple[str, int], int]]:
        return [self.logs.starts(path) for path in self.logs.paths]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(tmp_path, monkeypatch)
    yield scene
    scene.disk.set()
    scene.logs.logs._checkpoints.close()


def test_appends_do_not_wait_while_a_checkpoint_has_the_lock(scene: Scene) -> None:
    scene.logs.logs.begin_checkpoint()
    assert scene.begun.wait(WAIT_S)  # the checkpoints of the log dir are locked
    scene.call(1, 0, 2)
    assert scene.replies.run() == []
    assert scene.logs.shared.slots[0, Slot.LOG_START] == 2
    assert scene.logs.opened[0].append(batch(0, [b"v"])) == 3
    assert scene.replies.run() == []
    scene.disk.set()
    assert scene.answered() == [Reply(1, 2)]
    assert scene.starts() == [{("t0", 0): 2}, {}]


def test_a_reply_is_sent_when_the_log_start_is_on_disk(scene: Scene) -> None:
    scene.call(1, 0, 2)
    assert scene.replies.run() == []
    assert scene.begun.wait(WAIT_S)
    assert scene.replies.run() == []
    assert scene.starts() == [{}, {}]
    scene.disk.set()
    assert scene.answered() == [Reply(1, 2)]
    assert scene.starts() == [{("t0", 0): 2}, {}]
    assert scene.replies.run() == []


def test_calls_that_arrive_during_a_write_share_the_next_one(scene: Scene) -> None:
    scene.call(1, 0, 1)
    scene.replies.run()
    assert scene.begun.wait(WAIT_S)
    for call_id, slot, offset in ((2, 0, 2), (3, 1, 3), (4, 2, 1), (5, 0, 2)):
        scene.call(call_id, slot, offset)
        assert scene.replies.run() == []
    scene.disk.set()
    assert scene.answered(5) == [Reply(1, 1), Reply(2, 2), Reply(3, 3), Reply(4, 1), Reply(5, 2)]
    assert scene.starts() == [{("t0", 0): 2, ("t1", 0): 3}, {("t2", 0): 1}]
    assert scene.syncs.count("log-start-offset-checkpoint.tmp") == 3, "one for a log dir and a write"


def test_the_successor_of_control_gets_no_reply_to_calls_of_its_predecessor(scene: Scene) -> None:
    scene.disk.set()
    scene.call(1, 0, 1)
    scene.replies.run()
    scene.call(2, 1, 1)
    scene.replies.clear()
    scene.call(1, 0, 2)
    assert scene.answered() == [Reply(1, 2)]
    assert scene.starts() == [{("t0", 0): 2, ("t1", 0): 1}, {}], "others see them already"


def test_a_slow_log_dir_does_not_delay_calls_of_another(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, slow = LogDir.update_log_start_offsets, threading.Event()

    def slowly(log_dir: LogDir, *arguments: Any) -> None:
        if log_dir.path == scene.logs.paths[0]:
            assert slow.wait(WAIT_S)
        update(log_dir, *arguments)

    monkeypatch.setattr(LogDir, "update_log_start_offsets", slowly)
    scene.disk.set()
    scene.call(1, 0, 2)
    scene.replies.run()
    for call_id in (2, 3):
        scene.call(call_id, 2, call_id - 1)
        assert scene.answered() == [Reply(call_id, call_id - 1)]
    slow.set()
    assert scene.answered() == [Reply(1, 2)]
    assert scene.starts() == [{("t0", 0): 2}, {("t2", 0): 2}]


def test_a_log_dir_that_cannot_be_written_fails_the_calls_of_its_logs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = LogDir.update_log_start_offsets

    def broken(log_dir: LogDir, *arguments: object) -> None:
        if log_dir.path == scene.logs.paths[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        update(log_dir, *arguments)

    monkeypatch.setattr(LogDir, "update_log_start_offsets", broken)
    scene.disk.set()
    scene.call(1, 0, 2)
    scene.call(2, 2, 2)
    failed, written = scene.answered(2)
    assert (failed.call_id, failed.value, failed.error) == (1, None, ErrorCode.KAFKA_STORAGE_ERROR)
    assert written == Reply(2, 2)
    assert scene.starts() == [{}, {("t2", 0): 2}]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOMEM])
def test_a_full_disk_fails_calls_until_the_segments_below_are_removed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write, tries = checkpoint.write_offsets, list[str]()

    def full(path: str, *arguments: Any) -> None:
        tries.append(path)
        if path.startswith(scene.logs.paths[0]):
            raise OSError(number, os.strerror(number))
        write(path, *arguments)

    scene.disk.set()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(checkpoint, "write_offsets", full)
        scene.call(1, 0, 2)
        assert scene.refused() == [1]
        scene.call(2, 2, 2)
        assert scene.answered() == [Reply(2, 2)]
        assert scene.replies.run() == []
        assert len(tries) == 2, "a call that failed is not written again by itself"
    assert scene.starts() == [{}, {("t2", 0): 2}]
    assert scene.retained == [0], "that makes room"
    assert scene.logs.states == ALL_ONLINE
    scene.call(3, 0, 2)
    assert scene.answered() == [Reply(3, 2)]
    assert scene.starts() == [{("t0", 0): 2}, {("t2", 0): 2}]


def test_a_call_that_a_full_disk_has_room_for_makes_room_at_once(scene: Scene) -> None:
    scene.logs.logs.failures.log_failed(0, FULL)
    scene.disk.set()
    scene.call(1, 1, 2)
    scene.call(2, 2, 2)
    assert scene.answered(2) == [Reply(1, 2), Reply(2, 2)]
    assert scene.retained == [1]


def test_a_log_that_was_closed_for_a_moment_fails_its_calls(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room again, and the log is loaded while the thread writes the log starts."""
    gate = Gate(monkeypatch, "log-starts", fcntl, "flock")

    def slowly(*arguments: Any) -> LoadedLog:
        gate.open()
        assert scene.logs.interrupted.wait(WAIT_S)
        return load_again(*arguments)

    monkeypatch.setattr("kbroker.io.log_dirs.full_disks.load_again", slowly)
    monkeypatch.setattr(LogDir, "space", lambda _: (1 << 40, 1 << 40))
    scene.disk.set()
    scene.call(1, 0, 2)
    scene.replies.run()
    gate.wait()
    scene.logs.logs.failures.log_failed(0, FULL)
    scene.logs.logs.failures.full_disks.heal()
    assert scene.refused() == [1]
    assert (scene.starts(), scene.logs.states) == ([{}, {}], ALL_ONLINE)
    scene.call(2, 0, 2)
    assert scene.answered() == [Reply(2, 2)]
    assert scene.starts() == [{("t0", 0): 2}, {}]


def move_away(scene: Scene) -> None:
    """The end of a move of the first log to the other log dir."""
    partition, moved = scene.logs.opened[0].partition, f"{scene.logs.paths[1]}/t0-0"
    shutil.copytree(partition.folder, moved)
    partition.role.pause()
    scene.loop_syncs = True
    scene.logs.logs.relocate(0, moved, NOW)
    scene.loop_syncs = False


@pytest.mark.parametrize("written", [False, True])
def test_a_log_that_moves_meanwhile_has_its_log_start_on_disk(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """Whether or not a thread has written it where the log was before."""
    gate = Gate(monkeypatch, "log-starts", fcntl, "flock")
    scene.disk.set()
    scene.call(1, 0, 2)
    scene.replies.run()
    gate.wait()
    if written:
        gate.open()
        scene.logs.wait_for_log_starts()
    move_away(scene)
    gate.open()
    assert scene.answered() == [Reply(1, 2)]
    assert scene.starts() == [{}, {("t0", 0): 2}]


def test_a_log_that_moves_to_a_full_log_dir_fails_its_calls(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "log-starts", fcntl, "flock")
    scene.disk.set()
    scene.call(1, 0, 2)
    scene.replies.run()
    gate.wait()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(scene.logs.logs._checkpoints, "write", lambda _: None)
        move_away(scene)
    gate.open()
    assert scene.refused() == [1]
    assert scene.starts() == [{}, {}]
    scene.call(2, 0, 2)
    assert scene.answered() == [Reply(2, 2)]
    assert scene.starts() == [{}, {("t0", 0): 2}]
