"""What a network process reports of its clients, and when."""

from types import SimpleNamespace
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import Bound
from kbroker.ipc.client_messages import ClientReport, SoftwareConnections, Throttled
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.usage.client_bytes import MAX_KEPT
from kbroker.net.usage.client_use import MAX_SOFTWARE, ClientUse
from kbroker.net.usage.quota_use import QuotaUse


class Scene:
    """The clients of a network process, and what control got of them."""

    def __init__(self, **settings: str) -> None:
        config, _ = BrokerConfig.load({"log.dirs": "/d", **settings})
        tables: Any = SimpleNamespace(connections=ConnectionRow.table(256))
        self.use = ClientUse(tables, config)
        self.quotas = QuotaUse()
        self.got: list[ClientReport] = []
        self.use.send = self.got.append
        self.use.linked(True)

    def connect(self, name: str = "", version: str = "", listener: str = "PLAINTEXT") -> Any:
        made: Any = SimpleNamespace(
            listener=SimpleNamespace(listener=listener),
            software_name="",
            software_version="",
            row=0,
            bytes_of=None,
        )
        self.use.opened(made)
        if name:
            self.use.learned(made, name, version)
        return made

    @property
    def software(self) -> set[SoftwareConnections]:
        """What the next report says."""
        self.use.tick(self.quotas)
        return set(self.got[-1].software or ())


def test_connections_are_counted_by_software_and_listener() -> None:
    scene = Scene()
    scene.connect()
    scene.connect("librdkafka", "2.4.0")
    gone = scene.connect("librdkafka", "2.4.0")
    scene.connect("librdkafka", "2.4.0", "SSL")
    librdkafka = SoftwareConnections("librdkafka", "2.4.0", "PLAINTEXT", 2)
    assert scene.software == {
        librdkafka,
        SoftwareConnections("librdkafka", "2.4.0", "SSL", 1),
        SoftwareConnections("unknown", "unknown", "PLAINTEXT", 1),
    }
    scene.use.closed(gone)
    assert SoftwareConnections("librdkafka", "2.4.0", "PLAINTEXT", 1) in scene.software


def test_a_client_that_names_another_software_is_counted_once() -> None:
    scene = Scene()
    connection = scene.connect("a", "1")
    scene.use.learned(connection, "b", "2")
    assert scene.software == {SoftwareConnections("b", "2", "PLAINTEXT", 1)}


def test_long_names_are_cut() -> None:
    scene = Scene()
    connection = scene.connect("a" * 1000, "1" * 1000)
    assert (len(connection.software_name), len(connection.software_version)) == (64, 64)
    scene.use.closed(connection)
    assert scene.software == set()


def test_a_report_is_bounded_and_leaves_no_connection_out() -> None:
    scene = Scene()
    for number in range(MAX_SOFTWARE + 36):
        scene.connect("software", str(number))
    scene.connect("software", "0")
    found = scene.software
    assert len(found) == MAX_SOFTWARE + 1
    assert SoftwareConnections("other", "other", "PLAINTEXT", 36) in found
    assert SoftwareConnections("software", "0", "PLAINTEXT", 2) in found


def test_only_changes_are_reported_and_all_of_it_to_a_new_control() -> None:
    scene = Scene()
    scene.connect("a", "1")
    scene.use.tick(scene.quotas)
    scene.use.tick(scene.quotas)
    assert len(scene.got) == 1
    scene.use.linked(False)
    scene.connect("b", "1")
    scene.use.tick(scene.quotas)
    assert len(scene.got) == 1
    scene.use.linked(True)
    assert {one.name for one in scene.software} == {"a", "b"}


def test_throttled_requests_are_reported_once() -> None:
    scene = Scene()
    scene.use.tick(scene.quotas)
    scene.quotas.client_seen("u", "c")
    scene.quotas.throttled("producer_byte_rate", Bound(1.0, "u", ""), 700)
    scene.quotas.throttled("producer_byte_rate", Bound(1.0, "u", ""), 300)
    scene.use.tick(scene.quotas)
    scene.use.tick(scene.quotas)
    throttled = Throttled("producer_byte_rate", "u", "", 2, 1000)
    assert scene.got[1:] == [ClientReport(None, (throttled,), (("u", "c"),))]


def test_nothing_is_reported_where_nothing_serves_metrics() -> None:
    scene = Scene(**{"kbroker.http.listen": ""})
    scene.connect("a", "1")
    scene.use.tick(scene.quotas)
    assert scene.got == []


def test_unused_client_ids_are_forgotten_where_nothing_serves_metrics() -> None:
    scene = Scene(**{"kbroker.http.listen": ""})
    connection = scene.connect()
    for number in range(MAX_KEPT + 1):
        scene.use.named(connection, f"c-{number}")
    scene.use.tick(scene.quotas)
    assert scene.use._bytes._names == ["", f"c-{MAX_KEPT}"]
