"""Dynamic settings of brokers and groups, quotas of every kind of client, and users' passwords go
from kbroker to Apache Kafka and back."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.cli import quotas
from kbroker.cli.config_changes import change_configs, read_configs
from kbroker.cli.connection import Connection
from tests.compat.export_command import FEW, export
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
WITH_LOGINS = {
    **FEW,
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
}
Quotas = dict[frozenset[tuple[str, str | None]], dict[str, float]]


class Book:
    """The settings, quotas and passwords that were set, wherever they were set."""

    def __init__(self, sasl: str) -> None:
        self.sasl = sasl
        # With eligible leader replicas a cluster always has this one.
        self.settings = {("broker", ""): {"min.insync.replicas": "1"}}
        self.quotas: Quotas = {}
        self.passwords: dict[str, str] = {}

    def configure(self, broker: Connection, entity: str, name: str, **settings: str) -> None:
        sets = {key.replace("_", "."): value for key, value in settings.items()}
        change_configs(broker, entity, name, sets=sets)
        self.settings.setdefault((entity, name), {}).update(sets)

    def limit(self, broker: Connection, *entity: tuple[str, str | None], **values: float) -> None:
        quotas.alter(broker, list(entity), values, [], validate_only=False)
        self.quotas.setdefault(frozenset(entity), {}).update(values)

    def set_password(self, broker: Connection, user: str, password: str) -> None:
        """With both mechanisms."""
        admin = broker.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 8192)
            change = UserScramCredentialUpsertion(user, info, password.encode())
            admin.alter_user_scram_credentials([change])[user].result(120)
        self.passwords[user] = password

    def check(self, broker: Connection) -> None:
        """Everything applies, and nothing else."""
        eventually(lambda: self._settings_of(broker) == self.settings)
        found = {frozenset(entity): values for entity, values in quotas.read_all(broker)}
        assert found == self.quotas
        for user, password in self.passwords.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                eventually(lambda: logs_in(self.sasl, user, password, mechanism))  # noqa: B023 called here
        assert not logs_in(self.sasl, "alice", "wrong", "SCRAM-SHA-256")

    def _settings_of(self, broker: Connection) -> dict[tuple[str, str], dict[str, str]]:
        found = {}
        for entity, name in self.settings:
            source = entity if name else "all brokers"
            rows = read_configs(broker, entity, name)
            found[entity, name] = {row["name"]: row["value"] for row in rows if row["source"] == source}
        return found


def logs_in(address: str, user: str, password: str, mechanism: str) -> bool:
    """Whether a client gets in with this password."""
    settings: dict[str, str] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    try:
        AdminClient(settings).list_topics(timeout=5)
    except KafkaException:
        return False
    return True


def change_all(book: Book, broker: Connection, turn: int) -> None:
    """What each broker adds and changes."""
    book.configure(broker, "broker", "", max_connections_per_ip=str(500 + turn))
    book.configure(broker, "broker", "1", max_connections=str(900 + turn))
    book.configure(broker, "group", "readers", consumer_session_timeout_ms=str(50_000 + turn))
    book.configure(broker, "group", f"group-{turn}", share_auto_offset_reset="earliest")
    book.limit(broker, ("user", "alice"), ("client-id", "etl"), producer_byte_rate=5e6 + turn)
    book.limit(broker, ("client-id", f"client-{turn}"), consumer_byte_rate=7e6)
    book.limit(broker, ("client-id", None), request_percentage=80.0 + turn)
    book.limit(broker, ("user", None), ("client-id", "etl"), producer_byte_rate=4e6)
    book.limit(broker, ("ip", "10.0.0.9"), connection_creation_rate=10.0 + turn)
    book.set_password(broker, "alice", f"secret-{turn}")
    book.set_password(broker, f"user-{turn}", f"of-{turn}")


def test_settings_quotas_and_passwords_go_to_apache_kafka_and_back(kafka_jars: str, tmp_path: Path) -> None:
    plain, sasl, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
    listeners = f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}"
    book, broker = Book(sasl), Connection(plain, {}, 60)
    node = KBroker(tmp_path / "kbroker", {**WITH_LOGINS, "listeners": listeners})
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.log_dir = node.data_dir
    kafka.port = int(plain.rpartition(":")[2])
    kafkas = {
        **WITH_LOGINS,
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }
    with ExitStack() as stack:
        stack.callback(node.kill9)
        stack.callback(kafka.kill9)
        node.start()
        change_all(book, broker, 1)
        book.check(broker)
        node.stop()
        export(node.data_dir, "4.3")

        kafka.start(kafkas)
        book.check(broker)
        change_all(book, broker, 2)
        book.check(broker)
        kafka.stop()

        node.start()
        book.check(broker)
        change_all(book, broker, 3)
        node.stop()
        export(node.data_dir, "4.3")

        kafka.start()
        book.check(broker)
        kafka.stop()
