"""A cleaner thread and what goes wrong while it cleans."""

import errno
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cleaner import worker
from kbroker.cleaner.cleaner_state import CleanerState
from kbroker.cleaner.log_cleaner import Cleaned, MapTooSmall
from kbroker.cleaner.worker import CleanerThread
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.cleaning_messages import CleanableLog, ClosedSegment, EndCleaning
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.shared import Shared, Sizes
from kbroker.log.errors import CorruptLog
from kbroker.protocol.errors import ErrorCode, KafkaError

ONE = CleanableLog(0, 1, 1.0, True)
NO_METRICS: Any = None


class Failing:
    """A LogCleaner whose disk answers with an error."""

    def __init__(self, number: int) -> None:
        self.number = number

    def clean(self, *_: Any) -> None:
        raise OSError(self.number, "read")


@pytest.mark.parametrize(("number", "offline"), [(errno.EIO, ("/b",)), (errno.ENOSPC, ())])
def test_a_disk_that_can_not_be_read_takes_its_log_dir_offline(
    number: int, offline: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=2))
    job = SimpleNamespace(folder="/b/topic-0")
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=lambda *_: job))
    failed: list[CleanableLog] = []
    state = SimpleNamespace(failed=lambda one, for_good: failed.append(one), stop=None)
    context = SimpleNamespace(
        shared=shared,
        control_sockets=SimpleNamespace(connector=None),
        config=SimpleNamespace(log_dirs=["/a", "/b"]),
    )
    thread = CleanerThread(0, context, state)
    monkeypatch.setattr(thread, "_log_cleaner", lambda: Failing(number))
    assert thread._clean(ONE) is None
    assert failed == [ONE]
    assert LogDirErrors(["/a", "/b"], shared).failed == offline


def a_thread(state: Any) -> CleanerThread:
    context: Any = SimpleNamespace(
        shared=Shared(Sizes(1, 1, 8, 16, 1 << 16)),
        control_sockets=SimpleNamespace(connector=None),
        config=SimpleNamespace(log_dirs=["/a"]),
    )
    return CleanerThread(0, context, state)


@pytest.mark.parametrize("error", [CorruptLog("damaged"), MapTooSmall("too large")])
def test_a_log_that_cannot_be_cleaned_is_left_alone_from_then_on(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clean(*_: Any) -> None:
        raise error

    job = SimpleNamespace(folder="/a/topic-0", segments=(ClosedSegment(0, 10, 5),))
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=lambda *_: job))
    failed: list[bool] = []
    thread = a_thread(SimpleNamespace(failed=lambda _, for_good: failed.append(for_good), stop=None))
    monkeypatch.setattr(thread, "_log_cleaner", lambda: SimpleNamespace(clean=clean))
    assert thread._clean(ONE) is None
    assert failed == [True]


@pytest.mark.parametrize("error", [CorruptLog("cut"), FileNotFoundError(errno.ENOENT, "deleted")])
@pytest.mark.parametrize(
    "later",
    [
        None,
        SimpleNamespace(segments=()),
        SimpleNamespace(segments=(ClosedSegment(0, 10, 5), ClosedSegment(8, 12, 6))),
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_log_that_was_truncated_or_deleted_meanwhile_is_neither_damaged_nor_a_failure(
    error: Exception, later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not cleaned until the next start."""
    job = SimpleNamespace(folder="/a/topic-0", segments=(ClosedSegment(0, 10, 5), ClosedSegment(8, 30, 6)))
    answers = [job, later]

    def ask(*_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def clean(*_: Any) -> None:
        raise error

    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=ask))
    thread = a_thread(SimpleNamespace(failed=lambda *_: pytest.fail("it counts"), stop=None))
    monkeypatch.setattr(thread, "_log_cleaner", lambda: SimpleNamespace(clean=clean))
    if isinstance(later, KafkaError):
        with pytest.raises(KafkaError):
            thread._clean(ONE)
    else:
        assert thread._clean(ONE) is None


def test_a_file_that_is_missing_in_an_unchanged_log_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def clean(*_: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "gone")

    job = SimpleNamespace(folder="/a/topic-0", segments=(ClosedSegment(0, 10, 5),))
    longer = SimpleNamespace(segments=(*job.segments, ClosedSegment(8, 30, 6)))
    answers = [job, longer]
    failed: list[bool] = []
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=lambda *_: answers.pop(0)))
    thread = a_thread(SimpleNamespace(failed=lambda _, for_good: failed.append(for_good), stop=None))
    monkeypatch.setattr(thread, "_log_cleaner", lambda: SimpleNamespace(clean=clean))
    assert thread._clean(ONE) is None
    assert failed == [False]


def test_the_io_worker_hears_how_far_the_log_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[Any] = []
    job = SimpleNamespace(folder="/a/topic-0", first_dirty=3, upper=9)

    def ask(_: int, body: Any) -> Any:
        requested.append(body)
        return job

    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=ask))
    thread = a_thread(SimpleNamespace(stop=None))
    done = Cleaned(end=7)
    monkeypatch.setattr(thread, "_log_cleaner", lambda: SimpleNamespace(clean=lambda *_: done))
    assert thread._clean(ONE) is done
    assert requested[1:] == [EndCleaning(0, 1, 7)]


@pytest.mark.parametrize("answers", [True, False])
def test_the_state_hears_whether_every_io_worker_has_listed_its_logs(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: Any) -> Any:
        if not answers:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return (ONE,)

    heard: list[Any] = []
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=ask))
    thread = a_thread(SimpleNamespace(take_filthiest=lambda *given: heard.append(given), stop=None))
    assert not thread._clean_filthiest()
    assert heard == [([(0, ONE)], True) if answers else ([], False)]


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), LinkClosed("no answer in time")]
)
def test_logs_of_other_io_workers_are_cleaned_while_one_does_not_answer(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(number: int, _: Any) -> Any:
        if number == 0:
            raise error
        return (ONE,)

    heard: list[Any] = []
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=ask))
    thread = a_thread(SimpleNamespace(take_filthiest=lambda *given: heard.append(given), stop=None))
    thread._workers = 2
    assert not thread._clean_filthiest()
    assert heard == [([(1, ONE)], False)]


def test_threads_share_the_memory_of_the_offset_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace())
    monkeypatch.setattr(CleanerState, "threads", 2)
    config = BrokerConfig({"log.cleaner.dedupe.buffer.size": str(4 << 20)})
    thread = a_thread(CleanerState(config, NO_METRICS))
    first = thread._log_cleaner()
    assert first.offset_map.memory_bytes == 2 << 20
    assert thread._log_cleaner() is first
    monkeypatch.setattr(CleanerState, "threads", 4)
    assert thread._log_cleaner().offset_map.memory_bytes == 1 << 20


def test_new_sizes_of_the_buffers_are_used_from_the_next_log_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace())
    settings = {"log.cleaner.dedupe.buffer.size": str(4 << 20), "log.cleaner.threads": "2"}
    state = CleanerState(BrokerConfig(settings), NO_METRICS)
    thread = a_thread(state)
    first = thread._log_cleaner()
    state.config = BrokerConfig({**settings, "log.cleaner.io.buffer.size": str(1 << 20)})
    second = thread._log_cleaner()
    assert second is not first
    assert second._buffer_bytes == 1 << 18
    assert thread._log_cleaner() is second


def test_a_thread_backs_off_only_after_it_has_cleaned_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(worker, "lower_priority", lambda: None)
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(close=lambda: closed.append(True)))
    waits: list[float] = []
    thread = a_thread(SimpleNamespace(stop=threading.Event(), threads=1, back_off=waits.append))
    steps = iter([True, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), True, False, worker.Stopped()])
    waited_before: list[int] = []

    def clean() -> bool:
        waited_before.append(len(waits))
        step = next(steps)
        if isinstance(step, Exception):
            raise step
        return bool(step)

    monkeypatch.setattr(thread, "_clean_filthiest", clean)
    thread.run()
    assert waited_before == [0, 0, 1, 1, 2]
    assert closed == [True]


def test_the_pause_depends_on_the_logs_of_the_check_and_not_on_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy or suspended host a check takes seconds, because it waits for others."""
    stop = threading.Event()
    waits: list[float] = []

    def back_off(checked: int) -> None:
        waits.append(checked)
        stop.set()

    def ask(_: int, __: object) -> tuple[CleanableLog, ...]:
        time.sleep(0.01)
        return ONE, ONE

    monkeypatch.setattr(worker, "lower_priority", lambda: None)
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=ask, close=lambda: None))
    state = SimpleNamespace(stop=stop, threads=1, back_off=back_off, take_filthiest=lambda *_: None)
    a_thread(state).run()
    assert waits == [2]


def test_a_thread_above_the_number_of_the_settings_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "lower_priority", lambda: None)
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(close=lambda: None))
    thread = a_thread(SimpleNamespace(stop=threading.Event(), threads=0))
    monkeypatch.setattr(thread, "_clean_filthiest", lambda: pytest.fail("it cleans"))
    thread.run()


@pytest.mark.parametrize("fails", [False, True])
def test_a_log_is_free_for_other_threads_when_its_cleaning_has_ended(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(ask=lambda *_: (ONE,)))
    done: list[tuple[CleanableLog, Cleaned | None]] = []
    state = SimpleNamespace(
        stop=None, take_filthiest=lambda *_: (0, ONE), done=lambda *ended: done.append(ended[:2])
    )
    thread, cleaned = a_thread(state), Cleaned(end=7)

    def clean(one: CleanableLog) -> Cleaned:
        if fails:
            raise worker.Stopped
        return cleaned

    monkeypatch.setattr(thread, "_clean", clean)
    if fails:
        with pytest.raises(worker.Stopped):
            thread._clean_filthiest()
    else:
        assert thread._clean_filthiest()
    assert done == [(ONE, None if fails else cleaned)]


def test_the_process_runs_as_many_threads_as_its_settings_say_and_wakes_them_when_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16))
    process = shared.process_count + 1
    context: Any = SimpleNamespace(
        shared=shared, process=process, epoch=4, control_sockets=SimpleNamespace(connector=None),
        config=BrokerConfig({"log.dirs": "/a", "log.cleaner.backoff.ms": "1"}),
    )  # fmt: skip
    stops: list[Any] = []
    started: list[int] = []
    joined: list[float] = []
    woken: list[bool] = []
    calls = iter(range(3))

    def settings(_: object) -> dict[str, str]:
        if next(calls) == 2:
            stops[0]()
        return {"log.cleaner.threads": "2"}

    class Thread(SimpleNamespace):
        def __init__(self, number: int, *_: object) -> None:
            super().__init__(
                is_alive=lambda: number == 0, start=lambda: started.append(number), join=joined.append
            )

    monkeypatch.setattr(worker, "on_stop", stops.append)
    monkeypatch.setattr(worker, "lower_priority", lambda: None)
    monkeypatch.setattr(worker, "ControlLink", lambda *_: SimpleNamespace(call=settings))
    monkeypatch.setattr(worker, "CleanerThread", Thread)
    monkeypatch.setattr(CleanerState, "wake_threads", lambda _: woken.append(True))
    os.eventfd_write(shared.cleaner_event_fd, 3)
    worker.main(context)
    assert started == [0, 1, 1, 1], "a thread that has died is replaced"
    assert joined == [worker.JOIN_S] * 2
    assert woken == [True, True], "by the IO workers' calls, and by the stop"
    assert shared.processes[process, ProcessLine.READY] == 4
