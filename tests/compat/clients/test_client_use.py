"""What /metrics shows of clients as the broker sees them, by librdkafka."""

import pytest
from confluent_kafka import Producer

from tests.compat.clients.conftest import SETTINGS
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.compat

SOFTWARE = "confluent-kafka-python"


def connected(node: KBroker, client_id: str) -> Producer:
    """A librdkafka client that has asked the broker something."""
    made = Producer({"bootstrap.servers": node.bootstrap, "client.id": client_id})
    assert made.list_topics(timeout=20) is not None
    return made


def test_connections_show_the_software_that_their_client_names(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS)

    def connections() -> float:
        found = scrape(node).families["kbroker_connections_by_software"].samples
        return sum(one.value for one in found if one.labels["software_name"] == SOFTWARE)

    first = connected(node, "first")
    eventually(lambda: connections() >= 1)
    (software,) = [
        one
        for one in scrape(node).labels("kafka_server_socket_server_metrics_connections_software")
        if one["clientSoftwareName"] == SOFTWARE
    ]
    assert software["clientSoftwareVersion"][0].isdigit()
    assert software["listener"] == "PLAINTEXT"
    before = connections()
    second = connected(node, "second")
    eventually(lambda: connections() > before)
    del second
    eventually(lambda: connections() <= before)
    del first
    eventually(lambda: connections() == 0)
