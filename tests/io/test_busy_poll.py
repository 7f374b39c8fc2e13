"""An IO worker that looks for entries for some time after its last work, before it sleeps."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.io.busy_poll import GAP_NS, POLLED, TURN_NS, WITH_REPLICAS_NS, BusyPoll
from kbroker.metrics import layout as ml
from kbroker.metrics.slots import ROW_WORDS
from tests.io.append.drain_case import DrainCase, batch

START_NS = 10**12
POLL_US = 1000


class Scene:
    """Clocks that only move as the test says. found: entries of the next look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.cpu_ns, self.found = START_NS, 10**9, 0
        self.looks: list[int] = []
        self.words = np.zeros(ROW_WORDS, np.int64)
        drain: Any = SimpleNamespace(metrics=SimpleNamespace(words=self.words), poll=self._look)
        self.busy_poll = BusyPoll(POLL_US, drain)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "thread_time_ns", lambda: self.cpu_ns)

    def compute(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds
        self.cpu_ns += nanoseconds

    def _look(self, time_ns: int) -> int:
        self.looks.append(time_ns)
        self.compute(1000 if self.found else time_ns)
        return self.found

    def counted(self, step: Callable[[], object]) -> tuple[int, int]:
        """ns of polling and of idle time that a step has counted."""
        before = self.words[[POLLED, ml.IDLE_NS]]
        step()
        polled, idle = (self.words[[POLLED, ml.IDLE_NS]] - before).tolist()
        return polled, idle


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_polling_continues_for_its_time_after_the_last_work(scene: Scene) -> None:
    assert not scene.busy_poll.continues(), "there was no work yet"
    scene.busy_poll.worked()
    assert scene.busy_poll.continues()
    scene.now_ns += POLL_US * 1000 - 1
    assert scene.busy_poll.continues()
    scene.now_ns += 1
    assert not scene.busy_poll.continues()


def test_a_call_is_short_and_shorter_with_replicas(scene: Scene) -> None:
    scene.busy_poll.poll(False)
    scene.busy_poll.poll(True)
    assert scene.looks == [TURN_NS, WITH_REPLICAS_NS]
    assert TURN_NS <= 100_000


def test_the_time_of_polling_counts_as_idle(scene: Scene) -> None:
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (TURN_NS, TURN_NS)
    scene.compute(5000)  # a wait for events that had none, and counts 2 us as idle itself
    scene.words[ml.IDLE_NS] += 2000
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (TURN_NS + 5000, TURN_NS + 3000)


def test_other_work_between_two_calls_does_not_count(scene: Scene) -> None:
    scene.busy_poll.poll(False)
    scene.compute(GAP_NS)
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (TURN_NS, TURN_NS)
    scene.found = 1
    scene.busy_poll.poll(False)
    scene.compute(5000)  # the entry
    scene.busy_poll.worked()
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (1000, 1000)


def test_a_worker_that_lost_its_core_was_idle_and_took_no_cpu_time(scene: Scene) -> None:
    def look(time_ns: int) -> int:
        scene.compute(time_ns)
        scene.now_ns += 10**9
        return 0

    scene.busy_poll._drain.poll = look
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (TURN_NS, TURN_NS + 10**9)
    scene.now_ns += 10**9
    assert scene.counted(lambda: scene.busy_poll.poll(False)) == (TURN_NS, TURN_NS + 2 * 10**9)


def test_a_look_ends_at_the_first_entry(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    began = time.monotonic_ns()
    assert case.drain.poll(2_000_000) == 0
    assert time.monotonic_ns() - began >= 2_000_000
    case.push(batch(), client=1)
    case.push(batch(), client=0)
    assert case.drain.poll(1 << 62) == 2
    case.drain.run()
    assert case.drain.poll(0) == 0
