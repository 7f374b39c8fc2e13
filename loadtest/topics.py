"""The topics of a run: creates them before the load, and reads their ends after it."""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from loadtest.client_settings import client_settings
from loadtest.run import PartitionEnds, Run, Topic
from loadtest.settings import Settings

PATIENCE_S = 60.0
PROMISED = {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"}
T = TypeVar("T")


def plan_topics(run: int, settings: Settings) -> list[Topic]:
    return [
        Topic(f"load-{run:08x}-{mode}", settings.partitions, mode, config=dict(PROMISED))
        for mode in settings.modes()
    ]


def create_topics(run: Run, settings: Settings) -> None:
    """Raises KafkaException, with a clear text, when the broker cannot be reached or refuses."""
    admin = AdminClient({**client_settings(), "bootstrap.servers": run.bootstrap, "log_level": 0})
    config = {"segment.bytes": str(settings.segment_bytes), "max.message.bytes": "2097152"}
    topics = [NewTopic(topic.name, topic.partitions, 1, config=config | topic.config) for topic in run.topics]
    for future in admin.create_topics(topics, operation_timeout=30, request_timeout=30).values():
        future.result(PATIENCE_S)


def find_ends(run: Run) -> dict[str, dict[str, PartitionEnds]]:
    """Start, high watermark and last stable offset of every partition."""
    with_all = _reader(run.bootstrap, "read_uncommitted")
    stable = _reader(run.bootstrap, "read_committed")
    try:
        ends: dict[str, dict[str, PartitionEnds]] = {}
        for topic in run.topics:
            ends[topic.name] = {}
            for partition in range(topic.partitions):
                place = TopicPartition(topic.name, partition)
                start, high = _watermarks(with_all, place)
                ends[topic.name][str(partition)] = PartitionEnds(start, high, _watermarks(stable, place)[1])
        return ends
    finally:
        with_all.close()
        stable.close()


def wait_stable(run: Run, seconds: float) -> bool:
    """Waits until no transaction is open in any partition; False when one stays open."""
    until = time.monotonic() + seconds
    while True:
        ends = find_ends(run)
        if all(p.last_stable_offset == p.high_watermark for topic in ends.values() for p in topic.values()):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.5)


def find_committed(run: Run, groups: dict[str, list[str]]) -> dict[str, dict[str, dict[str, int]]]:
    """Committed offsets: group, topic, partition; partitions without one are left out.

    Offsets of a transaction that never ends are no committed ones; asking for stable ones would
    wait forever.
    """
    partitions = {topic.name: topic.partitions for topic in run.topics}
    found: dict[str, dict[str, dict[str, int]]] = {}
    for group, topics in groups.items():
        reader = _reader(run.bootstrap, "read_uncommitted", group)
        try:
            places = [
                TopicPartition(topic, number) for topic in topics for number in range(partitions[topic])
            ]
            for place in _insist(partial(reader.committed, places, 10)):
                if place.offset >= 0:
                    found.setdefault(group, {}).setdefault(place.topic, {})[str(place.partition)] = (
                        place.offset
                    )
        finally:
            reader.close()
    return found


def _reader(bootstrap: str, isolation: str, group: str = "nobody") -> Consumer:
    return Consumer(
        {
            **client_settings(),
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def _watermarks(reader: Consumer, place: TopicPartition) -> tuple[int, int]:
    found = _insist(lambda: reader.get_watermark_offsets(place, timeout=10))
    return found[0], found[1]


def _insist(call: Callable[[], T]) -> T:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
