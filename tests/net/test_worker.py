"""The main of a network process."""

import asyncio
import sys
from collections.abc import Iterator
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


class Ended(Exception):
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


def test_each_tick_lets_requests_in_between_and_frees_memory_until_none_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(worker, "GIVE_BACK_SECONDS", -3600)
    calls: list[str] = []
    chunks = iter([True, True, False, False])

    def release() -> bool:
        calls.append("release")
        return next(chunks)

    def tick(late_s: float) -> Iterator[None]:
        assert late_s >= 0
        calls.append("tick")
        asyncio.get_running_loop().call_soon(calls.append, "request")
        yield
        calls.append("rest")
        if calls.count("tick") == 3:
            raise Ended

    upkeep: Any = SimpleNamespace(tick=tick, release_memory=release)
    fetches: Any = SimpleNamespace(measure=lambda: calls.append("measure"))
    with pytest.raises(Ended):
        asyncio.run(worker._tick(upkeep, fetches))
    tick_of_all = ["tick", "request", "rest"]
    first = [*tick_of_all, "measure", "release", "release", "release"]
    assert calls == [*first, *tick_of_all, "measure", "release", *tick_of_all]
