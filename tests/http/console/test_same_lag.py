"""The command line, the console and /metrics show one lag."""

import time
from http.client import HTTPConnection

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.cli.connection import Connection
from kbroker.cli.group_description import read_group, read_lag
from tests.http.console.service import Service
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat


def test_the_lag_is_the_same_everywhere(broker: KBroker) -> None:
    """A member reads three partitions and has committed an offset in one."""
    console = Service(broker)
    client = {"bootstrap.servers": broker.bootstrap}
    topics = AdminClient(client)
    for future in topics.create_topics([NewTopic("orders", 3, 1)]).values():
        future.result(120)
    producer = Producer(client)
    for number in range(90):
        producer.produce("orders", b"x", partition=number % 3)
    producer.flush(30)
    admin = Connection(broker.bootstrap, {}, 30.0)
    given = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "half",
        "auto.offset.reset": "latest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(given)
    try:
        consumer.subscribe(["orders"])

        def joined() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 3

        eventually(joined)
        consumer.commit(offsets=[TopicPartition("orders", 0, 20)], asynchronous=False)
        for members in (1, 0):
            group = read_group(admin, admin.admin(), "half")
            read_lag(admin, admin.admin(), group, in_seconds=False)
            assert len(group.members) == members
            by_command = {place: group.lag(place) for place in group.partitions()}
            time.sleep(1.1)  # the http process keeps groups for a second
            found = console.get("/api/groups/half")
            by_console = {(row["topic"], row["partition"]): row["lag"] for row in found["partitions"]}
            assert by_command == by_console == {("orders", 0): 10, ("orders", 1): 30, ("orders", 2): 30}
            (listed,) = console.get("/api/groups", search="half")["groups"]
            connection = HTTPConnection(console.address, timeout=30)
            connection.request("GET", "/metrics?name[]=kbroker_group_lag_sum")
            scraped = connection.getresponse().read().decode()
            connection.close()
            assert 'kbroker_group_lag_sum{group="half"} 70\n' in scraped
            assert (found["lag"], listed["lag"]) == (70, 70)
            consumer.close()
    finally:
        consumer.close()
