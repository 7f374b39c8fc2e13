"""Events of a network process for the audit log: counted, bounded, and sent once a second."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config import acls
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.messages import MORE_REFUSALS, AuditEvent
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.security import audit as module
from kbroker.net.security.audit import MAX_TEXT, Audit
from kbroker.net.security.failed_logins import LINES_OF_A_USER, MORE_LOGINS

NOW_MS = 5


class Scene:
    """The events of some connections. sent: the events of each message to control."""

    def __init__(self, per_second: int = 0, log_dir: str = "/audit") -> None:
        self.rows = ConnectionRow.table(8)
        self.connections: dict[int, Any] = {}
        self.sent: list[tuple[AuditEvent, ...]] = []
        settings = {
            "log.dirs": "/d",
            "kbroker.audit.log.dir": log_dir,
            "kbroker.audit.sample.per.second": str(per_second),
        }
        tables: Any = SimpleNamespace(connections=self.rows)
        self.audit = Audit(tables, BrokerConfig(settings), self.connections)
        self.audit.send = lambda message: self.sent.append(message.events)

    def connect(self, row: int) -> Any:
        """A new connection in a row, also in the place of another."""
        self.connections[row] = SimpleNamespace(
            principal=f"User:{row}",
            accepted=SimpleNamespace(host="10.0.0.1", port=5000 + row),
            listener=SimpleNamespace(listener="SASL"),
        )
        return self.connections[row]

    def move(self, row: int, bytes_in: int, bytes_out: int) -> None:
        """So many bytes in all."""
        self.rows[row, ConnectionRow.BYTES_IN] = bytes_in
        self.rows[row, ConnectionRow.BYTES_OUT] = bytes_out

    def samples(self) -> list[tuple[str, str]]:
        """Principals and texts of the samples of the next second."""
        self.sent.clear()
        self.audit.tick()
        return [(event.principal, event.reason) for events in self.sent for event in events]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wall_clock_ms", lambda: NOW_MS)


def test_logins_are_sent_once_at_the_end_of_the_second() -> None:
    scene = Scene()
    client = scene.connect(1)
    scene.audit.login(client, "PLAIN", "bob", "wrong")
    scene.audit.login(client, "PLAIN", "ann", "")
    assert scene.sent == []
    scene.audit.tick()
    where = "10.0.0.1", 5001, "SASL", "PLAIN"
    good = AuditEvent(NOW_MS, "login", "User:ann", *where, True)
    bad = AuditEvent(NOW_MS, "login", "User:bob", *where, False, reason="wrong")
    assert scene.sent == [(good, bad)]
    scene.audit.tick()
    assert scene.sent == [(good, bad)]


def test_logins_beyond_some_of_a_second_share_a_line() -> None:
    scene = Scene()
    for _ in range(LINES_OF_A_USER + 3):
        scene.audit.login(scene.connect(1), "PLAIN", "ann", "")
    scene.audit.tick()
    *single, rest = scene.sent[0]
    assert len(single) == LINES_OF_A_USER
    assert (rest.event, rest.allowed, rest.reason, rest.count) == ("login", True, MORE_LOGINS, 3)


def test_texts_of_a_client_are_cut() -> None:
    scene = Scene()
    for reason in ("", "r" * (MAX_TEXT + 1)):
        scene.audit.login(scene.connect(1), "m" * (MAX_TEXT + 1), "u" * (MAX_TEXT + 1), reason)
    scene.audit.tick()
    ((good, bad),) = scene.sent
    assert good.principal == bad.principal == "User:" + "u" * MAX_TEXT
    assert good.operation == bad.operation == "m" * MAX_TEXT
    assert (good.reason, bad.reason) == ("", "r" * MAX_TEXT)


def test_refusals_are_counted_by_client_operation_and_resource() -> None:
    scene = Scene()
    one, other = scene.connect(1), scene.connect(2)
    scene.audit.refused(one, acls.READ, acls.TOPIC, "t")
    scene.audit.refused(one, acls.WRITE, acls.TRANSACTIONAL_ID, "t")
    scene.audit.refused(one, acls.IDEMPOTENT_WRITE, acls.CLUSTER, "kafka-cluster")
    scene.audit.refused(other, acls.READ, acls.TOPIC, "t")
    scene.audit.refused(one, acls.READ, acls.TOPIC, "t", 3)
    scene.audit.tick()
    who, whom = ("User:1", "10.0.0.1", 5001, "SASL"), ("User:2", "10.0.0.1", 5002, "SASL")
    expected = (
        AuditEvent(NOW_MS, "refusal", *who, "Fetch", False, ("t",), count=4),
        AuditEvent(NOW_MS, "refusal", *who, "Produce", False, ("transactional id t",)),
        AuditEvent(NOW_MS, "refusal", *who, "Produce", False, ("kafka-cluster",)),
        AuditEvent(NOW_MS, "refusal", *whom, "Fetch", False, ("t",)),
    )
    assert scene.sent == [expected]
    scene.audit.tick()
    assert scene.sent == [expected]


@pytest.mark.parametrize(("kind", "shown"), [(acls.TOPIC, ""), (acls.TRANSACTIONAL_ID, "transactional id ")])
def test_names_of_refused_resources_are_cut(kind: int, shown: str) -> None:
    """They need not exist: a client invents them. Before, four thousand of 32 kB were kept for a
    second, and then sent to control in one message."""
    scene = Scene()
    client = scene.connect(1)
    for end in "ab":
        scene.audit.refused(client, acls.WRITE, kind, "n" * MAX_TEXT + end)
    scene.audit.tick()
    ((event,),) = scene.sent
    assert (event.names, event.count) == ((shown + "n" * MAX_TEXT,), 2)


def test_a_client_with_very_many_refusals_has_the_lines_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any number of connections; before, each topic that it invented had a line, on each."""
    monkeypatch.setattr(module, "REFUSALS_OF_A_CLIENT", 2)
    scene = Scene()
    clients = [scene.connect(1), scene.connect(2), scene.connect(3)]
    clients[1].principal = clients[0].principal
    for name in "abcd":
        for client in clients[:2]:
            scene.audit.refused(client, acls.WRITE, acls.TOPIC, name)
    scene.audit.refused(clients[2], acls.WRITE, acls.TOPIC, "a", 3)
    scene.audit.tick()
    found = [
        [(each.principal, each.port, each.names, each.count) for each in events] for events in scene.sent
    ]
    assert found == [
        [
            ("User:1", 5001, ("a",), 1),
            ("User:1", 5002, ("a",), 1),
            ("User:1", 0, (MORE_REFUSALS,), 6),
            ("User:3", 5003, ("a",), 3),
        ]
    ]
    scene.audit.refused(clients[0], acls.WRITE, acls.TOPIC, "b")
    scene.audit.tick()
    assert [event.names for event in scene.sent[-1]] == [("b",)], "each second begins at zero"


def test_the_refusals_of_very_many_clients_have_a_number_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSALS_OF_ALL", 2)
    scene = Scene()
    for row in range(1, 6):
        scene.audit.refused(scene.connect(row), acls.READ, acls.TOPIC, "t")
    scene.audit.tick()
    found = [(event.principal, event.host, event.port, event.count) for event in scene.sent[0]]
    assert found == [
        ("User:1", "10.0.0.1", 5001, 1),
        ("User:2", "10.0.0.1", 5002, 1),
        ("User:*", "*", 0, 3),
    ]


def test_very_many_refusals_do_not_wait_for_the_end_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    scene = Scene()
    client = scene.connect(1)
    for name in "aba":
        scene.audit.refused(client, acls.READ, acls.TOPIC, name)
    assert scene.sent == []
    scene.audit.refused(client, acls.READ, acls.TOPIC, "c")
    counts = [[(event.names, event.count) for event in events] for events in scene.sent]
    assert counts == [[(("a",), 2), (("b",), 1)]]
    scene.audit.tick()
    assert [event.names for event in scene.sent[-1]] == [("c",)]


def test_very_many_logins_do_not_wait_for_the_end_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    scene = Scene()
    client = scene.connect(1)
    scene.audit.login(client, "PLAIN", "ann", "")
    assert scene.sent == []
    scene.audit.login(client, "PLAIN", "bob", "")
    assert [[event.principal for event in events] for events in scene.sent] == [["User:ann", "User:bob"]]


def test_connections_that_moved_bytes_are_sampled_in_turn() -> None:
    scene = Scene(per_second=2)
    for row in (5, 1, 3):
        scene.connect(row)
    scene.move(1, 10, 20)
    scene.move(5, 7, 0)
    assert scene.samples() == [("User:1", "10 bytes received, 20 sent")]
    (event,) = scene.sent[0]
    assert event == AuditEvent(
        NOW_MS, "sample", "User:1", "10.0.0.1", 5001, "SASL", "Data", True, reason=event.reason
    )
    assert scene.samples() == [("User:5", "7 bytes received, 0 sent")]
    assert scene.samples() == []
    assert scene.sent == [], "without events there is no message"
    scene.move(1, 15, 20)
    scene.move(3, 0, 2)
    assert scene.samples() == [("User:1", "5 bytes received, 0 sent"), ("User:3", "0 bytes received, 2 sent")]


def test_the_bytes_of_a_new_connection_count_from_its_beginning() -> None:
    scene = Scene(per_second=8)
    for row in (1, 3):
        scene.connect(row)
        scene.move(row, 10, 20)
    assert len(scene.samples()) == 2
    scene.connect(1)
    scene.move(1, 10, 20)
    del scene.connections[3]
    assert scene.samples() == [("User:1", "10 bytes received, 20 sent")]
    assert scene.audit._sampled.keys() == {1}


@pytest.mark.parametrize("per_second", [0, 1])
def test_samples_are_taken_where_the_setting_has_a_number(per_second: int) -> None:
    scene = Scene(per_second)
    assert scene.samples() == []
    scene.connect(1)
    scene.move(1, 1, 1)
    assert len(scene.samples()) == per_second


def test_nothing_is_kept_without_an_audit_log() -> None:
    scene = Scene(per_second=1, log_dir="")
    client = scene.connect(1)
    scene.move(1, 1, 1)
    scene.audit.login(client, "PLAIN", "ann", "")
    scene.audit.login(client, "PLAIN", "bob", "wrong")
    scene.audit.refused(client, acls.READ, acls.TOPIC, "t")
    scene.audit.tick()
    scene.audit.flush()
    assert (scene.audit.on, scene.sent) == (False, [])
