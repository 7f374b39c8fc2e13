"""The description of a topic: id, its own settings, leaders and replicas."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kbroker.cli.failures import CommandFailed, result_of
from kbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC_SOURCE = 1  # DescribeConfigs: set for this topic
RETRY_S = 0.1

Found = TypeVar("Found")


def of_new_topic(ask: Callable[[], Found], timeout_s: float) -> Found:
    """The answer about a topic that was just created, asked for until it is known: a broker of a
    cluster learns of it a moment after its creation is confirmed. Raises CommandFailed."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except CommandFailed as failure:
            unknown = failure.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not unknown or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def describe_topic(admin: "AdminClient", name: str, timeout_s: float) -> dict[str, Any]:
    """The data of `topics describe`. Raises CommandFailed for a missing topic."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, name)
    described = result_of(
        admin.describe_topics(TopicCollection([name]), request_timeout=timeout_s)[name], name
    )
    configs = result_of(admin.describe_configs([resource], request_timeout=timeout_s)[resource], name)
    return {
        "topic": name,
        "id": str(described.topic_id).replace("+", "-").replace("/", "_"),  # as Kafka prints it
        "internal": described.is_internal,
        "configs": {
            key: entry.value for key, entry in sorted(configs.items()) if int(entry.source) == TOPIC_SOURCE
        },
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
            }
            for partition in sorted(described.partitions, key=lambda p: int(p.id))
        ],
    }
