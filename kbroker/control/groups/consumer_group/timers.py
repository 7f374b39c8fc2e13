"""The timers of a consumer group's members, by Kafka's names."""

from collections.abc import Callable

from kbroker.control.groups.table import GroupTable
from kbroker.control.machine import Operation, Outcome

Fence = Callable[[str, str, str, int], Outcome]
"""fence(group_id, member_id, reason, now_ms): remove a member that kept silent too long."""


class MemberTimers:
    """Runs in: control. Owner: the ConsumerGroups. Sets timers; who is removed is decided by `fence`."""

    def __init__(self, table: GroupTable, fence: Fence) -> None:
        self._table = table
        self._fence = fence
        self._joining: set[str] = set()

    def session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """The member has been heard of."""
        if timeout_ms is None:
            timeout_ms = self._table.overrides.number(
                group_id, "consumer.session.timeout.ms", self._table.settings.consumer_session_timeout_ms
            )
        self._set(
            f"session-timeout-{group_id}-{member_id}", timeout_ms, group_id, member_id, "its session expired"
        )

    def rebalance(self, group_id: str, member_id: str, timeout_ms: int, operation: Operation) -> None:
        """The member must give up partitions in time."""
        self._table.timers.schedule(
            f"rebalance-timeout-{group_id}-{member_id}", timeout_ms, group_id, operation
        )

    def end_rebalance(self, group_id: str, member_id: str) -> None:
        self._table.timers.cancel(f"rebalance-timeout-{group_id}-{member_id}")

    def join_if_absent(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has been told to rejoin and must do so in time."""
        name = f"consumer-join-{group_id}-{member_id}"
        if name not in self._joining:
            self._joining.add(name)
            self._set(name, timeout_ms, group_id, member_id, "it did not rejoin in time")

    def end_join(self, group_id: str, member_id: str) -> None:
        name = f"consumer-join-{group_id}-{member_id}"
        self._joining.discard(name)
        self._table.timers.cancel(name)

    def sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has joined and must sync in time."""
        name = f"consumer-sync-{group_id}-{member_id}"
        self._set(name, timeout_ms, group_id, member_id, "it did not sync in time")

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._table.timers.cancel(f"consumer-sync-{group_id}-{member_id}")

    def end_all(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        self._table.timers.cancel(f"session-timeout-{group_id}-{member_id}")
        self.end_rebalance(group_id, member_id)
        self.end_join(group_id, member_id)
        self.end_sync(group_id, member_id)

    def _set(self, name: str, timeout_ms: int, group_id: str, member_id: str, reason: str) -> None:
        def expired(now_ms: int) -> Outcome:
            self._joining.discard(name)
            return self._fence(group_id, member_id, reason, now_ms)

        self._table.timers.schedule(name, timeout_ms, group_id, expired)
