"""The upkeep of a network process: its work once a second, and the steps of its stop."""

import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.config.principals import ANONYMOUS
from kbroker.ipc.ring import ring_push
from kbroker.net import upkeep
from kbroker.net.connections.connection import FilePart, held_bytes
from kbroker.net.rows import Connection, Flag
from kbroker.net.upkeep import (
    CLOSING_NS,
    MIN_TAKEN_BYTES,
    UNREAD_GRACE_NS,
    SlowReaders,
    Upkeep,
)
from kbroker.net.usage.request_counts import UNREAD
from tests.net.tables import new_tables

IDLE_NS = 600_000 * 1_000_000  # connections.max.idle.ms
NOW_NS = 2 * IDLE_NS
NS = 1_000_000_000
WINDOW_S = 10


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
            refuse=lambda connection, why: self.closed.append((connection.row, why)),
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
        unsent: deque[Any] = deque()
        self.process.connections[row] = SimpleNamespace(
            row=row,
            user=ANONYMOUS,
            accepted=SimpleNamespace(host="10.0.0.1"),
            unsent=unsent,
            unsent_bytes=lambda: held_bytes(unsent),
        )
        return row

    def unread(self, size: int, host: str, quiet_ns: int = UNREAD_GRACE_NS + 1) -> int:
        """A connection that has not taken so many bytes of an answer, and nothing for a while."""
        row = self.connection(quiet_ns, Flag.OUT_BLOCKED)
        connection = self.process.connections[row]
        connection.accepted.host = host
        connection.unsent += [b"", memoryview(bytes(size)), FilePart(SimpleNamespace(fd=0), 0, 1 << 40)]
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


def test_a_connection_that_takes_hardly_anything_of_its_answer_is_idle(scene: Scene) -> None:
    """It moved a byte now and then, and so was not idle."""
    rows = [scene.connection(0, Flag.OUT_BLOCKED) for _ in range(2)]
    scene.upkeep._slow.update(NOW_NS - IDLE_NS)
    scene.tables.connections[rows, Connection.BYTES_OUT] = IDLE_NS // NS * MIN_TAKEN_BYTES
    scene.tables.connections[rows[0], Connection.BYTES_OUT] -= 1
    scene.tick(0)
    assert scene.closed == [(rows[0], "idle")]


def test_unread_answers_hold_some_memory_in_all(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, as much as all connections could have, until they were idle for ten minutes."""
    monkeypatch.setattr(upkeep, "MAX_UNREAD_BYTES", 100)
    scene.unread(60, "10.0.0.2", quiet_ns=UNREAD_GRACE_NS)
    few = scene.unread(30, "10.0.0.3")
    scene.tick(0)
    assert scene.closed == []
    small, large = (scene.unread(size, "10.0.0.4") for size in (20, 25))
    scene.tick(0)
    assert scene.closed == [(large, UNREAD), (small, UNREAD)], "of the client that has the most"
    scene.closed.clear()
    scene.unread(30, "10.0.0.5", quiet_ns=0)
    scene.tick(0)
    assert scene.closed[-1] == (few, UNREAD), "all that may be closed are"


def test_connections_that_are_due_at_once_are_closed_in_pieces(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, ten thousand that were opened together, and idle, were closed in one piece."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: NOW_NS + CLOSING_NS // 2 * len(scene.closed))
    rows = sorted(scene.connection(IDLE_NS + 1) for _ in range(3))
    scene.tick(0)
    assert scene.closed == [(row, "idle") for row in rows[:2]]
    for row in rows[:2]:
        del scene.process.connections[row]
    scene.closed.clear()
    scene.tick(0)
    assert scene.closed == [(rows[2], "idle")]


class Readers:
    """One connection that takes bytes of its answers; seconds pass only by `after`."""

    def __init__(self) -> None:
        self.tables = new_tables()
        self.slow = SlowReaders(self.tables, WINDOW_S * NS)
        self.now_s = 1
        self.row = self.open()

    def open(self) -> int:
        row = self.tables.take_row(0, Flag.OUT_BLOCKED, 0)
        self.words = self.tables.connections[row]
        return row

    def after(self, seconds: int, taken: int = 0) -> list[int]:
        self.now_s += seconds
        self.words[Connection.BYTES_OUT] += taken
        return self.slow.update(self.now_s * NS)


def test_each_window_is_looked_at_by_itself() -> None:
    """A client that has taken much before takes nothing for it."""
    readers = Readers()
    assert readers.after(0) == []
    assert readers.after(WINDOW_S, 1 << 30) == []
    assert readers.after(WINDOW_S - 1, 9 * MIN_TAKEN_BYTES) == []
    assert readers.after(1) == [readers.row]
    assert readers.after(1) == [readers.row], "there was no time to close it"


def test_an_answer_that_was_taken_ends_the_window() -> None:
    readers = Readers()
    assert readers.after(0) == []
    readers.words[Connection.FLAGS] &= ~Flag.OUT_BLOCKED
    assert readers.after(WINDOW_S - 1) == []
    readers.words[Connection.FLAGS] |= Flag.OUT_BLOCKED
    assert readers.after(1) == []
    assert readers.after(WINDOW_S) == [readers.row]


def test_another_connection_in_the_row_has_a_window_of_its_own() -> None:
    readers = Readers()
    assert readers.after(0) == []
    readers.tables.give_row(readers.row)
    assert readers.open() == readers.row
    assert readers.after(WINDOW_S) == []


def test_the_table_of_connections_may_grow() -> None:
    readers = Readers()
    assert readers.after(0) == []
    rows = len(readers.tables.connections)
    while len(readers.tables.connections) == rows:
        readers.open()
    assert readers.after(WINDOW_S) == [readers.row], "the others have begun now"
    assert len(readers.after(WINDOW_S)) == rows + 1


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
