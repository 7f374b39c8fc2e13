"""The upkeep of a network process: its work once a second, and the steps of its stop."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.ipc.ring import ring_push
from kbroker.net import upkeep
from kbroker.net.rows import Connection, Flag
from kbroker.net.upkeep import Upkeep
from tests.net.tables import new_tables

IDLE_NS = 600_000 * 1_000_000  # connections.max.idle.ms
NOW_NS = 2 * IDLE_NS


class Scene:
    """The upkeep of a process without an event loop. calls: what the upkeep asks the parts of the
    process for, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, idle_ms: int = IDLE_NS // 1_000_000) -> None:
        self.calls: list[object] = []
        self.closed: list[tuple[int, str]] = []
        self.lost = 0
        self.late_requests = 0
        self.tables = new_tables()
        note = self._note
        self.slow = SimpleNamespace(on=True, tick=note("slow"))
        counts = SimpleNamespace(
            tick=note("counts"),
            slow=self.slow,
            clients=SimpleNamespace(tick=note("clients")),
            from_disk=note("disk"),
        )
        self.process: Any = SimpleNamespace(
            tables=self.tables,
            config=SimpleNamespace(get_int=lambda name: {"connections.max.idle.ms": idle_ms}[name]),
            connections={},
            counts=counts,
            senders=SimpleNamespace(used=lambda: 3),
            access=SimpleNamespace(audit=SimpleNamespace(tick=note("audit"))),
            quotas=SimpleNamespace(use="use", stop=note("quotas stop")),
            topics=SimpleNamespace(slots_in_use=lambda: 5),
            handoff=SimpleNamespace(stop=note("handoff stop")),
            turn=note("turn"),
            close=lambda connection, why: self.closed.append((connection.row, why)),
        )
        monkeypatch.setattr(upkeep, "pump", note("pump"))
        monkeypatch.setattr(upkeep, "settle_lost", self._settle_lost)
        monkeypatch.setattr(time, "monotonic_ns", lambda: NOW_NS)
        self.upkeep = Upkeep(self.process)
        reads: Any = SimpleNamespace(count=lambda slots: slots * 100)
        unfinished: Any = SimpleNamespace(
            update=note("unfinished"), close_oldest=lambda _: self.late_requests
        )
        self.upkeep._reads, self.upkeep._unfinished = reads, unfinished

    def _note(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments) if arguments else name)

    def _settle_lost(self, address: int, results: int) -> int:
        assert (address, results) == (self.tables.address, len(self.tables.results))
        return self.lost

    def tick(self, late_s: float) -> None:
        for step in self.upkeep.steps(late_s):
            step()

    def connection(self, idle_ns: int = 0, flags: int = 0) -> int:
        """A connection whose last bytes are that old; its row."""
        row = self.tables.take_row(0, flags, NOW_NS - idle_ns)
        self.process.connections[row] = SimpleNamespace(row=row)
        return row


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_an_idle_connection_is_closed_and_a_used_one_stays(scene: Scene) -> None:
    idle = scene.connection(IDLE_NS + 1)
    scene.connection(IDLE_NS)
    scene.tick(0)
    assert scene.closed == [(idle, "idle")]


def test_a_connection_that_waits_for_its_answer_is_not_idle(scene: Scene) -> None:
    scene.connection(IDLE_NS + 1, Flag.BUSY)
    produced = scene.connection(IDLE_NS + 1)
    scene.tables.connections[produced, Connection.HEAD] = 0
    scene.tick(0)
    assert scene.closed == []


def test_a_connection_that_takes_nothing_of_its_answer_is_idle(scene: Scene) -> None:
    """Answers of Python, and those to a queue of Produce, were kept for ever."""
    busy = scene.connection(IDLE_NS + 1, Flag.BUSY | Flag.OUT_BLOCKED)
    produced = scene.connection(IDLE_NS + 1, Flag.OUT_BLOCKED)
    scene.tables.connections[produced, Connection.HEAD] = 0
    sending = scene.connection(IDLE_NS + 1, Flag.SENDING | Flag.OUT_BLOCKED)
    scene.connection(IDLE_NS, Flag.BUSY | Flag.OUT_BLOCKED)
    scene.tick(0)
    assert scene.closed == [(row, "idle") for row in (busy, produced, sending)]


def test_a_row_without_an_open_connection_is_not_idle(scene: Scene) -> None:
    shut = scene.connection(IDLE_NS + 1)
    scene.tables.connections[shut, Connection.FLAGS] &= ~Flag.OPEN
    del scene.process.connections[scene.connection(IDLE_NS + 1)]
    scene.tick(0)
    assert scene.closed == []


def test_no_connection_is_idle_when_the_setting_is_minus_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, idle_ms=-1)
    scene.connection(NOW_NS)
    scene.tick(0)
    assert scene.closed == []


def test_a_connection_may_be_idle_for_no_time_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, idle_ms=0)
    idle = scene.connection(1)
    scene.tick(0)
    assert scene.closed == [(idle, "idle")]


def test_each_second_counts_are_sent_in_order(scene: Scene) -> None:
    scene.tick(0.25)
    assert scene.calls == [
        ("counts", 0.25, 3),
        ("slow", {}),
        "audit",
        ("clients", "use"),
        ("disk", 500),
        "turn",
        ("unfinished", NOW_NS),
    ]


def test_slow_requests_are_not_looked_for_when_they_are_off(scene: Scene) -> None:
    scene.slow.on = False
    scene.tick(0)
    assert ("slow", {}) not in scene.calls


def test_requests_lost_with_an_io_worker_are_answered_in_the_same_second(scene: Scene) -> None:
    scene.lost = 1
    scene.tick(0)
    assert scene.calls[-3:] == ["turn", "turn", ("unfinished", NOW_NS)]


def test_room_of_closed_requests_is_used_in_the_same_second(scene: Scene) -> None:
    scene.late_requests = 1
    scene.tick(0)
    assert scene.calls[-3:] == ["turn", ("unfinished", NOW_NS), "turn"]


def test_memory_of_a_burst_is_released_a_second_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(scene.tables, "trim", lambda: calls.append("trim"))
    monkeypatch.setattr(scene.tables, "release_chunk", lambda: len(calls) < 2)
    scene.tick(0)
    assert calls == ["trim"]
    assert scene.upkeep.release_memory()
    scene.tick(0)
    assert not scene.upkeep.release_memory()


def test_appends_of_a_predecessor_are_waited_for(scene: Scene) -> None:
    ring = scene.tables.shared.append_ring(scene.tables.client, 0)
    assert not scene.upkeep.old_entries()
    assert scene.calls == [("pump", scene.tables.address)]
    ring_push(ring, scene.tables.shared.sizes.ring_entries, np.zeros(8, np.int64))
    assert scene.upkeep.old_entries()


def test_a_stopping_process_reads_from_no_connection(scene: Scene) -> None:
    rows = [scene.connection(flags=Flag.FETCH), scene.connection()]
    scene.upkeep.stop_reading()
    assert scene.calls == ["handoff stop", "quotas stop"]
    flags = scene.tables.connections[rows, Connection.FLAGS].tolist()
    assert flags == [Flag.OPEN | Flag.FETCH | Flag.MUTED, Flag.OPEN | Flag.MUTED]


def test_a_stopping_process_waits_for_each_open_connection_without_its_answer(scene: Scene) -> None:
    scene.connection()
    assert scene.upkeep.unanswered() == 0
    scene.connection(flags=Flag.BUSY)
    scene.connection(flags=Flag.OUT_BLOCKED)
    produced = scene.connection()
    scene.tables.connections[produced, Connection.HEAD] = 0
    assert scene.upkeep.unanswered() == 3
    scene.tables.connections[produced, Connection.FLAGS] &= ~Flag.OPEN
    assert scene.upkeep.unanswered() == 2


def test_all_connections_are_closed_when_the_broker_stops(scene: Scene) -> None:
    rows = [scene.connection(), scene.connection(flags=Flag.BUSY)]
    scene.upkeep.close_all()
    assert scene.closed == [(row, "the broker stops") for row in rows]
