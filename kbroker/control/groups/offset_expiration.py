"""Removes offsets: expired ones (KIP-211), those of deleted topics, and those of deleted groups.

An operation on expired offsets, or on those of a deleted topic, removes as many as a batch holds;
`steps` of them remove all. Apache Kafka writes several batches, too.
"""

from collections.abc import Iterable
from typing import Final

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_record import CommittedOffset, offset_tombstone
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.schema import ZERO_UUID
from kbroker.protocol.slices import in_order, paced

STEP_BYTES: Final = 1 << 18
"""Maximum of the keys that one operation removes."""
KEY_BYTES: Final = 256
"""Maximum of a key besides the group's id: the topic's name, and lengths."""


def steps(group_id: str, offsets: int) -> int:
    """Operations that remove `offsets` offsets of a group."""
    return 1 + offsets * (3 * len(group_id) + KEY_BYTES) // STEP_BYTES


def is_full(outcome: Outcome) -> bool:
    """Whether an operation has removed as much as one does, so that there may be more."""
    return sum(len(record.key) for record in paced(outcome.records)) >= STEP_BYTES


def expire_offsets(table: GroupTable, group_id: str, now_ms: int) -> Outcome:
    """Tombstones for expired offsets of a group, and for the group when nothing of it is left."""
    group = table.groups.get(group_id)
    records: list[Record] = []
    if group is None or not group.EXPIRES:
        return Outcome()
    if _expire(table, group, now_ms, records) and group.is_empty:
        records += group.tombstones()
    return Outcome(records)


def _expire(table: GroupTable, group: Group, now_ms: int, records: list[Record]) -> bool:
    """Whether the group has no offsets left."""
    group_id = group.group_id
    offsets = table.offsets.of_group(group_id)
    all_gone = True
    room = STEP_BYTES
    for topic, partitions in paced(offsets.items()):
        subscribed = group.is_subscribed_to(topic)
        topic_id = table.topics.id_of(topic)
        for partition, offset in paced(partitions.items()):
            expired = not subscribed and _is_expired(
                group, offset, now_ms, table.settings.offsets_retention_ms
            )
            if (
                room <= 0
                or not (expired or offset.is_of_another(topic_id))
                or table.offsets.is_pending(group_id, topic, partition)
            ):
                all_gone = False
            else:
                records.append(offset_tombstone(group_id, topic, partition))
                room -= len(records[-1].key)
    return all_gone and not table.offsets.has_open_transaction(group_id)


def _is_expired(group: Group, offset: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
    since_ms = group.expiry_base_ms(offset.commit_timestamp)
    if since_ms is None:
        return False
    if offset.expire_timestamp != -1:
        return now_ms >= offset.expire_timestamp
    return now_ms - since_ms >= retention_ms


def delete_offsets_of_group(table: GroupTable, group_id: str) -> list[Record]:
    """Tombstones for all offsets of a group, those of open transactions included."""
    committed = {
        (topic, partition)
        for topic, partitions in paced(table.offsets.of_group(group_id).items())
        for partition in paced(partitions)
    }
    everything = in_order(committed | table.offsets.pending_partitions(group_id))
    return [offset_tombstone(group_id, topic, partition) for topic, partition in paced(everything)]


def delete_offsets_of_partitions(
    table: GroupTable, group_id: str, partitions: Iterable[tuple[str, int]], topic_id: bytes
) -> Outcome:
    """Tombstones for offsets of a group, of (topic, partition) pairs that were deleted with a
    topic; not for those of the next topic of its name. A tombstone also removes pending offsets: an
    old one is left while an open transaction has one of the next topic. `expire_offsets` removes it
    later if the transaction does not commit."""
    pending = table.offsets.pending_topic_ids(group_id)
    records: list[Record] = []
    room = STEP_BYTES
    for topic, partition in paced(partitions):
        offset = table.offsets.get(group_id, topic, partition)
        ids = pending.get((topic, partition), set()) | (set() if offset is None else {offset.topic_id})
        if ids and ids <= {ZERO_UUID, topic_id}:
            records.append(offset_tombstone(group_id, topic, partition))
            room -= len(records[-1].key)
            if room <= 0:
                break
    return Outcome(records)
