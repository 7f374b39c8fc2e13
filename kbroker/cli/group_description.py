"""Describes a consumer group: state, members, committed offsets, lag in records and in seconds."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from kbroker.cli.connection import Connection
from kbroker.cli.coordinators import coordinator_result
from kbroker.cli.failures import broker_error
from kbroker.cli.group_members import Member, describe_group
from kbroker.cli.own_requests import GroupCoordinators
from kbroker.cli.partitions import Partition, list_offsets
from kbroker.cli.progress import progress
from kbroker.metrics.group_lag import record_lag, whole_topics
from kbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec, TopicMetadata


class Group(Struct):
    """A group. offsets: committed offsets. metadata: the texts that clients have committed with
    them. uncommitted: partitions that count without an offset, see `metrics/group_lag.py`. starts:
    their log start offsets. ends: high watermarks. lag_seconds: age of the oldest unread record."""

    group_id: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: list[Member]
    offsets: dict[Partition, int] = field(default_factory=dict)
    uncommitted: set[Partition] = field(default_factory=set)
    starts: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    lag_seconds: dict[Partition, float] = field(default_factory=dict)
    metadata: dict[Partition, str] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether the coordinator has the group or committed offsets of it."""
        return self.state not in ("Dead", "Unknown") or bool(self.offsets)

    @property
    def active(self) -> bool:
        """Whether the group has members. Its offsets must not be reset then."""
        return self.state not in ("Empty", "Dead", "Unknown")

    def lag(self, partition: Partition) -> int | None:
        """Records from the committed offset (or the log start, if nothing is committed) to the
        end."""
        committed, start = self.offsets.get(partition), self.starts.get(partition)
        end = self.ends.get(partition)
        if end is None or (committed is None and start is None):
            return None
        return record_lag(committed, start or 0, end)

    def partitions(self) -> list[Partition]:
        """Every partition with a committed offset or a member, and those that count without
        either."""
        assigned = {partition for member in self.members for partition in member.partitions}
        return sorted(assigned | set(self.offsets) | self.uncommitted)


def read_group(broker: Connection, admin: "AdminClient", group_id: str) -> Group:
    """State, members and committed offsets. An unknown group has exists == False. Raises
    CommandFailed."""
    (group,) = read_groups(broker, admin, [group_id])
    return group


def read_groups(broker: Connection, admin: "AdminClient", group_ids: Sequence[str]) -> list[Group]:
    """As `read_group` for many groups, with one connection to each coordinator."""
    with GroupCoordinators(broker) as coordinators:
        described = [describe_group(coordinators, group_id) for group_id in group_ids]
    groups = []
    for group_id, found in zip(group_ids, described, strict=True):
        committed = _committed(broker, admin, group_id)
        groups.append(
            Group(
                group_id,
                found.state,
                found.type,
                found.assignor,
                found.coordinator,
                found.members,
                {(each.topic, each.partition): each.offset for each in committed},
                metadata={(each.topic, each.partition): each.metadata for each in committed if each.metadata},
            )
        )
    return groups


def _committed(broker: Connection, admin: "AdminClient", group_id: str) -> "list[TopicPartition]":
    from confluent_kafka import ConsumerGroupTopicPartitions

    request, timeout_s = [ConsumerGroupTopicPartitions(group_id)], broker.timeout_s
    committed = coordinator_result(
        lambda: admin.list_consumer_group_offsets(request, request_timeout=timeout_s)[group_id],
        f"group {group_id}",
        timeout_s,
    )
    return [each for each in committed.topic_partitions or [] if each.error is None and each.offset >= 0]


def require(group: Group) -> Group:
    """Returns the group. Raises CommandFailed if it does not exist."""
    if not group.exists:
        raise broker_error(ErrorCode.GROUP_ID_NOT_FOUND.value, None, f"group {group.group_id}")
    return group


def read_lag(broker: Connection, admin: "AdminClient", group: Group, *, in_seconds: bool) -> None:
    """Fills in uncommitted, starts, ends and lag_seconds; a partition without a leader has none of
    the last three. Raises CommandFailed."""
    from confluent_kafka.admin import OffsetSpec

    existing = admin.list_topics(timeout=broker.timeout_s).topics
    if group.type == "streams":
        group.members = [
            replace(each, partitions=_there(each.partitions, existing)) for each in group.members
        ]
    read = {topic for member in group.members for topic, _ in member.partitions}
    topics = whole_topics((topic for topic, _ in group.offsets), read, len(group.members)) & existing.keys()
    whole = {(topic, number) for topic in topics for number in existing[topic].partitions}
    group.uncommitted = whole - group.offsets.keys()
    there = _there(group.partitions(), existing)
    led = [(topic, number) for topic, number in there if existing[topic].partitions[number].leader >= 0]
    never = [each for each in led if each not in group.offsets]
    group.starts = _offsets(broker, admin, OffsetSpec.earliest(), never)
    group.ends = _offsets(broker, admin, OffsetSpec.latest(), led)
    if not in_seconds:
        return
    positions = group.starts | group.offsets
    behind = {partition: positions[partition] for partition in led if group.lag(partition)}
    group.lag_seconds = {partition: 0.0 for partition in led if group.lag(partition) == 0}
    now_ms = time.time() * 1000
    for partition, timestamp in first_timestamps(broker, behind).items():
        if timestamp >= 0:
            group.lag_seconds[partition] = max((now_ms - timestamp) / 1000, 0.0)


def _offsets(
    broker: Connection, admin: "AdminClient", spec: "OffsetSpec", partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Offsets of the partitions that are not deleted meanwhile. Raises CommandFailed."""
    found = list_offsets(broker, admin, spec, partitions, skip_missing=True)
    return {partition: offset for partition, (offset, _) in found.items()}


def _there(partitions: Iterable[Partition], existing: Mapping[str, "TopicMetadata"]) -> list[Partition]:
    return [(t, n) for t, n in partitions if t in existing and n in existing[t].partitions]


def first_timestamps(broker: Connection, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    """Timestamp (ms) of the first record at or after an offset of each partition.

    Partitions without such a record are left out: the offsets may be compacted or transaction
    markers."""
    from confluent_kafka import TopicPartition

    if not offsets:
        return {}
    settings = {
        "group.id": "kbroker-lag",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
        "queued.min.messages": 1,
        "fetch.message.max.bytes": 65536,
    }
    found: dict[Partition, int] = {}
    waiting = set(offsets)
    consumer = broker.consumer(settings)
    deadline = time.monotonic() + broker.timeout_s
    try:
        consumer.assign(
            [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        )
        with progress("reading timestamps", len(waiting)) as advance:
            while waiting and time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is None:
                    continue
                partition = (message.topic() or "", message.partition() or 0)
                if partition not in waiting:
                    continue
                if message.error() is None:
                    found[partition] = message.timestamp()[1]
                waiting.discard(partition)
                consumer.pause([TopicPartition(*partition)])
                advance(1)
    finally:
        consumer.close()
    return found
