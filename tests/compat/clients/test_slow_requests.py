"""The log of slow requests, with a broker that is slow to some: a group that waits for members, a
disk that waits for its syncs."""

import json

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.clients.conftest import SETTINGS
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

SLOW = {"kbroker.slow.request.ms": "3000", "group.initial.rebalance.delay.ms": "4000"}
"""Requests that do not wait are quicker on a busy machine, too."""


def lines(node: KBroker) -> list[dict[str, object]]:
    """Those of slow requests."""
    found = [json.loads(line) for line in node.log_file.read_text().splitlines()]
    return [line for line in found if line["message"] == "slow request"]


def test_a_slow_request_is_written_with_its_client(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS | SLOW, start=False)
    node.environment["KBROKER_LOG_FORMAT"] = "json"
    node.start()
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "quick"})
    producer.produce("t", b"x")
    assert producer.flush(120) == 0
    settings: dict[str, str | int] = {"client.id": "late", "group.id": "g", "auto.offset.reset": "earliest"}
    settings["fetch.wait.max.ms"] = 4000
    consumer = Consumer({"bootstrap.servers": node.bootstrap, **settings})
    consumer.subscribe(["t"])
    assert len(consumer.consume(1, 60)) == 1
    assert consumer.consume(1, 6) == []
    consumer.close()
    eventually(lambda: any(line["api"] == "JoinGroup" for line in lines(node)))
    line = next(line for line in lines(node) if line["api"] == "JoinGroup")
    assert line["client_id"] == "late"
    assert line["principal"] == "User:ANONYMOUS"
    assert line["listener"] == "PLAINTEXT"
    assert str(line["connection"]).startswith("127.0.0.1:")
    assert float(str(line["local_ms"])) >= 3000
    assert float(str(line["total_ms"])) >= float(str(line["local_ms"]))
    assert "Fetch" not in {line["api"] for line in lines(node)}  # one waited for records
