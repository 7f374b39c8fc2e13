"""A share consumer for crash tests."""

import time
from collections.abc import Callable

from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Message,
    ShareConsumer,
)

from tests.peer.kbroker_node import KBroker

TOPIC, GROUP = "tasks", "team"
WAIT_S = 240


def share(
    broker: KBroker, kind: Callable[[Message], AcknowledgeType], count: int
) -> list[tuple[bytes | None, float]]:
    """Take so many deliveries and acknowledge them: (value, when it came)."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    found: list[tuple[bytes | None, float]] = []
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, found
            for message in consumer.poll(0.3) or ():
                assert message.error() is None, message.error()
                found.append((message.value(), time.time()))
                consumer.acknowledge(message, kind(message))
            assert not any((consumer.commit_sync() or {}).values())
    return found
