"""The parts of the coordinator of consumer groups, as the shard uses them."""

from kbroker.control.groups.commit_cache.cached_decisions import Renewal
from kbroker.control.groups.consumer_group.classic_members import ClassicMembers
from kbroker.control.groups.consumer_group.fencing import Fencing
from kbroker.control.groups.consumer_group.heartbeat import ConsumerHeartbeat
from kbroker.control.groups.consumer_group.migration import Migration
from kbroker.control.groups.consumer_group.progress import Progress
from kbroker.control.groups.consumer_group.replay import ConsumerReplay
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.rebalance import Rebalance
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerGroups:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, rebalance: Rebalance, replay: GroupReplay) -> None:
        self._table = table
        migration = Migration(table, rebalance)
        fencing = Fencing(table, migration)
        migration.upgraded = fencing.timers.session
        migration.downgraded = fencing.timers.end_all
        self._progress = Progress(table, fencing.timers)
        self.heartbeat = ConsumerHeartbeat(table, self._progress, fencing, migration).heartbeat
        self.classic = ClassicMembers(table, self._progress, fencing, migration)
        ConsumerReplay(table, replay)

    def repeatable_heartbeats(
        self, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse
    ) -> Renewal | None:
        """The permission to cache this answer until another operation of the group; None without
        it. The member must have its target assignment, and the group no pending timer (of an
        assignment, or a refresh of regular expressions)."""
        group = self._table.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup) or answer.error_code or answer.assignment is not None:
            return None
        member = group.members.get(request.member_id)
        if member is None or request.member_epoch != member.member_epoch or member.uses_classic:
            return None
        if group.assignment_epoch < group.group_epoch or not member.is_reconciled_to(group.assignment_epoch):
            return None
        if group.topics_seen != self._table.topics.version or group.subscribed_regexes():
            return None
        return Renewal(*self._progress.timers.session_of(group.group_id, member.member_id))

    def loaded(self, group: ConsumerGroup) -> None:
        """The group was loaded after a restart: start its members' sessions, and match expressions
        against the present topics."""
        group.resolved_version = -1
        for member in group.members.values():
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self._progress.timers.session(group.group_id, member.member_id, timeout_ms)
            if not member.uses_classic:
                self._progress.watch_revocation(group.group_id, member)
