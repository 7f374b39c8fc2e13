"""The progress of MirrorMaker 2: positions that it commits at the target, and the records of the
source beyond them."""

import contextlib
import json
import time
from collections.abc import Iterable
from typing import Any

from kbroker.cli.connection import Connection
from kbroker.cli.mirror.engine import OFFSETS_TOPIC
from kbroker.cli.partitions import Partition, latest

TAIL = 16
"""A partition with at most this many offsets left is read: they may all be transaction markers."""
POLL_S = 0.1


class Positions:
    """Reads MirrorMaker's positions. The caller closes it."""

    def __init__(self, target: Connection) -> None:
        self.target = target
        self.next: dict[Partition, int] = {}
        self._partitions: list[Partition] = []
        self._reached: dict[Partition, int] = {}
        self._consumer: Any = None

    def exists(self) -> bool:
        """Whether MirrorMaker's topic exists at the target."""
        return OFFSETS_TOPIC in self.target.admin().list_topics(timeout=self.target.timeout_s).topics

    def read(self) -> dict[Partition, int]:
        """The next offset to copy of each partition with a position, as far as they were committed
        when the read began: MirrorMaker may commit more of them all the time. Raises
        CommandFailed."""
        if self._consumer is None and not self._open():
            return self.next
        ends = latest(self.target, self.target.admin(), self._partitions, committed=True)
        deadline = time.monotonic() + self.target.timeout_s
        while any(self._reached.get(one, 0) < end for one, end in ends.items()):
            if time.monotonic() > deadline:
                break
            for message in self._consumer.consume(1000, POLL_S):
                self._take(message)
        return self.next

    def _take(self, message: Any) -> None:
        """A record, or the end of a partition: behind its last record there may be a marker."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return
        self._reached[OFFSETS_TOPIC, message.partition()] = message.offset() + (error is None)
        if error is None and (found := parse_position(message.key(), message.value())):
            self.next[found[0]] = found[1]

    def _open(self) -> bool:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        topics = self.target.admin().list_topics(timeout=self.target.timeout_s).topics
        if OFFSETS_TOPIC not in topics:
            return False
        self._consumer = self.target.consumer(
            {
                "group.id": "kbroker-move",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        self._partitions = [(OFFSETS_TOPIC, number) for number in topics[OFFSETS_TOPIC].partitions]
        self._consumer.assign([TopicPartition(*one, OFFSET_BEGINNING) for one in self._partitions])
        return True

    def close(self) -> None:
        """Ends the consumer."""
        if self._consumer is not None:
            with contextlib.suppress(RuntimeError):
                self._consumer.close()


def parse_position(key: bytes | None, value: bytes | None) -> tuple[Partition, int] | None:
    """(partition, next offset) of a record of MirrorMaker's offsets; None for any other record."""
    if key is None or value is None:
        return None
    try:
        connector, where = json.loads(key)
        if connector != "MirrorSourceConnector":
            return None
        return (str(where["topic"]), int(where["partition"])), int(json.loads(value)["offset"]) + 1
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def left_to_copy(
    source: Connection,
    starts: dict[Partition, int],
    ends: dict[Partition, int],
    positions: dict[Partition, int],
) -> dict[Partition, int]:
    """Number of offsets that are still to copy, by partition. Markers at the end of a log do not
    count."""
    left = {}
    for partition, end in ends.items():
        behind = end - max(positions.get(partition, 0), starts[partition])
        if behind > 0:
            left[partition] = behind
    tails = [partition for partition, behind in left.items() if behind <= TAIL]
    for partition in _without_records(source, tails, ends, left):
        del left[partition]
    return left


def _without_records(
    source: Connection,
    partitions: Iterable[Partition],
    ends: dict[Partition, int],
    left: dict[Partition, int],
) -> list[Partition]:
    """Partitions whose last offsets have no record for a read_committed consumer."""
    from confluent_kafka import KafkaError, TopicPartition

    start_at = {partition: ends[partition] - left[partition] for partition in partitions}
    if not start_at:
        return []
    consumer = source.consumer(
        {
            "group.id": "kbroker-move",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    empty: set[Partition] = set()
    seen: set[Partition] = set()
    try:
        consumer.assign([TopicPartition(*partition, offset) for partition, offset in start_at.items()])
        deadline = time.monotonic() + source.timeout_s
        while seen != start_at.keys() and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                partition = (str(message.topic()), int(message.partition() or 0))
                if error is None:
                    seen.add(partition)
                elif error.code() == KafkaError._PARTITION_EOF and partition not in seen:
                    seen.add(partition)
                    empty.add(partition)
    finally:
        consumer.close()
    return sorted(empty)
