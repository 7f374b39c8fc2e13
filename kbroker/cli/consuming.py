"""Reads records for `consume`: start, stop conditions and commits."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, Unreachable, explain
from kbroker.cli.partitions import Partition, at_time, earliest, latest, partitions_of
from kbroker.cli.record_format import ConsumedRecord, headers_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_S = 0.1
MANY = 1000
NO_END = 1 << 62


class Start(Struct, frozen=True):
    """The start: a time (ms), or an offset counted from the log's start, its end, or absolute."""

    offset: int = 0
    whence: str = "latest"
    timestamp_ms: int | None = None


class Bounds(Struct, frozen=True):
    """Stop conditions; the first true one stops. until_ms: stop before the first record of this
    time or later."""

    until_end: bool = False
    until_ms: int | None = None
    max_messages: int | None = None
    idle_timeout_s: float | None = None


class OpenReader(Protocol):
    """A reader of records, until it is closed."""

    def printed(self) -> None:
        """The records returned so far are printed."""

    def stop(self) -> None:
        """End after the records already returned."""

    def close(self) -> None:
        """Commit what was printed."""


class Reader:
    """Iterates over lists of records. Owner: one `consume` command, which calls printed() for each
    list and close()."""

    def __init__(
        self,
        broker: Connection,
        topics: Sequence[str],
        partitions: Sequence[int],
        group: str | None,
        start: Start,
        bounds: Bounds,
        settings: dict[str, Any],
    ) -> None:
        self.broker = broker
        self.bounds = bounds
        self.group = group
        self.waits = start == Start() and not (
            group or self._bounded
        )  # nothing is read until something is written
        self._ends: dict[Partition, int] = {}
        self._open: set[Partition] = set()  # partitions not yet read to their bound
        self.log_starts: dict[Partition, int] = {}
        self.first: dict[Partition, int] = {}  # the first offset that is read of each partition
        self._assigned = False
        self._stopping = False
        self._last: dict[Partition, Message] = {}
        own: dict[str, Any] = {"enable.auto.offset.store": False, "auto.offset.reset": "earliest"}
        if group:
            own |= {"group.id": group, "enable.auto.commit": True}
            own["auto.offset.reset"] = "earliest" if start.whence == "earliest" else "latest"
        else:
            own |= {"group.id": "kbroker-consume", "enable.auto.commit": False}
        self.consumer: Consumer = broker.consumer(own | settings)
        chosen = self._existing(topics, partitions)
        if group:
            self.consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)
        else:
            self._assign(chosen, start)

    def __iter__(self) -> Iterator[list[ConsumedRecord]]:
        left = self.bounds.max_messages
        idle_since = answered_at = time.monotonic()
        has_joined = self._assigned
        while not (self._stopping or self._at_end()) and (left is None or left > 0):
            records = self._take(left)
            now = time.monotonic()
            if self._assigned and not has_joined:
                has_joined, idle_since = True, now
            if records:
                left = None if left is None else left - len(records)
                yield records
                idle_since = answered_at = time.monotonic()  # the output may have been slow
            elif (limit := self._idle_limit_s(has_joined)) is not None and now - idle_since > limit:
                return
            elif self._bounded and now - answered_at > self.broker.timeout_s:
                # else a reader that must end would wait for a dead broker
                check_reachable(self.broker, self.consumer)
                answered_at = time.monotonic()

    def _idle_limit_s(self, has_joined: bool) -> float | None:
        """The time without a record after which the reader ends. A group's first rebalance, in
        which nothing can arrive, has at least the time for an answer: a broker waits 3 s for more
        members (group.initial.rebalance.delay.ms)."""
        limit = self.bounds.idle_timeout_s
        return limit if limit is None or has_joined else max(limit, self.broker.timeout_s)

    def printed(self) -> None:
        """Mark the records returned so far as printed: they may be committed."""
        if self.group:
            for message in self._last.values():
                self.consumer.store_offsets(message=message)
            self._last.clear()

    def stop(self) -> None:
        """End the iteration after the records already returned."""
        self._stopping = True

    @property
    def stopped(self) -> bool:
        """Whether stop() was called."""
        return self._stopping

    def close(self) -> None:
        """Commit printed records and leave the group."""
        self.consumer.close()

    def _existing(self, topics: Sequence[str], numbers: Sequence[int]) -> list[Partition]:
        existing = partitions_of(self.broker.admin(), topics, self.broker.timeout_s)
        if not numbers:
            return existing
        chosen = [(topic, number) for topic in topics for number in numbers]
        if missing := set(chosen) - set(existing):
            raise CommandFailed(f"there is no partition {', '.join(f'{t}-{n}' for t, n in sorted(missing))}")
        return chosen

    def _assign(self, chosen: list[Partition], start: Start) -> None:
        admin = self.broker.admin()
        starts = earliest(self.broker, admin, chosen)
        ends = latest(self.broker, admin, chosen)
        if start.timestamp_ms is not None:
            first = at_time(self.broker, admin, chosen, start.timestamp_ms)
        elif start.whence == "earliest":
            first = starts
        elif start.whence == "offset":
            first = dict.fromkeys(chosen, start.offset)
        else:
            first = {
                partition: max(ends[partition] + start.offset, starts[partition]) for partition in chosen
            }
        if start.whence == "offset":
            for partition in chosen:
                if not starts[partition] <= start.offset <= ends[partition]:
                    held = f"{starts[partition]} to {ends[partition]}"
                    raise CommandFailed(
                        f"{partition[0]}-{partition[1]} has no offset {start.offset}: it holds {held}"
                    )
        self.log_starts = starts
        self.read_from(first, ends if self.bounds.until_end else {})

    def read_from(self, first: dict[Partition, int], ends: dict[Partition, int]) -> None:
        """Read these partitions from the given offsets up to the given ends, if any."""
        from confluent_kafka import TopicPartition

        self.first = first
        self._ends = ends
        self._open = {partition for partition in first if first[partition] < ends.get(partition, NO_END)}
        self._assigned = True
        self.consumer.assign([TopicPartition(*partition, offset) for partition, offset in first.items()])

    def _on_assign(self, _consumer: Any, partitions: Any) -> None:
        self._assigned = True
        self._open |= {(partition.topic, partition.partition) for partition in partitions}

    def _on_revoke(self, _consumer: Any, partitions: Any) -> None:
        self._open -= {(partition.topic, partition.partition) for partition in partitions}

    @property
    def _bounded(self) -> bool:
        """Whether it stops at the current end, instead of waiting for more records."""
        return self.bounds.until_end or self.bounds.until_ms is not None

    def _at_end(self) -> bool:
        return self._bounded and self._assigned and not self._open

    def _take(self, left: int | None) -> list[ConsumedRecord]:
        """The next records; an empty list if none arrived for a while."""
        first = self.consumer.poll(POLL_S)
        if first is None:
            if self.broker.last_error and not self._assigned:
                check_reachable(self.broker, self.consumer)
            return []
        more = min(MANY, left) - 1 if left is not None else MANY
        messages = [first, *(self.consumer.consume(more, 0) if more > 0 else ())]
        return [record for message in messages if (record := self._record(message)) is not None]

    def _record(self, message: "Message") -> ConsumedRecord | None:
        partition = (message.topic() or "", message.partition() or 0)
        if (error := message.error()) is not None:
            self._on_error(error, partition)
            return None
        record = consumed_record(message)
        if self._is_past_bounds(partition, record.offset, record.timestamp):
            return None
        if record.offset + 1 >= self._ends.get(partition, NO_END):
            self._open.discard(partition)
        self._last[partition] = message
        return record

    def _is_past_bounds(self, partition: Partition, offset: int, timestamp: int) -> bool:
        until_ms = self.bounds.until_ms
        if offset >= self._ends.get(partition, NO_END) or (until_ms is not None and timestamp >= until_ms):
            self._open.discard(partition)
            return True
        return partition not in self._open and (self.bounds.until_end or until_ms is not None)

    def _on_error(self, error: Any, partition: Partition) -> None:
        from confluent_kafka import KafkaError, KafkaException

        if error.code() == KafkaError._PARTITION_EOF:
            if self._bounded:
                self._open.discard(partition)
            return
        if not self.group and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # librdkafka looks for a coordinator even without a group
        failure = explain(KafkaException(error), f"{partition[0]}-{partition[1]}" if partition[0] else "")
        if failure is not None and not error.retriable():
            raise failure


def check_reachable(broker: Connection, client: Any) -> None:
    """Check after a temporary error that a broker answers; raises CommandFailed if none does.
    client: a consumer or an admin client."""
    broker.last_error = ""
    try:
        client.list_topics(timeout=broker.timeout_s)
    except Exception as error:
        raise explain(error) or Unreachable(str(error)) from error


def consumed_record(message: "Message") -> ConsumedRecord:
    """The record of a message without an error."""
    kind, timestamp = message.timestamp()
    headers = headers_of(message)
    place = message.topic() or "", message.partition() or 0, message.offset() or 0
    return ConsumedRecord(*place, timestamp if kind else -1, message.key(), message.value(), headers)
