"""SASL logins of real clients: the right password gets in, another one does not, and the user's
quotas hold."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Struct
from tests.compat.quota_cases import alter, entry
from tests.compat.raw import SocketPeer, receive
from tests.conftest import RUNNING
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = pytest.mark.compat

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SECRET = 'alice\'s "secret"'
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="alice\'s \\"secret\\"" user_bob="bob";'
    ),
    "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "10000",
    "connection.failed.authentication.delay.ms": "10",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def login_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker with a PLAINTEXT and a SASL_PLAINTEXT listener; alice has a password for each
    mechanism."""
    node = KBroker(tmp_path_factory.mktemp("logins"), SETTINGS)
    RUNNING.append(node)
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("alice", info, SECRET.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(120)
    yield node
    RUNNING.remove(node)
    node.stop()


@pytest.fixture(scope="module")
def address(login_broker: KBroker) -> str:
    """Of the SASL listener."""
    log = login_broker.log_file.read_text()
    return log.partition("bootstrap=")[2].split()[0].split(",")[1]


def sasl(mechanism: str, password: str = SECRET, user: str = "alice") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_only_with_the_right_password(address: str, mechanism: str) -> None:
    settings = {"bootstrap.servers": address, **sasl(mechanism)}
    producer = confluent_kafka.Producer(settings)
    producer.produce(f"rd-{mechanism}", b"value")
    assert producer.flush(120) == 0
    group = {"group.id": mechanism, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, **group})
    consumer.subscribe([f"rd-{mechanism}"])
    (message,) = consumer.consume(1, 60)
    assert message.value() == b"value"
    consumer.close()
    errors: list[confluent_kafka.KafkaError] = []
    wrong = {"bootstrap.servers": address, **sasl(mechanism, "wrong"), "error_cb": errors.append}
    refused = confluent_kafka.Producer(wrong)
    deadline = time.monotonic() + 60
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        refused.poll(0.1)
        assert time.monotonic() < deadline, errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_only_with_the_right_password(address: str, mechanism: str) -> None:
    def settings(password: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }

    producer = kafka.KafkaProducer(**settings(SECRET))
    assert producer.send(f"kp-{mechanism}", b"value").get(90).offset == 0
    producer.close()
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaAdminClient(**settings("wrong"), bootstrap_timeout_ms=2000).list_topics()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_only_with_the_right_password(address: str, mechanism: str) -> None:
    def producer(password: str) -> aiokafka.AIOKafkaProducer:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
        )

    async def run() -> None:
        async with producer(SECRET) as right:
            assert (await right.send_and_wait(f"aio-{mechanism}", b"value")).offset == 0
        wrong = producer("wrong")
        with pytest.raises(AioKafkaError):
            await wrong.start()
        await wrong.stop()

    asyncio.run(run())


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_java_clients_log_in_only_with_the_right_password(
    address: str, mechanism: str, tmp_path: Path
) -> None:
    def topics(password: str) -> Any:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        quoted = password.replace('"', '\\\\"')
        file = tmp_path / "client.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
            f'username="alice" password="{quoted}";\n'
        )
        tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", address, "--command-config", str(file))
        return run_tool(*tool, "--entity-type", "users", "--describe", check=False)

    right = topics(SECRET)
    assert "SCRAM-SHA-256=iterations=4096" in right.stdout, right.stdout + right.stderr
    wrong = topics("wrong")
    assert "SaslAuthenticationException" in wrong.stdout + wrong.stderr


class Talk:
    """One connection to the SASL listener."""

    def __init__(self, address: str) -> None:
        self._link = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60)

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def ask(self, api: ApiKey, version: int, request: Struct) -> Any:
        """The answer, None when the connection was closed instead."""
        frame = self.send(encode_request(api, version, 7, "talk", request))
        if frame is None:
            return None
        return decode_exact(response_class(api), version, frame, parse_response(frame, api, version)[1])

    def send(self, data: bytes) -> bytes | None:
        with contextlib.suppress(OSError):
            self._link.sendall(data)
        size = receive(self._link, 4)
        return None if size is None else receive(self._link, struct.unpack(">i", size)[0])

    def plain(self, user: str = "alice", password: str = SECRET) -> Any:
        self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        token = f"\0{user}\0{password}".encode()
        return self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))


VERSIONS = ApiVersionsRequest("raw", "1")
METADATA = MetadataRequest(None)


def test_nothing_is_served_before_a_login(address: str) -> None:
    with Talk(address) as talk:
        assert talk.ask(ApiKey.METADATA, 9, METADATA) is None
    with Talk(address) as talk:
        assert talk.ask(ApiKey.API_VERSIONS, 3, VERSIONS).error_code == 0
        assert talk.ask(ApiKey.API_VERSIONS, 3, VERSIONS) is None
    with Talk(address) as talk:
        talk.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert talk.ask(ApiKey.METADATA, 9, METADATA) is None
    with Talk(address) as talk:
        talk.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert talk.ask(ApiKey.API_VERSIONS, 3, VERSIONS).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert talk.ask(ApiKey.METADATA, 9, METADATA) is None
    with Talk(address) as talk:
        assert talk.send(b"\0\x08\x00\x01") is None, "a first frame larger than sasl.server.max.receive.size"


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(address: str) -> None:
    with Talk(address) as talk:
        answer = talk.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI"))
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert sorted(answer.mechanisms) == sorted(MECHANISMS)
        assert talk.ask(ApiKey.METADATA, 9, METADATA) is None


def test_bare_tokens_after_an_old_handshake_are_accepted(address: str) -> None:
    with Talk(address) as talk:
        assert talk.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN")).error_code == 0
        assert talk.send(struct.pack(">i", 8) + b"\0bob\0bob") == b""
        assert talk.ask(ApiKey.METADATA, 9, METADATA).brokers
    with Talk(address) as talk:
        talk.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN"))
        assert talk.send(struct.pack(">i", 8) + b"\0bob\0bad") is None


def test_a_session_ends_unless_the_client_logs_in_again_as_the_same_user(address: str) -> None:
    with Talk(address) as talk:
        assert talk.plain().session_lifetime_ms == 10_000
        began = time.monotonic()
        assert talk.plain().error_code == 0
        assert talk.ask(ApiKey.METADATA, 9, METADATA).brokers
        soon = talk.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        is_soon = time.monotonic() - began < 1  # else it may be allowed again
        assert soon.error_code == ErrorCode.ILLEGAL_SASL_STATE or not is_soon, "not twice a second"
    with Talk(address) as talk:
        talk.plain()
        refused = talk.plain("bob", "bob")
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals" in refused.error_message
    with Talk(address) as talk:
        talk.plain()
        deadline = time.monotonic() + 60
        while talk.ask(ApiKey.METADATA, 9, METADATA) is not None:
            assert time.monotonic() < deadline


def test_a_user_quota_applies_to_the_logged_in_user(login_broker: KBroker, address: str) -> None:
    peer = SocketPeer(int(login_broker.bootstrap.rpartition(":")[2]))
    quota = entry({"user": "bob"}, request_percentage=0.0001)
    peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter(quota))
    reported = {}
    for user, password in (("alice", SECRET), ("bob", "bob")):
        with Talk(address) as talk:
            talk.plain(user, password)
            talk.ask(ApiKey.METADATA, 9, METADATA)
            reported[user] = talk.ask(ApiKey.METADATA, 9, METADATA).throttle_time_ms
    assert reported["alice"] == 0
    assert reported["bob"] > 0
    peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter(entry({"user": "bob"}, request_percentage=None)))
