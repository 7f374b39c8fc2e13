"""When the threads of the cleaner look for work."""

import threading

import pytest

from kbroker.cleaner.cleaner_state import CleanerState
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.shared import Shared, Sizes
from kbroker.metrics.slots import Slots

PATIENCE_S = 30.0


@pytest.fixture
def state() -> CleanerState:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16))
    config = BrokerConfig({"log.cleaner.backoff.ms": "600000"})
    return CleanerState(config, Slots(shared.metrics[shared.cleaner_process]))


def test_a_call_ends_the_back_off_also_when_it_came_before_it(state: CleanerState) -> None:
    state.wake_threads()
    state.back_off()
    waiting = threading.Thread(target=state.back_off, daemon=True)
    waiting.start()
    state.wake_threads()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_a_call_waits_for_the_least_back_off(state: CleanerState, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(state.stop, "wait", waits.append)
    state.wake_threads()
    state.back_off(7.0)
    assert waits == [7.0]


def test_after_the_end_nobody_backs_off_any_more(state: CleanerState) -> None:
    state.stop.set()
    state.wake_threads()
    for _ in range(3):
        state.back_off()
