"""The description of a topic: id, its own settings, leaders and replicas."""

from typing import TYPE_CHECKING, Any

from kbroker.cli.failures import result_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC_SOURCE = 1  # DescribeConfigs: set for this topic


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
