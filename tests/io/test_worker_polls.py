"""The loop of an IO worker that polls before it sleeps, over parts that note their calls."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.io.busy_poll import BusyPoll
from kbroker.io.worker import BLOCKED_MS
from tests.io.worker_scene import LATER, NOW_MS, Scene


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    yield made
    made.sockets.close()


def polling(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the worker poll for 1 ms after its last work; returns a clock, in ns."""
    clock = [NOW_MS * 1_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    scene.drain.metrics = scene.real_drain.metrics
    scene.drain.answers["poll"] = 0
    scene.worker._busy_poll = BusyPoll(1000, scene.drain)
    return clock


def test_a_worker_without_the_setting_does_not_poll(scene: Scene) -> None:
    assert scene.worker._busy_poll is None
    scene.worker._turn()
    assert "drain.poll" not in scene.names


def test_a_worker_polls_after_its_last_work_and_then_sleeps(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = polling(scene, monkeypatch)
    scene.worker._due_ms = NOW_MS + 400
    scene.worker._turn()
    assert "drain.poll" not in scene.names, "there was no work yet"
    scene.calls.clear()
    announced: list[bool] = []

    def poll(_: int) -> int:
        announced.append(scene.announced)
        return 0

    scene.drain.poll = poll
    counts = iter([1, 0])
    scene.replicas.active = True
    scene.replicas.turn = lambda _: next(counts, 0)
    scene.replicas.answers = {"pending": False, "next_due_ms": LATER}
    for _ in range(3):
        scene.worker._turn()
    assert announced == [False] * 3
    assert scene.waits() == [0] * 3, "what comes through descriptors has a turn, which does not block"
    clock[0] += 1_000_000
    scene.worker._turn()
    assert len(announced) == 3
    assert scene.waits() == [0.399]


def test_a_worker_that_is_busy_for_long_polls_after_that(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = polling(scene, monkeypatch)
    scene.drain.waiting = 1
    scene.drain.answers["run"] = 1
    scene.worker._turn()
    scene.drain.waiting = 0
    clock[0] += 999_999
    scene.worker._turn()
    assert scene.names.count("drain.poll") == 1


def test_a_worker_whose_clients_have_no_room_for_answers_does_not_poll(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries would end each look at once."""
    polling(scene, monkeypatch)
    scene.worker._due_ms = NOW_MS + 400
    assert scene.worker._busy_poll is not None
    scene.worker._busy_poll.worked()
    scene.drain.waiting = 1
    scene.worker._turn()
    assert "drain.poll" not in scene.names
    assert scene.waits() == [BLOCKED_MS / 1000]
