"""What the modules beside Kafka ask: one node's settings."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.config.kafka_admin import TOPIC_NAME, ConfigAdmin
from tests.peer.apache_kafka import ApacheKafka


@pytest.fixture(scope="module")
def admin(fresh_kafka: ApacheKafka) -> Iterator[ConfigAdmin]:
    """A connection to a node that has the topic."""
    client = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    client.create_topics([NewTopic(TOPIC_NAME, 1, 1)])[TOPIC_NAME].result(30)
    with ConfigAdmin(fresh_kafka.bootstrap) as connection:
        yield connection
