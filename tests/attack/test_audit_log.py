"""A running broker's audit log: wrong and right logins, refused data, changes; and names that would
forge lines."""

import asyncio
import json
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.attack.logins import MODULE, logs_in
from tests.conftest import BrokerFactory
from tests.net.doubles import ask
from tests.net.requests import batch
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_admin="a" user_x="x";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "num.network.threads": "2",
}
FORGED = 'x"}\n{"event":"change","principal":"User:admin","operation":"DeleteTopics'


def logged_in(broker: KBroker, user: str, password: str) -> socket.socket:
    host, port = broker.bootstrap.rsplit(":", 1)
    link = socket.create_connection((host, int(port)), timeout=30)
    ask(link, encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "t", SaslHandshakeRequest("PLAIN")))
    token = SaslAuthenticateRequest(f"\0{user}\0{password}".encode())
    ask(link, encode_request(ApiKey.SASL_AUTHENTICATE, 1, 2, "t", token))
    return link


def lines(broker: KBroker) -> list[dict[str, Any]]:
    file = broker.folder / "audit" / "audit.log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def until(found: Callable[[], list[dict[str, Any]]], count: int = 1) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while len(got := found()) < count:
        assert time.monotonic() < deadline, "no such line"
        time.sleep(0.05)
    return got[0]


def lines_with(broker: KBroker, **expected: Any) -> list[dict[str, Any]]:
    """Lines that have these values."""
    return [line for line in lines(broker) if all(line.get(key) == value for key, value in expected.items())]


def refusals(broker: KBroker, operation: str, name: str, count: int = 0) -> list[dict[str, Any]]:
    """Lines of refused requests of x for a topic. count: none until they are of so many
    requests."""
    user, resources = "User:x", [{"name": name}]
    found = lines_with(
        broker, event="refusal", operation=operation, principal=user, resources=resources, allowed=False
    )
    return found if count in (0, sum(line.get("count", 1) for line in found)) else []


def test_logins_refusals_and_changes_are_in_the_audit_log(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS, start=False)
    broker.settings["kbroker.audit.log.dir"] = str(broker.folder / "audit")
    broker.start()
    port = int(broker.bootstrap.rsplit(":", 1)[1])

    of, refused = partial(lines_with, broker), partial(refusals, broker)
    assert not asyncio.run(logs_in(port, "admin", "wrong"))
    wrong = until(lambda: of(event="login", allowed=False))
    assert (wrong["principal"], wrong["operation"], wrong["host"]) == (
        "User:admin",
        "PLAIN",
        "127.0.0.1",
    )
    assert "Invalid username or password" in wrong["reason"]

    topics = [CreatableTopic("t", 1, 1), CreatableTopic(FORGED, 1, 1)]
    with logged_in(broker, "admin", "a") as link:
        ask(link, encode_request(ApiKey.CREATE_TOPICS, 5, 3, FORGED, CreateTopicsRequest(topics, 20_000)))
    change = until(lambda: of(event="change"))
    assert [each["name"] for each in change["resources"]] == ["t", FORGED]
    assert change["client_id"] == FORGED
    assert (change["principal"], change["allowed"]) == ("User:admin", True)
    assert of(operation="DeleteTopics") == []

    with logged_in(broker, "x", "x") as link:
        for name in ("t", "none"):
            data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch(b"x"))])]
            for number in range(3):
                ask(link, encode_request(ApiKey.PRODUCE, 8, number, "t", ProduceRequest(None, 1, 1000, data)))
            parts = [FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=1000)])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=parts)
            ask(link, encode_request(ApiKey.FETCH, 11, 9, "t", request))
        for name in ("t", "none"):
            for operation in ("Fetch", "Produce"):
                until(partial(refused, operation, name))
            until(partial(refused, "Produce", name, 3))
        until(lambda: of(event="sample", principal="User:x"))
    assert "Traceback" not in broker.logs()
