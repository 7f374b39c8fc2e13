"""A consumer of what is no longer in memory: the metrics say of its bytes what the kernel says, by
topic and by group."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.http.evicted import evict
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import Scrape, scrape

pytestmark = pytest.mark.slow

RECORDS, SIZE = 480, 100_000
LIVE = 40
"""Records that are in memory."""


def produce(broker: KBroker, topic: str, records: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for _ in range(records):
        producer.produce(topic, os.urandom(SIZE), partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


def consumer_of(broker: KBroker, group: str) -> Consumer:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    return Consumer(settings)


def consume(broker: KBroker, topic: str, group: str = "late", records: int = RECORDS) -> int:
    """Commits when it ends."""
    got = 0
    with closing(consumer_of(broker, group)) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 120
        while got < records and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            got += message is not None and message.error() is None
    return got


def commit(broker: KBroker, topic: str, group: str, offset: int) -> None:
    with closing(consumer_of(broker, group)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def from_disk(broker: KBroker) -> int:
    return sum(psutil.Process(child.pid).io_counters().read_bytes for child in broker.children().values())


def needs_disk(given: int, evicted: bool) -> None:
    if given < RECORDS * SIZE / 2:
        if evicted and os.environ.get("CI") == "true":
            pytest.fail(f"the log is only on a disk, yet the broker read just {given} bytes from there")
        pytest.skip("nothing came from a disk here")


def cold(page: Scrape) -> float:
    return page.value("kbroker_topic_cold_bytes_total", topic="cold")


def test_bytes_read_ahead_of_a_late_consumer_are_counted(broker: KBroker) -> None:
    produce(broker, "cold")
    evicted = evict(broker.data_dir.glob("cold-0/*.log"))
    before, disk = scrape(broker), from_disk(broker)
    assert consume(broker, "cold") == RECORDS
    disk = from_disk(broker) - disk
    needs_disk(disk, evicted)
    name = "kbroker_read_ahead_bytes_total"
    deadline = time.monotonic() + 60  # processes add their part once a second
    while True:
        page = scrape(broker)
        counted = cold(page) - cold(before)
        in_all = sum(page.value(name, **labels) for labels in page.labels(name))
        if min(counted, in_all) >= 0.9 * disk or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert counted == pytest.approx(disk, rel=0.1)
    assert in_all >= 0.9 * disk
    out = "kbroker_topic_out_bytes_total"
    sent = page.value(out, topic="cold") - before.value(out, topic="cold")
    assert counted / sent > 0.8  # a consumer gets the beginning of the next batch twice


def wait_until(broker: KBroker, done: Callable[[Scrape], bool]) -> Scrape:
    """A refresh of the lags of groups is every five seconds; the first one begins with a scrape."""
    deadline = time.monotonic() + 60
    while not done(page := scrape(broker)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return page


def of_groups(page: Scrape) -> list[float]:
    name = "kbroker_group_cold_bytes_total"
    found = {labels["group"]: page.value(name, **labels) for labels in page.labels(name)}
    return [found.get(group, 0) for group in ("behind", "live")]


def test_bytes_from_disk_are_those_of_the_group_that_reads_what_is_not_in_memory(broker: KBroker) -> None:
    """Another one reads the end of the same partition at the same time."""
    topic = "shared"
    produce(broker, topic)
    commit(broker, topic, "behind", 0)
    commit(broker, topic, "live", RECORDS)
    evicted = evict(broker.data_dir.glob(f"{topic}-0/*.log"))
    cached = "kbroker_group_cache_seconds"
    page = wait_until(
        broker, lambda page: bool(page.labels(cached)) and page.value(cached, group="behind") == 0
    )
    if not page.labels("kbroker_group_cold_bytes_total"):
        pytest.skip("this kernel cannot report what is in the page cache")
    assert of_groups(page) == [0, 0]
    disk = from_disk(broker)
    produce(broker, topic, LIVE)
    with ThreadPoolExecutor(2) as pool:
        behind = pool.submit(consume, broker, topic, "behind", RECORDS + LIVE)
        live = pool.submit(consume, broker, topic, "live", LIVE)
        assert behind.result() == RECORDS + LIVE
        assert live.result() == LIVE
    disk = from_disk(broker) - disk
    needs_disk(disk, evicted)
    page = wait_until(broker, lambda page: of_groups(page)[0] >= 0.95 * disk)
    assert of_groups(page) == [pytest.approx(disk, rel=0.1), 0]
