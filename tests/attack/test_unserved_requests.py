"""Long frames of unserved requests: closed by their first bytes, so they take no memory and no
time."""

import socket
import struct

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from tests.attack.peers import port_of, target
from tests.conftest import BrokerFactory
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

ANNOUNCED = 99 << 20
HEADS = {
    "unknown API key": (777, 0),
    "negative API key": (-1, 0),
    "unsupported version": (ApiKey.METADATA, 99),
    "removed version": (ApiKey.PRODUCE, 2),
}
CONNECTIONS = 12
TAKEN_MB, GROWTH_MB = 8, 16
"""Of one connection: what fits into socket buffers. Of all network processes: nothing of what was
announced."""
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def taken_before_it_closes(port: int, head: tuple[int, int], announced: int = ANNOUNCED) -> int:
    """Bytes that a peer takes of a frame until it closes; all of them when it takes the frame
    first."""
    block, sent = bytes(1 << 20), 0
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.sendall(struct.pack(">ihh", announced, *head))
        try:
            while sent < announced - 4:
                sent += link.send(block[: announced - 4 - sent])
            closed = link.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            closed = True
    assert closed, "something was answered"
    return sent


def network_mb(broker: KBroker) -> float:
    """Private and arena memory of the network processes, in MB."""
    return sum(
        child.memory_full_info().pss for title, child in broker.children().items() if "network" in title
    ) / (1 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
def test_a_frame_that_is_not_served_is_not_taken(broker: KBroker, name: str) -> None:
    assert target(broker).ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == 0
    before = network_mb(broker)
    for _ in range(CONNECTIONS):
        assert taken_before_it_closes(port_of(broker), HEADS[name]) < TAKEN_MB << 20
    assert network_mb(broker) - before < GROWTH_MB
    assert "is not served" in broker.logs()


@pytest.mark.slow
def test_before_a_login_a_long_frame_is_not_taken(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SASL)
    for head in HEADS.values():
        assert taken_before_it_closes(port_of(node), head) < TAKEN_MB << 20
    assert f"request size {ANNOUNCED} is not in 0.." in node.logs()


@pytest.mark.kafka
@pytest.mark.parametrize("name", HEADS)
def test_apache_kafka_closes_too(fresh_kafka: ApacheKafka, name: str) -> None:
    taken_before_it_closes(fresh_kafka.port, HEADS[name])
