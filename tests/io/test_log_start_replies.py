"""Replies to DeleteRecords calls wait for the disk, and appends do not."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.io.commands import Commands, LogCommands
from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_start_replies import LogStartReplies
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import DeleteRecords, Reply
from kbroker.protocol.errors import ErrorCode
from tests.io.three_logs import WAIT_S, ThreeLogs
from tests.log.batch_bytes import batch


class Scene:
    """Three logs, and a disk that syncs only while `disk` is set. The loop must not wait for it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs = ThreeLogs(root)
        self.replies = LogStartReplies(self.logs.logs)
        self.commands = Commands(LogCommands(self.logs.logs).handlers)
        self.disk = threading.Event()
        self.begun = threading.Event()
        self.syncs: list[str] = []
        sync = os.fsync

        def slow(fd: int) -> None:
            assert threading.current_thread() is not threading.main_thread(), "appends wait for this"
            self.begun.set()
            assert self.disk.wait(WAIT_S)
            self.syncs.append(Path(f"/proc/self/fd/{fd}").readlink().name)
            sync(fd)

        monkeypatch.setattr(os, "fsync", slow)

    def call(self, call_id: int, slot: int, offset: int) -> None:
        reply = self.commands.handle(call_id, DeleteRecords(slot, offset))
        assert not reply.error
        self.replies.hold(slot, reply)

    def answered(self) -> list[Reply]:
        """The replies of one write, whose end the thread reports."""
        while not (found := self.replies.run()):
            assert self.logs.interrupted.wait(WAIT_S)
            self.logs.interrupted.clear()
        return found

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
    assert scene.answered() == [Reply(1, 1)]
    assert scene.answered() == [Reply(2, 2), Reply(3, 3), Reply(4, 1), Reply(5, 2)]
    assert scene.starts() == [{("t0", 0): 2, ("t1", 0): 3}, {("t2", 0): 1}]
    assert scene.syncs.count("log-start-offset-checkpoint.tmp") == 3, "one for a log dir and a write"


def test_the_successor_of_control_gets_no_reply_to_calls_of_its_predecessor(scene: Scene) -> None:
    scene.disk.set()
    scene.call(1, 0, 1)
    scene.replies.run()
    scene.call(2, 1, 1)
    scene.replies.clear()
    scene.call(1, 2, 2)
    assert scene.answered() == [Reply(1, 2)]


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
    failed, written = scene.answered()
    assert (failed.call_id, failed.value, failed.error) == (1, None, ErrorCode.KAFKA_STORAGE_ERROR)
    assert written == Reply(2, 2)
    assert scene.starts() == [{}, {("t2", 0): 2}]
