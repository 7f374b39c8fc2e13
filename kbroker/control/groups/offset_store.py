"""Committed offsets by group, topic and partition, and those of transactions that are still open."""

from collections.abc import Iterator, Set
from typing import NamedTuple

from kbroker.control.machine import Record
from kbroker.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kbroker.protocol.record_types import encode_key, encode_value
from kbroker.protocol.schema import ZERO_UUID

OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
"""Only commits of OffsetCommit v2-4 with a retention of their own are written in this version."""


class CommittedOffset(NamedTuple):
    """One committed offset. expire_timestamp: -1 follows offsets.retention.minutes.

    sequence: grows with each replayed record; tells which of two commits is the later one.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID
    sequence: int = 0


Offsets = dict[str, dict[int, CommittedOffset]]
"""topic -> partition -> offset"""


class OffsetStore:
    """Runs in: control. Owner: the GroupTable. Changed by replay alone (Kafka's OffsetMetadataManager)."""

    __slots__ = ("_committed", "_open", "_pending", "_sequence", "count")

    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        self._open: dict[str, set[int]] = {}
        self._sequence = 0
        self.count = 0
        """Committed offsets of all groups."""

    def of_group(self, group_id: str) -> Offsets:
        """The group's committed offsets; not to be changed."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def groups(self) -> Iterator[str]:
        return iter(tuple(self._committed))

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(
            partition in self._pending[producer_id].get(group_id, {}).get(topic, {})
            for producer_id in self._open.get(group_id, ())
        )

    def pending_partitions(self, group_id: str) -> set[tuple[str, int]]:
        """(topic, partition) of every offset that open transactions have for the group."""
        return {
            (topic, partition)
            for producer_id in self._open.get(group_id, ())
            for topic, partitions in self._pending[producer_id].get(group_id, {}).items()
            for partition in partitions
        }

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int = -1) -> None:
        """Apply one record; of a transaction when producer_id >= 0."""
        if value is None:
            self._forget(key.group, key.topic, key.partition)
            return
        self._sequence += 1
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._sequence,
        )
        if producer_id < 0:
            self._put(key.group, key.topic, key.partition, offset)
            return
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = offset
        self._open.setdefault(key.group, set()).add(producer_id)

    def end_transaction(self, producer_id: int, commit: bool, group_ids: Set[str]) -> None:
        """Replay a marker: its offsets of these groups are committed, unless newer ones are, or vanish."""
        groups = self._pending.get(producer_id, {})
        for group_id in [each for each in groups if each in group_ids]:
            topics = groups.pop(group_id)
            producers = self._open.get(group_id, set())
            producers.discard(producer_id)
            if not producers:
                self._open.pop(group_id, None)
            if not commit:
                continue
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    existing = self.get(group_id, topic, partition)
                    if existing is None or offset.sequence > existing.sequence:
                        self._put(group_id, topic, partition, offset)
        if not groups:
            self._pending.pop(producer_id, None)

    def forget_group(self, group_id: str) -> None:
        """Drop a group with its partition of __consumer_offsets; not by records."""
        for partitions in self._committed.pop(group_id, {}).values():
            self.count -= len(partitions)
        for producer_id in self._open.pop(group_id, set()):
            self._pending.get(producer_id, {}).pop(group_id, None)

    def _put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = self._committed.setdefault(group_id, {}).setdefault(topic, {})
        self.count += partition not in partitions
        partitions[partition] = offset

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        self.count -= _remove(self._committed, group_id, topic, partition)
        for producer_id in self._open.get(group_id, ()):
            _remove(self._pending.get(producer_id, {}), group_id, topic, partition)


def _remove(groups: dict[str, Offsets], group_id: str, topic: str, partition: int) -> bool:
    """Take one offset out, and what becomes empty with it."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    found = partitions.pop(partition, None) is not None
    if topic in topics and not partitions:
        del topics[topic]
    if group_id in groups and not topics:
        del groups[group_id]
    return found


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> Record:
    """The record of a committed offset."""
    value = OffsetCommitValue(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.commit_timestamp,
        offset.expire_timestamp,
        offset.topic_id,
    )
    version = OFFSET_VALUE_VERSION if offset.expire_timestamp == -1 else OFFSET_VALUE_VERSION_WITH_EXPIRY
    return Record(encode_key(OffsetCommitKey(group_id, topic, partition)), encode_value(value, version))


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(encode_key(OffsetCommitKey(group_id, topic, partition)), None)
