"""Logins by OAUTHBEARER: unmodified clients with tokens of an issuer whose keys are in a file."""

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.conftest import RUNNING
from tests.net.security.oauth_tokens import KEY, OTHER, jwks, token
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    folder: Path = tmp_path_factory.mktemp("oauth")
    jwks(folder / "jwks.json", k=KEY)
    node = KBroker(
        folder / "node",
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/jwks.json",
            "sasl.oauthbearer.expected.audience": "kafka",
            "connections.max.reauth.ms": "60000",
        },
    )
    RUNNING.append(node)
    node.start()
    yield node
    RUNNING.remove(node)
    node.stop()


def test_librdkafka_logs_in_only_with_a_valid_token(issued: KBroker) -> None:
    errors: list[confluent_kafka.KafkaError] = []

    def producer(key: object) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
            {
                "bootstrap.servers": issued.bootstrap, "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER", "error_cb": errors.append,
                "oauth_cb": lambda _: (token(key), time.time() + 60, "alice", {}),
            }
        )  # fmt: skip

    good = producer(KEY)
    good.produce("rd-oauth", b"value")
    assert good.flush(120) == 0
    assert not errors
    bad = producer(OTHER)
    deadline = time.monotonic() + 90
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        bad.poll(0.1)
        assert time.monotonic() < deadline, errors


def test_kafka_python_logs_in_by_a_good_token(issued: KBroker) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    producer = kafka.KafkaProducer(
        bootstrap_servers=issued.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    assert producer.send("kp-oauth", b"value").get(30).offset == 0
    producer.close()
