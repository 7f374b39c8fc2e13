"""The list of topics: what is in them, what comes in, and which lack in-sync replicas."""

import threading
from dataclasses import dataclass

from kbroker.cli.topic_list import short_of_replicas
from tests.cli.conftest import Shell
from tests.peer.side_work import beside


@dataclass(frozen=True)
class Partition:
    replicas: list[int]
    isrs: list[int]


@dataclass(frozen=True)
class Topic:
    partitions: dict[int, Partition]


def test_a_partition_that_lacks_in_sync_replicas_is_under_replicated() -> None:
    whole, short, none = Partition([1, 2], [2, 1]), Partition([1, 2], [1]), Partition([1], [])
    assert short_of_replicas(Topic({0: whole, 2: none, 1: short})) == [1, 2]
    assert short_of_replicas(Topic({0: whole})) == []


def test_a_topic_with_all_replicas_is_not_under_replicated(cli: Shell, topic: str) -> None:
    assert cli("topics", "list", topic, "--under-replicated", "--json").json == []
    (header,) = cli("topics", "list", topic, "--under-replicated").lines
    assert header.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED"]


def test_records_and_bytes_are_those_of_all_partitions(cli: Shell, topic: str) -> None:
    for partition, count in ((0, 5), (2, 3)):
        cli("produce", topic, "-p", partition, "-q", stdin=b"x" * 99 + b"\n" + b"y\n" * (count - 1))
    cli("topics", "delete-records", f"{topic}:0:2", "--yes")
    (row,) = cli("topics", "list", topic, "--sizes", "--json").json
    assert (row["records"], row["partitions"]) == (6, 3)
    logs = cli("cluster", "log-dirs", "--topic", topic, "--json").json
    assert row["bytes"] == sum(p["bytes"] for entry in logs for p in entry["partitions"]) > 200
    header, line = cli("topics", "list", topic, "--sizes").lines
    assert header.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "BYTES"]
    assert line.split() == [topic, "3", "1", "6", str(row["bytes"])]


def test_rates_count_what_came_between_two_looks(cli: Shell, topic: str) -> None:
    cli("produce", topic, "-q", stdin=b"before\n" * 50)
    (still,) = cli("topics", "list", topic, "--rates", 0.1, "--json").json
    assert (still["records"], still["records_per_second"], still["bytes_per_second"]) == (50, 0, 0)
    begun = threading.Event()
    with beside(lambda stop: write_until(stop, topic, begun)):
        assert begun.wait(60)  # until a client has connected, there are none
        (busy,) = cli("topics", "list", topic, "--rates", 1, "--json").json
    assert busy["records_per_second"] > 0
    assert busy["bytes_per_second"] > 0
    assert "--rates" in cli("topics", "list", "--rates", "nan", code=2).stderr


def write_until(stop: threading.Event, topic: str, begun: threading.Event) -> None:
    import os

    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": os.environ["KBROKER_BOOTSTRAP"]})
    while not stop.wait(0.01):
        producer.produce(topic, b"a record of some length")
        if not producer.flush(5):
            begun.set()
