"""Users of the broker in the console: their logins, and what their ACLs let them see."""

import json
import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conftest import BrokerFactory
from tests.http.console.service import Service
from tests.http.tls_store import put
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat


def admin_of(node: KBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap.partition(",")[0]})


def add_user(node: KBroker, name: str, *mechanisms: ScramMechanism) -> None:
    """Their password is "secret"."""
    admin = admin_of(node)
    for mechanism in mechanisms:
        change = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), b"secret")
        admin.alter_user_scram_credentials([change])[name].result(120)


FOR_READERS_OF_SETTINGS = ("/api/settings", "/api/host", "/api/reports", "/api/clients")
MAY_DESCRIBE_CONFIGS = AclBinding(
    ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:anna", "*",
    AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW,
)  # fmt: skip


def test_findings_are_for_users_that_may_describe_settings(broker_factory: BrokerFactory) -> None:
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "kbroker.http.listen": "0.0.0.0:0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    add_user(node, "anna", ScramMechanism.SCRAM_SHA_256)
    console = Service(node)
    for path in FOR_READERS_OF_SETTINGS:
        assert console.request("GET", path)[0] == 401
    assert console.change("/api/login", user="anna", password="secret")[0] == 200
    for path in FOR_READERS_OF_SETTINGS:
        status, answer = console.request("GET", path)
        assert (status, answer["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED"), path
    admin = admin_of(node)
    for future in admin.create_acls([MAY_DESCRIBE_CONFIGS]).values():
        future.result(120)
    for path in FOR_READERS_OF_SETTINGS:
        assert console.get(path), path
    unset = console.get("/api/reports")
    assert (unset["folder"], unset["reports"], unset["problem"]) == (None, [], None)
    assert console.request("GET", "/api/reports/figures.json")[0] == 404


def test_the_overview_and_groups_name_what_a_user_may_see(broker_factory: BrokerFactory) -> None:
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "kbroker.http.listen": "0.0.0.0:0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    add_user(node, "anna", ScramMechanism.SCRAM_SHA_256)
    admin = admin_of(node)
    for future in admin.create_topics([NewTopic("payroll", 1), NewTopic("orders", 1)]).values():
        future.result(120)
    for group in ("payers", "billing"):
        places = [TopicPartition(topic, 0, 0) for topic in ("payroll", "orders")]
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])[group].result(120)
    console = Service(node)
    assert console.change("/api/login", user="anna", password="secret")[0] == 200
    for path in ("/api/overview", "/api/groups"):
        assert not re.search("payroll|orders|payers|billing", json.dumps(console.get(path))), path
    for kind, name in ((ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "billing")):
        acl = AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:anna", "*",
            AclOperation.DESCRIBE, AclPermissionType.ALLOW,
        )  # fmt: skip
        admin.create_acls([acl])[acl].result(120)
    sample = console.get("/api/overview")["sample"]
    assert [row["topic"] for row in sample["top_topics"]] == ["orders"]
    assert list(sample["group_lag"]) == ["billing"]
    assert [(row["group"], row["topics"]) for row in console.get("/api/groups")["groups"]] == [
        ("billing", ["orders"])
    ]


def test_users_of_the_broker_log_in_where_it_asks_for_that(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "kbroker.http.listen": "0.0.0.0:0",
        }
    )
    add_user(node, "anna", ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    console = Service(node)
    assert console.request("GET", "/api/topics")[0] == 401
    assert console.change("/api/login", user="anna", password="wrong")[0] == 401
    assert console.change("/api/login", user="nobody", password="secret")[0] == 401
    status, session = console.change("/api/login", user="anna", password="secret")
    assert (status, session["user"]) == (200, "anna")
    assert console.get("/api/topics")["total"] == 0
    assert [row["name"] for row in console.get("/api/users")["users"]] == ["anna"]
    assert console.change("/api/logout")[0] == 200
    assert console.request("GET", "/api/topics")[0] == 401
    assert [console.change("/api/login", user="anna", password="wrong")[0] for _ in range(4)] == [
        401,
        401,
        401,
        429,
    ]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_users_of_either_mechanism_log_in_although_ssl_clients_need_certificates(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """The console itself connects to the SASL_SSL listener."""
    store = put(tmp_path / "broker.pem")
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "PLAINTEXT",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(store.with_suffix(".crt")),
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "kbroker.http.listen": "0.0.0.0:0",
        }
    )
    add_user(node, "anna", ScramMechanism.SCRAM_SHA_256)
    add_user(node, "bob", ScramMechanism.SCRAM_SHA_512)
    for user in ("anna", "bob"):
        console = Service(node)
        assert console.change("/api/login", user=user, password="wrong")[0] == 401
        assert console.change("/api/login", user=user, password="secret")[0] == 200
        assert console.get("/api/topics")["total"] == 0
