"""When the threads of the cleaner look for work."""

import threading

import pytest

from kbroker.cleaner.shift import Shift
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.shared import Shared, Sizes
from kbroker.metrics.slots import Slots

PATIENCE_S = 30.0


@pytest.fixture
def shift() -> Shift:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16))
    config = BrokerConfig({"log.cleaner.backoff.ms": "600000"})
    return Shift(config, Slots(shared.metrics[shared.cleaner_process]))


def test_a_call_ends_the_back_off_also_when_it_came_before_it(shift: Shift) -> None:
    shift.look_now()
    shift.back_off()
    waiting = threading.Thread(target=shift.back_off, daemon=True)
    waiting.start()
    shift.look_now()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_a_call_waits_for_the_least_back_off(shift: Shift, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(shift.stop, "wait", waits.append)
    shift.look_now()
    shift.back_off(7.0)
    assert waits == [7.0]


def test_after_the_end_nobody_backs_off_any_more(shift: Shift) -> None:
    shift.stop.set()
    shift.look_now()
    for _ in range(3):
        shift.back_off()
