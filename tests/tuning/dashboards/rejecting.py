"""A share group that rejects records, and its dead-letter topic."""

from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    ShareConsumer,
)
from confluent_kafka.admin import ResourceType

from tests.peer.configs import set_configs
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import until

GROUP = "team"


def set_dead_letter_topic(broker: KBroker, name: str) -> None:
    """Of the share group, which begins at the start of its topics."""
    settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": name}
    set_configs(broker.bootstrap, ResourceType.GROUP, GROUP, settings)


def reject(broker: KBroker, topic: str) -> None:
    """The share group rejects some records of the topic."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        rejected: list[object] = []

        def some_came() -> bool:
            for message in consumer.poll(1.0) or ():
                consumer.acknowledge(message, AcknowledgeType.REJECT)
                rejected.append(message)
            return bool(rejected)

        assert until(some_came, 60)
        assert not any((consumer.commit_sync() or {}).values())
