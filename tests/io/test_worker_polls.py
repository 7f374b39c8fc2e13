"""The loop of an IO worker that polls before it sleeps, over parts that note their calls."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.io.append.wait_kernel import AT_ONCE
from kbroker.io.busy_poll import BusyPoll
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
    assert scene.waits() == [(NOW_MS + 400, NOW_MS + 400)]
    scene.drain.answers["run"] = 1
    scene.worker._turn()
    scene.drain.answers["run"] = 0
    scene.worker._turn()
    scene.calls.clear()
    for _ in range(3):
        scene.worker._turn()
    assert scene.names == ["drain.wait", "drain.poll", "drain.run"] * 3
    assert scene.waits() == [(NOW_MS + 400, 0)] * 3, "what comes through descriptors has a turn"
    clock[0] += 1_000_000
    scene.worker._turn()
    assert "drain.poll" not in scene.names
    assert scene.waits() == [(NOW_MS + 400, NOW_MS + 400)]


def test_a_worker_with_replicas_polls_after_their_work(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    polling(scene, monkeypatch)
    scene.worker._due_ms = LATER
    scene.replicas.active = True
    turns = iter([True, False])
    scene.replicas.turn = lambda _: next(turns)
    scene.worker._turn()
    assert scene.waits() == [(LATER, AT_ONCE)]
    scene.worker._turn()
    assert scene.names == ["drain.wait", "drain.poll", "drain.run"]


def test_a_worker_whose_clients_have_no_room_for_answers_does_not_poll(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries would end each look at once."""
    polling(scene, monkeypatch)
    assert scene.worker._busy_poll is not None
    scene.worker._busy_poll.worked()
    scene.drain.blocked = True
    scene.worker._turn()
    assert scene.names == ["drain.wait", "drain.run"]
