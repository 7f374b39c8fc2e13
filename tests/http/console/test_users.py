"""Users of the broker in the console: their logins, and what their ACLs let them see."""

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conftest import BrokerFactory
from tests.http.console.service import Service

pytestmark = pytest.mark.compat

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
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("anna", credential, b"secret")]
    ).values():
        future.result(30)
    console = Service(node)
    for path in FOR_READERS_OF_SETTINGS:
        assert console.request("GET", path)[0] == 401
    assert console.change("/api/login", user="anna", password="secret")[0] == 200
    for path in FOR_READERS_OF_SETTINGS:
        status, answer = console.request("GET", path)
        assert (status, answer["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED"), path
    for future in admin.create_acls([MAY_DESCRIBE_CONFIGS]).values():
        future.result(30)
    for path in FOR_READERS_OF_SETTINGS:
        assert console.get(path), path
    unset = console.get("/api/reports")
    assert (unset["folder"], unset["reports"], unset["problem"]) == (None, [], None)
    assert console.request("GET", "/api/reports/figures.json")[0] == 404


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
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = UserScramCredentialUpsertion("anna", ScramCredentialInfo(mechanism, 4096), b"secret")
        for future in admin.alter_user_scram_credentials([credential]).values():
            future.result(30)
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
