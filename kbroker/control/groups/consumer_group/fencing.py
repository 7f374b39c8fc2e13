"""Members that are removed: they left, their session expired, or the group changed to the classic
protocol."""

from collections import Counter
from collections.abc import Sequence

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.migration import Migration
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.timers import ConsumerTimers
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.slices import paced


class Fencing:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, migration: Migration) -> None:
        self._table = table
        self._migration = migration
        self.timers = ConsumerTimers(
            table, ConsumerGroup, table.settings.consumer_session_timeout_ms, self._fence
        )

    def _fence(self, group: ConsumerGroup, member_id: str, now_ms: int) -> Outcome:
        return self.remove(group, [group.members[member_id]], now_ms)

    def leave(self, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int) -> Outcome:
        """Remove members that leave, or whom an administrator removes."""
        outcome = self.remove(group, members, now_ms)
        for member in members:
            self.timers.left(group.group_id, member.member_id)
        return outcome

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int) -> Outcome:
        """Remove members. The group becomes classic when only classic members are left."""
        if not members:
            return Outcome()
        gone = {member.member_id for member in members}
        for member_id in gone:
            self.timers.end_all(group.group_id, member_id)
        downgrade = self._migration.downgrade_without(group, gone, now_ms)
        if downgrade is not None:
            return downgrade
        out: list[Record] = []
        for member in paced(members):
            out += records.member_tombstones(group.group_id, member.member_id)
        regexes = Counter(member.regex for member in members if member.regex)
        out += [
            records.regex_tombstone(group.group_id, regex)
            for regex in sorted(regexes)
            if group.subscribers_of(regex) <= regexes[regex]
        ]
        hashed = group.hash_with(self._table.topics, gone)
        out.append(records.group_epoch(group.group_id, next_epoch(group.group_epoch), hashed))
        return Outcome(out)
