"""The durable state of shared partitions: a machine over `__share_group_state` (Kafka's
ShareCoordinatorShard).

A snapshot holds the whole state of a partition in a group, updates hold later changes. Replay
merges them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import field

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE as TOPIC
from kbroker.control.share.ranges import DeliveryState, Range, Ranges, finished_in
from kbroker.protocol.coordinator_records import share_snapshot, share_update
from kbroker.protocol.coordinator_records.index import SHARE_GROUP_STATE
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.kafka_uuid import format_uuid
from kbroker.protocol.record_types import decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError, Struct

_STATES = frozenset(map(int, DeliveryState))
_LAST_OFFSET = 2**63 - 1
_LARGEST_COUNT = 2**31 - 1
NOT_STARTED = -1
"""Start offset of a state that no member has read yet, as Kafka initializes it."""
_NOT_COUNTED = -1
"""Delivery-complete count of records of earlier versions, and, as in Kafka, of partitions without a
start offset."""


class ShareKey(NamedTuple):
    """A partition in a share group."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """The coordinator key, by which the partition of the topic is chosen
        (SharePartitionKey)."""
        topic = format_uuid(self.topic_id)
        return f"{self.group_id}:{topic}:{self.partition}"


class Stored(msgspec.Struct):
    """The written state of one partition in one group. complete_count: finished records from the
    start offset on (KIP-1226)."""

    start_offset: int
    state_epoch: int = 0
    leader_epoch: int = 0
    snapshot_epoch: int = 0
    updates: int = 0
    create_timestamp: int = 0
    complete_count: int = _NOT_COUNTED
    ranges: Ranges = field(default_factory=Ranges)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has been written since the first start offset."""
        return not self.snapshot_epoch and not self.updates

    @property
    def finished(self) -> int:
        """The number of finished records from the start offset on."""
        return self.ranges.finished if self.complete_count == _NOT_COUNTED else self.complete_count


class ShareStateShard:
    """Runs in: control. Owner: its Runtime. Operations are decided for one ShareKey, and each sees
    the record of the one before replayed, unless its append has failed."""

    topic = TOPIC

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[ShareKey, Stored] = {}
        self._in_partition: dict[int, set[ShareKey]] = {}
        self._unknown: set[ShareKey] = set()
        """Existing states with a decided record that is not replayed. If its append has failed, as
        by a timeout, the log may have it nevertheless, so an update would be merged into another
        state; after a deletion it would be dropped."""

    def get(self, key: ShareKey) -> Stored | None:
        return self._states.get(key)

    def keys_of(self, group_id: str) -> list[ShareKey]:
        """The keys of all partitions that a group shares or has shared."""
        return [key for key in self._states if key.group_id == group_id]

    def keys_of_topic(self, topic_id: bytes) -> list[ShareKey]:
        """Every group's state of a topic."""
        return [key for key in self._states if key.topic_id == topic_id]

    def keys_in(self, partition: int) -> list[ShareKey]:
        """The keys whose records are in a partition of the topic."""
        return [key for key in self._in_partition.get(partition, ()) if key in self._states]

    # --- operations

    def initialize(self, key: ShareKey, state_epoch: int, now_ms: int) -> Outcome:
        """Write a state without a start offset, unless there is a state. state_epoch: Kafka takes
        the group's epoch."""
        if key in self._states:
            return Outcome()
        return Outcome([self._snapshot(key, Stored(NOT_STARTED, state_epoch), NOT_STARTED, (), now_ms)])

    def begin(self, key: ShareKey, start_offset: int, now_ms: int) -> Outcome:
        """Write the first start offset, unless there is one by now: another fetch may have found
        none, too, and an administrator may have set one."""
        stored = self._states.get(key)
        if stored is not None and stored.start_offset >= 0:
            return Outcome()
        return self.write(key, start_offset, (), now_ms)

    def write(self, key: ShareKey, start_offset: int, changed: Sequence[Range], now_ms: int) -> Outcome:
        """Write a new start offset and the changes after it. The first start offset makes a
        snapshot."""
        stored = self._states.get(key)
        if (
            stored is None
            or stored.start_offset < 0
            or stored.updates >= self._updates_per_snapshot
            or key in self._unknown
        ):
            return self._decided(key, self._snapshot(key, stored, start_offset, changed, now_ms))
        value = share_update.ShareUpdateValue(
            stored.snapshot_epoch,
            stored.leader_epoch,
            start_offset,
            _complete_count(start_offset, _finished_after(stored, start_offset, changed)),
            state_batches=[share_update.StateBatch(*_plain(each)) for each in changed],
        )
        return self._decided(
            key, Record(encode_key(share_update.ShareUpdateKey(*key)), encode_value(value, 0))
        )

    def restart_at(self, key: ShareKey, start_offset: int, now_ms: int) -> Outcome:
        """Set a new start offset, on an administrator's request."""
        stored = self._states.get(key)
        epoch = 0 if stored is None else next_epoch(stored.state_epoch)
        fresh = Stored(start_offset, epoch, snapshot_epoch=0 if stored is None else stored.snapshot_epoch)
        return self._decided(key, self._snapshot(key, fresh, start_offset, (), now_ms))

    def rewrite(self, key: ShareKey, now_ms: int) -> Outcome:
        """Write a snapshot of the state, so that its older records are no longer needed."""
        stored = self._states.get(key)
        if stored is None:
            return Outcome()
        return self._decided(key, self._snapshot(key, stored, stored.start_offset, (), now_ms))

    def delete(self, key: ShareKey) -> Outcome:
        """Delete the state of a partition in a group."""
        if key not in self._states:
            return Outcome()
        return self._decided(key, Record(encode_key(share_snapshot.ShareSnapshotKey(*key)), None))

    def _decided(self, key: ShareKey, record: Record) -> Outcome:
        if key in self._states:
            self._unknown.add(key)
        return Outcome([record])

    def _snapshot(
        self, key: ShareKey, stored: Stored | None, start_offset: int, changed: Sequence[Range], now_ms: int
    ) -> Record:
        whole = Ranges()
        if stored is not None:
            for each in stored.ranges:
                whole.put(each)
        for each in changed:
            whole.put(_without_lock(each))
        whole.drop_before(start_offset)
        value = share_snapshot.ShareSnapshotValue(
            _snapshot_epoch(stored),
            0 if stored is None else stored.state_epoch,
            0 if stored is None else stored.leader_epoch,
            start_offset,
            delivery_complete_count=_complete_count(start_offset, whole.finished),
            create_timestamp=now_ms if stored is None else stored.create_timestamp or now_ms,
            write_timestamp=now_ms,
            state_batches=[share_snapshot.StateBatch(*_plain(each)) for each in whole],
        )
        return Record(encode_key(share_snapshot.ShareSnapshotKey(*key)), encode_value(value, 0))

    # --- the log

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:  # noqa: ARG002
        """Apply one record. Raises ProtocolError for one of an unknown type or version."""
        parsed, content = decode_record(SHARE_GROUP_STATE, key, value)
        assert isinstance(parsed, share_snapshot.ShareSnapshotKey | share_update.ShareUpdateKey)
        share_key = ShareKey(parsed.group_id, parsed.topic_id, parsed.partition)
        changed = [] if content is None else _ranges(content)
        self._unknown.discard(share_key)
        if content is None:
            self._states.pop(share_key, None)
            self._in_partition.get(partition, set()).discard(share_key)
            return
        self._in_partition.setdefault(partition, set()).add(share_key)
        if isinstance(content, share_snapshot.ShareSnapshotValue):
            stored = self._states[share_key] = Stored(
                content.start_offset,
                content.state_epoch,
                content.leader_epoch,
                content.snapshot_epoch,
                create_timestamp=content.create_timestamp,
            )
        else:
            assert isinstance(content, share_update.ShareUpdateValue)
            found = self._states.get(share_key)
            if found is None:
                return
            stored = found
            stored.updates += 1
            stored.start_offset = max(stored.start_offset, content.start_offset)
        stored.complete_count = content.delivery_complete_count
        for each in changed:
            stored.ranges.put(each)
        stored.ranges.drop_before(stored.start_offset)

    def loaded(self, partition: int, now_ms: int) -> None:
        """Does nothing: this machine has no timers."""

    def unloaded(self, partition: int) -> None:
        for key in self._in_partition.pop(partition, set()):
            self._states.pop(key, None)
            self._unknown.discard(key)


def _snapshot_epoch(stored: Stored | None) -> int:
    """The epoch of the next snapshot. The first start offset does not raise it (`is_untouched`)."""
    if stored is None:
        return 0
    return stored.snapshot_epoch if stored.start_offset < 0 else next_epoch(stored.snapshot_epoch)


def _ranges(content: Struct) -> list[Range]:
    """The ranges in a record. Raises ProtocolError for impossible ones, before any of them is
    applied."""
    assert isinstance(content, share_snapshot.ShareSnapshotValue | share_update.ShareUpdateValue)
    batches: Sequence[share_snapshot.StateBatch | share_update.StateBatch] = content.state_batches
    found = []
    for batch in batches:
        first, last, number = batch.first_offset, batch.last_offset, batch.delivery_state
        if not 0 <= first <= last < _LAST_OFFSET or number not in _STATES or batch.delivery_count < 0:
            raise ProtocolError(
                f"offsets {first} to {last} in state {number}, delivered {batch.delivery_count} times"
            )
        state = DeliveryState(number)
        if state is DeliveryState.ARCHIVING:  # as in Kafka: it is not known whether the letter was written
            state = DeliveryState.AVAILABLE
        found.append(Range(first, last, state, batch.delivery_count))
    return found


def _finished_after(stored: Stored, start_offset: int, changed: Sequence[Range]) -> int:
    """The number of records that are finished from a start offset on, with these changes. Reads
    only the ranges that they touch."""
    start, new = max(start_offset, stored.start_offset), Ranges()
    for each in changed:
        new.put(each)
    new.drop_before(start)
    count = stored.ranges.finished - finished_in(stored.ranges.between(0, start - 1)) + new.finished
    return count - sum(finished_in(stored.ranges.between(each.first, each.last)) for each in new)


def _complete_count(start_offset: int, finished: int) -> int:
    """The count as it is written, in 32 bits."""
    return _NOT_COUNTED if start_offset == NOT_STARTED else min(finished, _LARGEST_COUNT)


def _plain(each: Range) -> tuple[int, int, int, int]:
    state = DeliveryState.AVAILABLE if each.state is DeliveryState.ACQUIRED else each.state
    return each.first, each.last, int(state), each.delivery_count


def _without_lock(each: Range) -> Range:
    """Release a lock after a restart."""
    return Range(each.first, each.last, DeliveryState(_plain(each)[2]), each.delivery_count)
