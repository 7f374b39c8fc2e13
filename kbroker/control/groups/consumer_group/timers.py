"""The timers of a consumer group's members: those of every modern group, and those of classic
members."""

from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.modern_group.timers import MemberTimers
from kbroker.control.groups.timer_names import member_timer


class ConsumerTimers(MemberTimers[ConsumerGroup]):
    """Runs in: control. Owner: the Fencing."""

    def join_if_absent(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member got REBALANCE_IN_PROGRESS and must rejoin in time."""
        timer = _join(group_id, member_id)
        expired = self.fence(timer, group_id, member_id, "it did not rejoin in time")
        self._table.timers.schedule_if_absent(timer, timeout_ms, group_id, expired)

    def end_join(self, group_id: str, member_id: str) -> None:
        self._table.timers.cancel(_join(group_id, member_id))

    def sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has joined and must sync in time."""
        timer = _sync(group_id, member_id)
        expired = self.fence(timer, group_id, member_id, "it did not sync in time")
        self._table.timers.schedule(timer, timeout_ms, group_id, expired)

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._table.timers.cancel(_sync(group_id, member_id))

    def end_all(self, group_id: str, member_id: str) -> None:
        super().end_all(group_id, member_id)
        self.end_join(group_id, member_id)
        self.end_sync(group_id, member_id)


def _join(group_id: str, member_id: str) -> str:
    return member_timer("consumer-join", group_id, member_id)


def _sync(group_id: str, member_id: str) -> str:
    return member_timer("consumer-sync", group_id, member_id)
