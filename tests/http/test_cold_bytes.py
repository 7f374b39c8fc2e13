"""A consumer of what is no longer in memory: the metrics say of its bytes what the kernel says."""

import os
import time
from contextlib import closing

import psutil
import pytest
from confluent_kafka import Consumer, Producer

from tests.http.evicted import evict
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import Scrape, scrape

pytestmark = pytest.mark.slow

RECORDS, SIZE = 480, 100_000


def produce(broker: KBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for _ in range(RECORDS):
        producer.produce("cold", os.urandom(SIZE), partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


def consume(broker: KBroker) -> int:
    got = 0
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "late",
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["cold"])
        deadline = time.monotonic() + 120
        while got < RECORDS and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            got += message is not None and message.error() is None
    return got


def from_disk(broker: KBroker) -> int:
    return sum(psutil.Process(child.pid).io_counters().read_bytes for child in broker.children().values())


def cold(page: Scrape) -> float:
    return page.value("kbroker_topic_cold_bytes_total", topic="cold")


def test_bytes_read_ahead_of_a_late_consumer_are_counted(broker: KBroker) -> None:
    produce(broker)
    evicted = evict(broker.data_dir.glob("cold-0/*.log"))
    before, disk = scrape(broker), from_disk(broker)
    assert consume(broker) == RECORDS
    disk = from_disk(broker) - disk
    if disk < RECORDS * SIZE / 2:
        if evicted and os.environ.get("CI") == "true":
            pytest.fail(f"the log is only on a disk, yet the broker read just {disk} bytes from there")
        pytest.skip("nothing came from a disk here")
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
