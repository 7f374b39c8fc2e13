"""The steps that heartbeats of new and of classic members share: group epoch, replacement,
reconciliation."""

import logging

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.consumer_group.reconcile import Owned, reconcile
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.target import Target
from kbroker.control.groups.consumer_group.timers import ConsumerTimers
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)


class Progress:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, timers: ConsumerTimers) -> None:
        self._table = table
        self.timers = timers

    def group_epoch(self, group: ConsumerGroup, bump: bool, member: ConsumerMember, out: list[Record]) -> int:
        """The group's epoch after this request: one more when the subscriptions or their topics
        changed."""
        version = self._table.topics.version
        if not bump and group.topics_seen == version:
            return group.group_epoch
        predecessor = group.static_members.get(member.instance_id or "")
        gone = () if predecessor is None else (predecessor,)
        hashed = group.hash_with(self._table.topics, gone, member)
        if hashed == group.metadata_hash:  # else compared again: the new one may not be written
            group.topics_seen = version
        if group.has_partition_metadata:
            out.append(records.partition_metadata_tombstone(group.group_id))
        if not bump and hashed == group.metadata_hash:
            return group.group_epoch
        epoch = next_epoch(group.group_epoch)
        out.append(records.group_epoch(group.group_id, epoch, hashed))
        log.info("group %s: epoch %d", group.group_id, epoch)
        return epoch

    def replace_member(
        self, group: ConsumerGroup, old: ConsumerMember, member_id: str, out: list[Record]
    ) -> ConsumerMember:
        """A static member is back under a new id: it takes over what the old one had."""
        new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        out += records.member_tombstones(group.group_id, old.member_id)
        out.append(records.member_metadata(group.group_id, new))
        target = group.target.get(old.member_id, {})
        out.append(records.target_assignment(group.group_id, member_id, target))
        out.append(records.current_assignment(group.group_id, new))
        log.info("group %s: %s replaces %s", group.group_id, member_id, old.member_id)
        return new

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Target,
        subscription_changed: bool,
        owned: Owned,
        out: list[Record],
    ) -> ConsumerMember:
        """The member after its next step, written down when that changed something."""
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        moved = reconcile(
            member,
            target.epoch,
            target.partitions,
            self._subscribed(group, member, target),
            subscription_changed,
            owned,
            group.owner_epoch,
        )
        if moved == member:
            return member
        out.append(records.current_assignment(group.group_id, moved))
        if not moved.uses_classic:
            if moved.state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.revocation(group.group_id, moved, moved.rebalance_timeout_ms)
            else:
                self.timers.end_revocation(group.group_id, moved.member_id)
        return moved

    def _subscribed(self, group: ConsumerGroup, member: ConsumerMember, target: Target) -> set[bytes]:
        """The topics of a member and of its target that it subscribes to: it may subscribe to very
        many others."""
        resolved = group.regexes.get(member.regex)
        by_regex = NO_NAMES if resolved is None else resolved.topics
        found = set()
        for topic_id in paced((*target.partitions, *member.assigned)):
            name = self._table.topics.name_of(topic_id)
            if name in member.subscribed_topics or name in by_regex:
                found.add(topic_id)
        return found

    def watch_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the timer for a member's revocation of partitions, after a restart."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.timers.revocation(group_id, member, member.rebalance_timeout_ms)
