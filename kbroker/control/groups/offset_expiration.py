"""Removes offsets: expired ones (KIP-211), those of deleted topics, and those of deleted groups."""

from collections.abc import Iterable

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_record import CommittedOffset, offset_tombstone
from kbroker.control.groups.table import GroupTable


def expire_offsets(table: GroupTable, group_id: str, now_ms: int) -> Outcome:
    """Tombstones for a group's expired offsets, and for the group when nothing of it is left."""
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
    for topic, partitions in offsets.items():
        subscribed = group.is_subscribed_to(topic)
        for partition, offset in partitions.items():
            if (
                subscribed
                or not _is_expired(group, offset, now_ms, table.settings.offsets_retention_ms)
                or table.offsets.is_pending(group_id, topic, partition)
            ):
                all_gone = False
            else:
                records.append(offset_tombstone(group_id, topic, partition))
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
        for topic, partitions in table.offsets.of_group(group_id).items()
        for partition in partitions
    }
    everything = sorted(committed | table.offsets.pending_partitions(group_id))
    return [offset_tombstone(group_id, topic, partition) for topic, partition in everything]


def delete_offsets_of_partitions(
    table: GroupTable, group_id: str, partitions: Iterable[tuple[str, int]]
) -> Outcome:
    """Tombstones for a group's offsets of (topic, partition) pairs that were deleted."""
    pending = table.offsets.pending_partitions(group_id)
    return Outcome(
        [
            offset_tombstone(group_id, topic, partition)
            for topic, partition in partitions
            if table.offsets.get(group_id, topic, partition) is not None or (topic, partition) in pending
        ]
    )
