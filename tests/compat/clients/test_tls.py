"""TLS listeners: real clients over SSL and SASL_SSL, large answers, who is trusted, and which user
a certificate is."""

import shutil
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.certificates import certificate
from tests.compat.quota_cases import alter, entry
from tests.compat.raw import SocketPeer, receive
from tests.conftest import RUNNING
from tests.peer.kbroker_node import KBroker

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with"),
]

USER = "alice of tests"
LISTENERS = ("PLAINTEXT", "SSL", "SASL_SSL", "MUTUAL")


@dataclass(frozen=True)
class Secured:
    """A broker with TLS listeners."""

    node: KBroker
    folder: Path

    def address(self, listener: str) -> str:
        log = self.node.log_file.read_text()
        return log.partition("bootstrap=")[2].split()[0].split(",")[LISTENERS.index(listener)]

    def file(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder, "broker", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    certificate(folder, "alice", "/O=kbroker/OU=tests/CN=alice")
    certificate(folder, "mallory", "/CN=mallory")
    both = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(both)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=(.*?),.*$/$1 of $2/,DEFAULT",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "alice.crt"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob";'
        ),
        "group.initial.rebalance.delay.ms": "0",
    }
    node = KBroker(folder / "node", settings)
    RUNNING.append(node)
    node.start()
    yield Secured(node, folder)
    RUNNING.remove(node)
    node.stop()


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "MUTUAL"])
def test_librdkafka_produces_and_reads_back_large_records(secured: Secured, listener: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.address(listener),
        "security.protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
        "ssl.ca.location": secured.file("broker.crt"),
        "message.max.bytes": 2_000_000,
    }
    if listener == "SASL_SSL":
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "bob"}
    if listener == "MUTUAL":
        settings |= {
            "ssl.certificate.location": secured.file("alice.crt"),
            "ssl.key.location": secured.file("alice.key"),
        }
    topic = f"large-{listener}"
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(120)
    producer = confluent_kafka.Producer(settings)
    values = [bytes([number]) * 900_000 for number in range(20)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(120) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    deadline = time.monotonic() + 120
    while len(read) < len(values) and time.monotonic() < deadline:
        read += [message.value() for message in consumer.consume(5, 1)]
    consumer.close()
    assert read == values


def test_kafka_python_produces_over_tls(secured: Secured) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=secured.address("SSL"),
        security_protocol="SSL",
        ssl_cafile=secured.file("broker.crt"),
    )
    assert producer.send("python", b"value").get(90).offset == 0
    producer.close()


def metadata(secured: Secured, context: ssl.SSLContext, times: int = 1) -> MetadataResponse:
    """The last of several answers over one connection to the MUTUAL listener."""
    port = int(secured.address("MUTUAL").rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as link,
    ):
        for _ in range(times):
            link.sendall(encode_request(ApiKey.METADATA, 9, 7, "tls", MetadataRequest(None)))
            size = receive(link, 4)
            assert size is not None, "closed"
            frame = receive(link, struct.unpack(">i", size)[0])
            assert frame is not None
    return decode_exact(MetadataResponse, 9, frame, parse_response(frame, ApiKey.METADATA, 9)[1])


def trusting(secured: Secured, client: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=secured.file("broker.crt"))
    if client is not None:
        context.load_cert_chain(secured.file(f"{client}.crt"), secured.file(f"{client}.key"))
    return context


@pytest.mark.parametrize("client", [None, "mallory"])
def test_a_listener_with_client_authentication_refuses_untrusted_clients(
    secured: Secured, client: str | None
) -> None:
    with pytest.raises((OSError, AssertionError)):
        metadata(secured, trusting(secured, client))


def test_the_subject_of_a_certificate_is_the_user_whose_quotas_hold(secured: Secured) -> None:
    plain = SocketPeer(int(secured.address("PLAINTEXT").rpartition(":")[2]))
    assert metadata(secured, trusting(secured, "alice"), 2).throttle_time_ms == 0
    plain.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter(entry({"user": USER}, request_percentage=0.0001)))
    assert metadata(secured, trusting(secured, "alice"), 2).throttle_time_ms > 0
    plain.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter(entry({"user": USER}, request_percentage=None)))


def test_a_client_that_does_not_speak_tls_does_not_affect_others(secured: Secured) -> None:
    port = int(secured.address("SSL").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(encode_request(ApiKey.METADATA, 9, 7, "plain", MetadataRequest(None)))
        while link.recv(4096):  # an alert, perhaps
            pass
    assert metadata(secured, trusting(secured, "alice")).brokers
