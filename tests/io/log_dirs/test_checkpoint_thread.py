"""One job at a time in a thread, and its failures in the loop."""

import errno
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.log_dirs.checkpoint_thread import (
    BUSY_SHARE,
    CheckpointThread,
    Failures,
    by_dir,
    offsets_of_open,
    write_each,
)

WAIT_S = 60
BROKEN = OSError(errno.EIO, "broken")


class Scene:
    """A thread, a job that waits until the test lets it continue, and the failures reported."""

    def __init__(self) -> None:
        self.continues = threading.Event()
        self.failed: list[tuple[str, OSError, threading.Thread]] = []
        self.ran_in: list[threading.Thread] = []
        self.thread = CheckpointThread("test", self._failed)

    def _failed(self, path: str, error: OSError) -> None:
        self.failed.append((path, error, threading.current_thread()))

    def job(self) -> Failures:
        assert self.continues.wait(WAIT_S)
        self.ran_in.append(threading.current_thread())
        return [("a", BROKEN)]

    def take_when_ended(self) -> None:
        assert self.thread._job is not None
        self.thread._job.exception(WAIT_S)
        self.thread.take()


def test_a_job_runs_in_a_thread_and_its_failures_are_reported_in_the_loop() -> None:
    scene = Scene()
    scene.thread.begin(scene.job)
    scene.thread.take()
    assert scene.thread.is_busy
    assert scene.failed == []
    scene.continues.set()
    scene.take_when_ended()
    assert not scene.thread.is_busy
    assert scene.failed == [("a", BROKEN, threading.current_thread())]
    assert scene.ran_in != [threading.current_thread()]
    scene.thread.close()
    assert len(scene.failed) == 1


def test_the_end_waits_for_the_job_in_progress_and_reports_its_failures() -> None:
    scene = Scene()
    scene.thread.begin(scene.job)
    scene.continues.set()
    scene.thread.close()
    assert len(scene.ran_in) == 1
    assert scene.failed == [("a", BROKEN, threading.current_thread())]


def test_a_bug_of_a_job_is_raised_in_the_loop() -> None:
    scene = Scene()

    def job() -> Failures:
        raise ZeroDivisionError

    scene.thread.begin(job)
    with pytest.raises(ZeroDivisionError):
        scene.take_when_ended()


def test_a_long_job_is_followed_by_a_long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    assert not scene.thread.rest_is_due
    scene.continues.set()
    scene.thread.begin(scene.job)
    scene.take_when_ended()
    scene.thread._seconds, scene.thread._ended = 2.0, 100.0
    for now, rests in ((139.0, True), (140.0, False)):
        monkeypatch.setattr("kbroker.io.log_dirs.checkpoint_thread.time.monotonic", lambda now=now: now)
        assert scene.thread.rest_is_due is rests


def test_the_rest_begins_at_the_end_of_the_job_and_not_when_the_loop_learns_of_it() -> None:
    """The loop learns of it up to a second later: until then the next job would wait once more."""
    scene = Scene()
    scene.continues.set()
    scene.thread.begin(scene.job)
    job = scene.thread._job
    assert job is not None
    _, seconds, ended = job.result(60)
    while time.monotonic() <= ended + BUSY_SHARE * seconds:
        time.sleep(0.001)
    scene.thread.take()
    assert not scene.thread.is_busy
    assert not scene.thread.rest_is_due


def test_the_end_of_a_job_is_reported_by_its_thread() -> None:
    ended = threading.Event()
    thread = CheckpointThread("test", lambda *_: None, ended.set)
    thread.begin(list)
    assert ended.wait(WAIT_S)
    thread.close()


def test_a_log_dir_that_cannot_be_written_does_not_stop_the_others() -> None:
    dirs: Any = [(SimpleNamespace(path=name), [name]) for name in "abc"]
    written: list[tuple[str, list[str]]] = []

    def write(folder: Any, partitions: Any) -> None:
        if folder.path == "b":
            raise BROKEN
        written.append((folder.path, partitions))

    assert write_each(dirs, write) == [("b", BROKEN)]
    assert written == [("a", ["a"]), ("c", ["c"])]


def test_only_log_dirs_in_use_are_written() -> None:
    dirs: Any = {"/a": SimpleNamespace(failed=None), "/b": SimpleNamespace(failed=BROKEN)}
    partitions: Any = [SimpleNamespace(folder=folder) for folder in ("/a/t-0", "/b/t-1", "/a/t-2")]
    assert by_dir(dirs.__getitem__, partitions) == [(dirs["/a"], [partitions[0], partitions[2]])]


def test_offsets_are_those_of_logs_that_are_open_in_the_log_dir() -> None:
    def log(number: int, log_dir: str = "/a", is_open: bool = True) -> Any:
        return SimpleNamespace(topic="t", partition=number, folder=f"{log_dir}/t-{number}", is_open=is_open)

    logs = [log(0), log(1), log(2, "/b"), log(3, is_open=False), log(4)]
    offsets = (0, -1, 5, 5, 7)
    found = offsets_of_open("/a", logs, lambda each: offsets[each.partition])
    assert found == {("t", 0): 0, ("t", 4): 7}
