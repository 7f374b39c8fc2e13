"""ACLs made, shown and deleted with unmodified clients, and felt by a producer that was connected
before."""

import contextlib
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.conftest import BrokerFactory
from tests.peer.ports import free_port

pytestmark = pytest.mark.compat

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def settings(plain: int, sasl: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_ann="secret";',
    }


def produced(producer: Producer) -> int:
    """The error code of one record, 0 when it is in the log."""
    codes: list[int] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        codes.append(0 if error is None else error.code())

    try:
        producer.produce("orders", b"value", on_delivery=delivered)
    except KafkaException as refused:  # the client has not asked again since it was refused
        error: Any = refused.args[0]
        return int(error.code())
    producer.flush(20)
    return codes[0]


def becomes(producer: Producer, code: int) -> None:
    """The client looks at the topic again once in a while."""
    deadline = time.monotonic() + 60
    while (found := produced(producer)) != code:
        assert time.monotonic() < deadline, found
        producer.list_topics("orders", 10)


def write_of_ann() -> Any:
    """kafka-python's form of the ACL."""
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    pattern = ResourcePattern(ResourceType.TOPIC, "orders")
    return ACL("User:ann", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)


def every_acl() -> Any:
    """kafka-python's filter of all ACLs."""
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)


def test_a_connected_producer_feels_what_kafka_python_changes(broker_factory: BrokerFactory) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    write, everything = write_of_ann(), every_acl()
    plain, sasl = free_port(), free_port()
    broker_factory(settings(plain, sasl))
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{sasl}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "secret",
            "message.timeout.ms": 15_000,
        }
    )
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{plain}")) as admin:
        admin.create_topics([NewTopic("orders", 1, 1)])
        becomes(producer, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        made = admin.create_acls([write])
        assert (len(made["succeeded"]), len(made["failed"])) == (1, 0)
        becomes(producer, 0)
        found, _ = admin.describe_acls(everything)
        assert [(acl.principal, acl.resource_pattern.resource_name) for acl in found] == [
            ("User:ann", "orders")
        ]
        admin.delete_acls([everything])
        becomes(producer, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        assert admin.describe_acls(everything)[0] == []
