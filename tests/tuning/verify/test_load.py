"""The paced acks of a turn, with a connection and a clock of the test."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tuning.verify import load as module
from tuning.verify.figures import ACKS_PER_SECOND
from tuning.verify.load import WARM, Load, Parts


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Connection:
    """Answers after a time that the test sets. acked: called with the number of each ack."""

    def __init__(self, clock: Clock, acked: Callable[[int], None]) -> None:
        self._clock, self._acked, self._count = clock, acked, 0

    def produce(self, _request: bytes) -> None:
        self._count += 1
        self._clock.now += 0.0005
        self._acked(self._count - WARM)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def acks_of(
    monkeypatch: pytest.MonkeyPatch,
    beside: threading.Event | None,
    acked: Callable[[Clock, int], None],
) -> list[float]:
    """Of a part of two seconds."""
    clock = Clock()
    made: Any = lambda *_: Connection(clock, lambda number: acked(clock, number))  # noqa: E731
    monkeypatch.setattr(module, "Connection", made)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return Parts(("127.0.0.1", 1), Load(4.0), clock).acks(0.5, beside)


def test_acks_last_as_long_as_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = acks_of(monkeypatch, threading.Event(), lambda *_: None)
    assert len(times) == pytest.approx(2 * ACKS_PER_SECOND, abs=1)
    assert times == pytest.approx([0.5] * len(times))


@pytest.mark.parametrize("done_after", [0, 1, 150])
def test_acks_beside_other_work_end_with_it(monkeypatch: pytest.MonkeyPatch, done_after: int) -> None:
    """Work that ends at its limit of bytes leaves the broker idle; one is measured at least."""
    done = threading.Event()
    times = acks_of(monkeypatch, done, lambda _, number: done.set() if number >= done_after else None)
    assert len(times) == max(done_after, 1)


def test_acks_after_a_stall_count_from_when_they_were_due(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(clock: Clock, number: int) -> None:
        clock.now += 0.1 if number == 10 else 0.0

    times = acks_of(monkeypatch, None, stalled)
    assert len(times) == pytest.approx(2 * ACKS_PER_SECOND, abs=1)
    assert max(times) == pytest.approx(100.5)
    assert sum(each > 50 for each in times) > 20
