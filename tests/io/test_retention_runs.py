"""A retention run checks all logs, also when the next one is due before its end."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.housekeeping import SLICE, Housekeeping
from kbroker.metrics.slots import private

LOGS = 2 * SLICE + 3


class Logs:
    """The part of an IO worker's logs that retention uses; none is open any more when it is
    checked."""

    collecting_checkpoint = False

    def __init__(self, count: int = LOGS) -> None:
        self.count = count
        self.checked: list[int] = []
        self.sweeps = 0

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(slot=slot) for slot in range(self.count))

    def get(self, slot: int) -> None:
        self.checked.append(slot)

    def begin_checkpoint(self) -> None: ...

    def sweep_deleted(self, _: int) -> None:
        self.sweeps += 1


def housekeeping_of(logs: Any, config: BrokerConfig, now_ms: int = 0) -> Housekeeping:
    part: Any = SimpleNamespace(measure=None, write_checkpoints=None)
    drain: Any = SimpleNamespace(producers=part, metrics=private(), rows=None, counters=None)
    return Housekeeping(config, logs, drain, part, part, now_ms)


def retaining(logs: Any) -> Housekeeping:
    """Housekeeping that does no more than to retain, each millisecond."""
    housekeeping = housekeeping_of(logs, BrokerConfig())
    retain = housekeeping._tasks[0]
    housekeeping._tasks = [retain]
    retain.due_ms = retain.interval_ms = 1
    return housekeeping


def test_retention_reaches_the_last_logs_with_an_interval_shorter_than_a_run() -> None:
    """Each interval began with the first logs again."""
    logs = Logs()
    housekeeping = retaining(logs)
    housekeeping.retain_soon(1)
    for now_ms in range(1, 7):
        housekeeping.run(now_ms)
    assert logs.checked == list(range(LOGS)) * 2
    assert logs.sweeps == 2


def test_a_worker_that_had_no_logs_yet_checks_those_that_come() -> None:
    logs = Logs(0)
    housekeeping = retaining(logs)
    housekeeping.run(1)
    logs.count = 2
    housekeeping.run(2)
    assert logs.checked == [0, 1]


@pytest.mark.parametrize(("points", "starts"), [("12", "13"), ("13", "12")])
def test_periodic_work_has_the_intervals_of_its_own_settings(points: str, starts: str) -> None:
    """The checkpoints of points and of starts are written together."""
    config = BrokerConfig(
        {
            "log.retention.check.interval.ms": "11",
            "log.initial.task.delay.ms": "5",
            "log.flush.offset.checkpoint.interval.ms": points,
            "log.flush.start.offset.checkpoint.interval.ms": starts,
            "producer.id.expiration.check.interval.ms": "14",
            "producer.id.expiration.ms": "15",
        }
    )
    made = housekeeping_of(Logs(), config, now_ms=100)
    found = {task.run.__name__: (task.interval_ms, task.due_ms) for task in made._tasks}
    assert found["_retain"] == (11, 105)
    assert found["begin_checkpoint"] == (12, 112)
    assert found["_expire_producers"] == (14, 114)
    assert made._producers.expiration_ms == 15
