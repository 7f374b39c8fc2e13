"""`python -m bench.scrapes`: the cost of a scrape of a running broker that has a topic with many
partitions and a consumer group on each of them.

CPU is that of the processes that take part, while they are scraped once a second, less what they
need without scrapes.
"""

import argparse
import gzip
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.generator import CACHE
from kbroker.http.console.broker_link import BrokerLink
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base

TOPIC = "orders-of-the-shop"
ROLES = ("http", "control")
WARM_UPS = 3
AT_ONCE = 5_000
"""Partitions; one request makes fewer than 10,000."""
BY_NAME = 9
"""The last version of OffsetCommit that names topics."""
NAMES = {"both": "", "kbroker's": "?names=kbroker"}


@dataclass(frozen=True, slots=True)
class Cost:
    """One scrape. cpu_s: by process of ROLES. size, packed: bytes of the text, without and with
    gzip."""

    cpu_s: dict[str, float]
    size: int
    packed: int


def fill(node: KBroker, partitions: int) -> None:
    """A record on each partition, and a group that has committed its offset."""
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(TOPIC, min(partitions, AT_ONCE), 1)])[TOPIC].result(120)
    if partitions > AT_ONCE:
        growing = admin.create_partitions([NewPartitions(TOPIC, partitions)], operation_timeout=120)
        growing[TOPIC].result(125)
    producer = Producer(client | {"linger.ms": 100})
    for number in range(partitions):
        producer.produce(TOPIC, b"x" * 100, partition=number)
        if number % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records were not written")
    consumer = Consumer(client | {"group.id": "first"})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)  # waits for the coordinator
    consumer.close()
    host, _, port = node.bootstrap.rpartition(":")
    link = BrokerLink((host, int(port)), None, 30)
    link.open(None)
    for number in range(partitions):
        topics = [
            OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(number, 0, -1, "")])
        ]
        request = OffsetCommitRequest(f"billing-{number:05}", -1, "", topics=topics)
        (topic,) = link.ask(ApiKey.OFFSET_COMMIT, request, version=BY_NAME).topics
        if code := topic.partitions[0].error_code:
            raise RuntimeError(f"the commit of group {number} failed with error {code}")
    link.close()


def fetch(url: str) -> bytes:
    """A scrape as Prometheus makes it."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def cpu_s(node: KBroker) -> dict[str, float]:
    """CPU seconds of each process of ROLES so far."""
    found = {}
    for title, process in node.children().items():
        for role in ROLES:
            if title.endswith(role):
                times = process.cpu_times()
                found[role] = times.user + times.system
    return found


def spent(node: KBroker, seconds: int, work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds a second of each process, with this work once a second."""
    before, start = cpu_s(node), time.monotonic()
    for turn in range(1, seconds + 1):
        work()
        time.sleep(max(0.0, start + turn - time.monotonic()))
    elapsed, after = time.monotonic() - start, cpu_s(node)
    return {role: (after[role] - before[role]) / elapsed for role in before}


def measure(node: KBroker, seconds: int, query: str) -> Cost:
    """The cost of one scrape, of so many."""
    url = f"{base(node)}/metrics{query}"
    for _ in range(WARM_UPS):
        fetch(url)
        time.sleep(1)
    idle = spent(node, seconds, lambda: None)
    busy = spent(node, seconds, lambda: fetch(url))
    packed = fetch(url)
    size = len(gzip.decompress(packed))
    return Cost({role: max(0.0, busy[role] - idle[role]) for role in busy}, size, len(packed))


def row(partitions: int, names: str, cost: Cost) -> str:
    """A line of the table."""
    cpu = " | ".join(f"{cost.cpu_s[role] * 1000:.0f} ms" for role in ROLES)
    return f"| {partitions:,} | {names} | {cpu} | {cost.size / 1e6:.2f} MB | {cost.packed / 1e3:.0f} kB |"


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m bench.scrapes", description=__doc__)
    made.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    made.add_argument("--seconds", type=int, default=20, help="of each measurement, a scrape a second")
    made.add_argument("--folder", type=Path, default=CACHE)
    options = made.parse_args()
    print("| partitions and groups | names | CPU of http | CPU of control | bytes | compressed |")
    print("|---|---|---|---|---|---|", flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    for partitions in options.partitions:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            node = KBroker(Path(folder))
            node.start()
            try:
                fill(node, partitions)
                for names, query in NAMES.items():
                    print(row(partitions, names, measure(node, options.seconds, query)), flush=True)
            finally:
                node.kill9()
    return 0


if __name__ == "__main__":
    sys.exit(main())
