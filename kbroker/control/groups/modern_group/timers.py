"""Timers of members of modern groups, under Kafka's names."""

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.groups.modern_group.member import ModernMember
from kbroker.control.groups.modern_group.state import ModernGroup
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.timer_names import member_timer
from kbroker.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

G = TypeVar("G", bound=ModernGroup[Any, Any])

RETRY_MS: Final = 500
MAX_RETRY_MS: Final = 30_000
"""First and longest pause between attempts to remove a member, if the removal cannot be written."""


class MemberTimers(Generic[G]):
    """Runs in: control. Owner: the groups of one type.

    session_timeout_ms: the broker's; a group may have its own.
    remove(group, member_id, now_ms): removes a member that was too late.
    """

    def __init__(
        self,
        table: GroupTable,
        kind: type[G],
        session_timeout_ms: int,
        remove: Callable[[G, str, int], Outcome],
    ) -> None:
        self._table = table
        self._kind = kind
        self._session_timeout_ms = session_timeout_ms
        self._remove = remove

    def session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """The member has sent a heartbeat. timeout_ms: its own, where it has one."""
        timer, own_ms = self.session_of(group_id, member_id)
        expired = self.fence(timer, group_id, member_id, "its session expired")
        self._table.timers.schedule(timer, own_ms if timeout_ms is None else timeout_ms, group_id, expired)

    def session_of(self, group_id: str, member_id: str) -> tuple[str, int]:
        """The timer of a member's session, and for how long one is."""
        name = f"{self._kind.TYPE}.session.timeout.ms"
        timeout_ms = self._table.overrides.number(group_id, name, self._session_timeout_ms)
        return _session(group_id, member_id), timeout_ms

    def revocation(self, group_id: str, member: ModernMember, timeout_ms: int) -> None:
        """Start the timer by which a member must revoke partitions or tasks, and so reach another
        epoch."""
        member_id, epoch = member.member_id, member.member_epoch
        timer = _rebalance(group_id, member_id)
        expired = self.fence(timer, group_id, member_id, f"it did not leave epoch {epoch} in time", epoch)
        self._table.timers.schedule(timer, timeout_ms, group_id, expired)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """Stop the timer: the member has revoked everything."""
        self._table.timers.cancel(_rebalance(group_id, member_id))

    def end_all(self, group_id: str, member_id: str) -> None:
        """Stop all timers of a removed member."""
        self._table.timers.cancel(_session(group_id, member_id))
        self.end_revocation(group_id, member_id)

    def left(self, group_id: str, member_id: str) -> None:
        """A member leaves. If that cannot be written it is removed soon: it may send nothing more,
        and would keep its partitions or tasks."""
        timer = _session(group_id, member_id)
        expired = self.fence(timer, group_id, member_id, "it left")
        self._table.timers.schedule(timer, RETRY_MS, group_id, expired)

    def fence(
        self, timer: str, group_id: str, member_id: str, reason: str, epoch: int | None = None
    ) -> Operation:
        """Removes the member, if it is still there (and, where epoch is given, still in that
        epoch).

        timer: the one that runs this. It is set again if the removal cannot be written: a dead
        member sends no heartbeat that would set one, and would keep its partitions or tasks."""
        retry_ms = RETRY_MS

        def expired(now_ms: int) -> Outcome:
            group = self._table.groups.get(group_id)
            if not isinstance(group, self._kind):
                return Outcome()
            member = group.members.get(member_id)
            if member is None or epoch not in (None, member.member_epoch):
                return Outcome()
            log.info("group %s: %s is removed: %s", group_id, member_id, reason)
            outcome = self._remove(group, member_id, now_ms)
            before = outcome.then

            def written(code: ErrorCode) -> None:
                nonlocal retry_ms
                if before is not None:
                    before(code)
                if code is not ErrorCode.NONE:
                    self._table.timers.schedule_if_absent(timer, retry_ms, group_id, expired)
                    retry_ms = min(2 * retry_ms, MAX_RETRY_MS)

            outcome.then = written
            return outcome

        return expired


def _session(group_id: str, member_id: str) -> str:
    return member_timer("session-timeout", group_id, member_id)


def _rebalance(group_id: str, member_id: str) -> str:
    return member_timer("rebalance-timeout", group_id, member_id)
