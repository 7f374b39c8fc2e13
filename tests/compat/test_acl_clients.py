"""ACLs made and deleted with an unmodified client, and felt by a producer that was connected
before."""

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.admin import KafkaAdminClient, NewTopic

from tests.compat.acl_programs import EVERY, ORDERS, KafkaPython
from tests.conftest import BrokerFactory
from tests.peer.ports import free_port
from tests.peer.side_work import in_time

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


def test_a_connected_producer_feels_what_kafka_python_changes(broker_factory: BrokerFactory) -> None:
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
    acls = KafkaPython(f"127.0.0.1:{plain}")
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{plain}")
    admin.create_topics([NewTopic("orders", 1, 1)])
    in_time(admin.close)
    becomes(producer, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    acls.create([ORDERS])
    becomes(producer, 0)
    assert acls.delete(EVERY) == [ORDERS]
    becomes(producer, KafkaError.TOPIC_AUTHORIZATION_FAILED)
