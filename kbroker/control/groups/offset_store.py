"""Committed offsets by group, topic and partition, and those of transactions that are still
open."""

from collections.abc import Callable, Collection, Set

from kbroker.control.groups.commit_cache.offset_rows import OffsetRows
from kbroker.control.groups.offset_record import (
    KEY_TYPE,
    CommittedOffset,
    check_offset,
    decode_offset,
    decode_offset_key,
    encode_offset_key,
)
from kbroker.protocol.slices import paced

Offsets = dict[str, dict[int, CommittedOffset]]
"""topic -> partition -> offset"""


class StoredOffset:
    """The last committed offset of one partition, as its record; parsed on first use.

    row: of the cache, which may have replayed later records than this knows; -1 without one.
    """

    __slots__ = ("_offset", "_rows", "_sequence", "_value", "group_id", "partition", "row", "topic")

    def __init__(self, group_id: str, topic: str, partition: int, rows: OffsetRows) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.row = -1
        self._rows = rows
        self._sequence = 0
        self._value = b""
        self._offset: CommittedOffset | None = None

    def put(self, value: bytes, sequence: int) -> None:
        self._value = value
        self._sequence = sequence
        self._offset = None

    def _settle(self) -> None:
        if self.row >= 0:
            sequence, value = self._rows.last(self.row)
            if sequence > self._sequence:
                self.put(value, sequence)

    def leave(self) -> None:
        """Free the row."""
        if self.row >= 0:
            self._settle()
            self._rows.drop(self.row)
            self.row = -1

    @property
    def sequence(self) -> int:
        """Grows with each replayed record, and thus orders the commits of a partition."""
        self._settle()
        return self._sequence

    @property
    def offset(self) -> CommittedOffset:
        """The offset of the record, which was checked when it was replayed."""
        self._settle()
        if self._offset is None:
            self._offset = decode_offset(self._value)
        return self._offset


StoredOffsets = dict[str, dict[int, StoredOffset]]


class OffsetStore:
    """Runs in: control. Owner: the GroupTable. Changed only by replay (Kafka's
    OffsetMetadataManager).

    on_change: called with the group of every change, but for those that the commit cache writes
    into its rows.
    """

    __slots__ = ("_by_key", "_committed", "_open", "_opened", "_pending", "on_change", "rows")

    def __init__(self) -> None:
        self.rows = OffsetRows()
        self.on_change: Callable[[str], None] = lambda _: None
        self._committed: dict[str, StoredOffsets] = {}
        self._by_key: dict[bytes, StoredOffset] = {}
        self._pending: dict[int, dict[str, StoredOffsets]] = {}
        self._open: dict[str, set[int]] = {}  # producer ids by group
        self._opened: dict[int, dict[str, None]] = {}  # the same, groups by producer id

    @property
    def count(self) -> int:
        """Committed offsets of all groups."""
        return len(self._by_key)

    def of_group(self, group_id: str) -> Offsets:
        """The group's committed offsets."""
        return {
            topic: {partition: stored.offset for partition, stored in paced(list(partitions.items()))}
            for topic, partitions in list(self._committed.get(group_id, {}).items())
        }

    def count_of(self, group_id: str) -> int:
        """The number of the group's committed offsets."""
        return sum(map(len, self._committed.get(group_id, {}).values()))

    def topics_of(self, group_id: str) -> Collection[str]:
        """The topics of the group's committed offsets."""
        return self._committed.get(group_id, {}).keys()

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        stored = self._committed.get(group_id, {}).get(topic, {}).get(partition)
        return None if stored is None else stored.offset

    def stored(self, key: bytes) -> StoredOffset | None:
        """The committed offset whose records have this key."""
        return self._by_key.get(key)

    def has_group(self, group_id: str) -> bool:
        """Whether the group has an offset, committed or pending."""
        return group_id in self._committed or group_id in self._open

    def has_topic(self, group_id: str, topic: str) -> bool:
        """Whether the group has an offset of the topic, committed or pending."""
        return topic in self._committed.get(group_id, {}) or any(
            topic in self._pending.get(producer_id, {}).get(group_id, {})
            for producer_id in self._open.get(group_id, ())
        )

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(
            partition in self._pending.get(producer_id, {}).get(group_id, {}).get(topic, {})
            for producer_id in self._open.get(group_id, ())
        )

    def pending_partitions(self, group_id: str) -> set[tuple[str, int]]:
        """(topic, partition) of every offset that open transactions have for the group."""
        return set(self.pending_topic_ids(group_id))

    def pending_topic_ids(self, group_id: str) -> dict[tuple[str, int], set[bytes]]:
        """The topic ids of the offsets that open transactions have for the group, by (topic,
        partition)."""
        found: dict[tuple[str, int], set[bytes]] = {}
        for producer_id in list(self._open.get(group_id, ())):
            for topic, partitions in list(self._pending.get(producer_id, {}).get(group_id, {}).items()):
                for partition, stored in paced(list(partitions.items())):
                    found.setdefault((topic, partition), set()).add(stored.offset.topic_id)
        return found

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1) -> str:
        """Apply one record; of a transaction when producer_id >= 0. The group it is about. Raises
        ProtocolError."""
        stored = self._by_key.get(key)
        if stored is None or value is None or producer_id >= 0:
            group_id = self._replay(key, value, producer_id)
        else:
            stored.put(_checked(value), self._next())
            group_id = stored.group_id
        self.on_change(group_id)
        return group_id

    def _next(self) -> int:
        counter = self.rows.counter
        counter[0] += 1
        return counter[0]

    def _replay(self, key: bytes, value: bytes | None, producer_id: int) -> str:
        group_id, topic, partition = decode_offset_key(key)
        key = KEY_TYPE + key[len(KEY_TYPE) :]  # the oldest brokers wrote type 0
        if value is None:
            self._forget(key, group_id, topic, partition)
            return group_id
        stored = StoredOffset(group_id, topic, partition, self.rows)
        stored.put(_checked(value), self._next())
        if producer_id < 0:
            self._put(key, stored)
            return group_id
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = stored
        self._open.setdefault(group_id, set()).add(producer_id)
        self._opened.setdefault(producer_id, {})[group_id] = None
        return group_id

    def end_transaction(self, producer_id: int, commit: bool, group_ids: Set[str]) -> None:
        """Replay a marker: the transaction's offsets of these groups are committed, unless newer
        ones exist, or removed."""
        groups = self._pending.get(producer_id, {})
        # a group is open to the transaction also when the offsets it had there have been deleted
        # since
        opened = self._opened.get(producer_id, {})
        for group_id in [each for each in opened if each in group_ids]:
            del opened[group_id]
            topics = groups.pop(group_id, {})
            self.on_change(group_id)
            producers = self._open[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]
            for pending in [each for partitions in topics.values() for each in partitions.values()]:
                existing = self._committed.get(group_id, {}).get(pending.topic, {}).get(pending.partition)
                if commit and (existing is None or pending.sequence > existing.sequence):
                    self._put(_key_of(pending), pending)
        if not groups:
            self._pending.pop(producer_id, None)
        if not opened:
            self._opened.pop(producer_id, None)

    def forget_group(self, group_id: str) -> None:
        """Drop a group with its partition of __consumer_offsets; not by records."""
        self.on_change(group_id)
        for partitions in self._committed.pop(group_id, {}).values():
            for stored in partitions.values():
                self._take_out(_key_of(stored))
        for producer_id in self._open.pop(group_id, set()):
            self._pending.get(producer_id, {}).pop(group_id, None)
            self._opened.get(producer_id, {}).pop(group_id, None)

    def _put(self, key: bytes, stored: StoredOffset) -> None:
        self._committed.setdefault(stored.group_id, {}).setdefault(stored.topic, {})[stored.partition] = (
            stored
        )
        self._take_out(key)
        self._by_key[key] = stored

    def _take_out(self, key: bytes) -> None:
        stored = self._by_key.pop(key, None)
        if stored is not None:
            stored.leave()

    def _forget(self, key: bytes, group_id: str, topic: str, partition: int) -> None:
        self._take_out(key)
        _remove(self._committed, group_id, topic, partition)
        for producer_id in self._open.get(group_id, ()):
            _remove(self._pending.get(producer_id, {}), group_id, topic, partition)


def _key_of(stored: StoredOffset) -> bytes:
    return encode_offset_key(stored.group_id, stored.topic, stored.partition)


def _checked(value: bytes) -> bytes:
    """The value, if it is an offset that this version of Kafka knows. Raises ProtocolError."""
    check_offset(value)
    return value


def _remove(groups: dict[str, StoredOffsets], group_id: str, topic: str, partition: int) -> None:
    """Remove one offset, and the maps that become empty."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    partitions.pop(partition, None)
    if topic in topics and not partitions:
        del topics[topic]
    if group_id in groups and not topics:
        del groups[group_id]
