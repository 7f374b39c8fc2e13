"""The main of a network process."""

import asyncio
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from kbroker.net import worker


def test_threads_give_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel gives up the interpreter's lock, so the loop waits for a busy thread after
    each."""
    found: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", found.append)
    monkeypatch.setattr(uvloop, "run", lambda serving: serving.close())
    context: Any = None
    worker.main(context, None, {})
    assert found
    assert found[0] < sys.getswitchinterval() / 5


class Ended(BaseException):
    """Of a loop that would not end."""


class Stopping:
    """The upkeep and the fetches of a process that stops. left: unanswered connections at each
    check."""

    def __init__(self, left: list[int]) -> None:
        self.left = left
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)

    def unanswered(self) -> int:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def test_a_stop_answers_received_requests_before_it_closes_their_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "DRAIN_POLL_SECONDS", 0)
    monkeypatch.setattr(worker, "DRAIN_SECONDS", 3600)
    process: Any = Stopping([2, 1, 0])
    asyncio.run(worker._drain(process, process))
    assert process.calls == ["stop_reading", "finish_all", "close_all"]
    assert process.left == [0]


def test_a_stop_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "DRAIN_SECONDS", 0)
    process: Any = Stopping([1])
    asyncio.run(worker._drain(process, process))
    assert process.calls == ["stop_reading", "finish_all", "close_all"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds that pass soon, and a release of memory that has time for all of it."""
    monkeypatch.setattr(worker, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(worker, "GIVE_BACK_SECONDS", -3600)


@pytest.mark.usefixtures("quick")
def test_each_tick_lets_requests_in_between_and_frees_memory_until_none_is_left() -> None:
    calls: list[str] = []
    chunks = iter([True, True, False, False])

    def release() -> bool:
        calls.append("release")
        return next(chunks)

    def first() -> None:
        calls.append("first")
        asyncio.get_running_loop().call_soon(calls.append, "request")

    def rest() -> None:
        calls.append("rest")
        if calls.count("rest") == 3:
            raise Ended

    def steps(late_s: float) -> tuple[Callable[[], None], ...]:
        assert late_s >= 0
        return first, rest

    upkeep: Any = SimpleNamespace(steps=steps, release_memory=release)
    fetches: Any = SimpleNamespace(measure=lambda: calls.append("measure"))
    with pytest.raises(Ended):
        asyncio.run(worker._tick(upkeep, fetches))
    steps_of_all = ["first", "request", "rest"]
    once = [*steps_of_all, "measure", "release", "release", "release"]
    assert calls == [*once, *steps_of_all, "measure", "release", *steps_of_all]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("failing", ["first", "rest", "measure", "release"])
def test_a_step_of_the_upkeep_that_fails_ends_no_other(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first exception ended the upkeep of the process: no connection was idle any more."""
    calls: list[str] = []

    def step(name: str) -> Callable[[], None]:
        def run() -> None:
            calls.append(name)
            if calls.count("first") == 3:
                raise Ended
            if name == failing:
                raise ValueError(name)

        return run

    upkeep: Any = SimpleNamespace(
        steps=lambda _: (step("first"), step("rest")), release_memory=step("release")
    )
    fetches: Any = SimpleNamespace(measure=step("measure"))
    with pytest.raises(Ended):
        asyncio.run(worker._tick(upkeep, fetches))
    assert calls == [*["first", "rest", "measure", "release"] * 2, "first"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [failing]


def test_a_line_says_that_an_io_worker_keeps_the_process_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "LATE_SECONDS", 0)
    asyncio.run(worker._old_entries_taken(lambda: False))
    assert not caplog.text
    left = [True] * 5
    asyncio.run(worker._old_entries_taken(lambda: bool(left) and left.pop()))
    assert caplog.text.count("an IO worker hangs") == 1
