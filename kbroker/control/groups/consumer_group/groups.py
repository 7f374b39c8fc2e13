"""Everything of consumer groups together, as the shard uses it."""

from dataclasses import replace

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


class ConsumerGroups:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, rebalance: Rebalance, replay: GroupReplay) -> None:
        self._table = table
        migration = Migration(table, rebalance)
        fencing = Fencing(table, migration)
        migration.upgraded = fencing.timers.session
        self._progress = Progress(table, fencing.timers)
        self.heartbeat = ConsumerHeartbeat(table, self._progress, fencing, migration).heartbeat
        self.classic = ClassicMembers(table, self._progress, fencing, migration)
        ConsumerReplay(table, replay)

    def loaded(self, group: ConsumerGroup) -> None:
        """After a restart: sessions start, expressions are matched against the topics of this process."""
        for regex, resolved in group.regexes.items():
            group.regexes[regex] = replace(resolved, version=-1)
        for member in group.members.values():
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self._progress.timers.session(group.group_id, member.member_id, timeout_ms)
            if not member.uses_classic:
                self._progress.watch_revocation(group.group_id, member)
