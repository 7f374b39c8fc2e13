"""The injector brings a broker back that died by itself, however often that takes."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from loadtest.brokers import NoBroker, OwnBroker
from loadtest.clock import Clock
from loadtest.faults.injector import Injector
from loadtest.faults.schedule import Fault


class Mortal:
    """A broker that is dead and starts again at the second try only."""

    kind = "kafka"

    def __init__(self) -> None:
        self.tries = 0

    def alive(self) -> bool:
        return self.tries >= 2

    def revive(self) -> None:
        self.tries += 1
        if not self.alive():
            raise NoBroker("kafka did not start: disk full")


def test_a_broker_that_does_not_start_again_is_tried_again_and_both_are_written_down(tmp_path: Path) -> None:
    broker, clock = Mortal(), Clock()
    plan = [Fault(0.0, "reset", "connections", 0.0, 0.0), Fault(0.1, "reset", "connections", 0.0, 0.0)]
    injector = Injector(tmp_path, cast(OwnBroker, broker), plan, clock.now_ns(), clock, 1, lambda _text: None)
    injector.start()
    injector._thread.join()
    injector.finish()
    rows = [json.loads(line) for line in (tmp_path / "faults.jsonl").read_text().splitlines()]
    assert [(row["fault"], row["outcome"]) for row in rows if row["fault"] == "death"] == [
        ("death", "failed"),
        ("death", "done"),
    ]
    assert injector.counts == {"done": 2, "skipped": 0, "failed": 0}


class Idle:
    """A broker whose cleaner and http process have not started."""

    kind = "kbroker"
    missing: Mapping[str, str] = MappingProxyType({})

    def alive(self) -> bool:
        return True

    def processes(self, role: str) -> list[object]:
        assert role in ("cleaner", "http")
        return []


def test_a_process_that_has_not_been_needed_is_skipped(tmp_path: Path) -> None:
    clock = Clock()
    faults = [("kill", "cleaner"), ("kill", "http"), ("pause", "cleaner"), ("pause", "http")]
    plan = [Fault(0.0, kind, role, 0.0, 0.0) for kind, role in faults]
    injector = Injector(tmp_path, cast(OwnBroker, Idle()), plan, clock.now_ns(), clock, 1, lambda _text: None)
    injector.start()
    injector._thread.join()
    injector.finish()
    assert injector.counts == {"done": 0, "skipped": 4, "failed": 0}
