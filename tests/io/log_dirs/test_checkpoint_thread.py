"""One job at a time in a thread, and its failures in the loop."""

import errno
import threading

import pytest

from kbroker.io.log_dirs.checkpoint_thread import CheckpointThread, Failures

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
