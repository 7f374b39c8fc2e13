"""The rebalance of a classic group: join phase, sync phase, the timers that end them, and the
members' sessions.

Every step returns the Outcome of the operation that took it. Timer names are Kafka's.
"""

import logging

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.group_records import group_metadata
from kbroker.control.groups.member_answers import JoinAnswers, SyncAnswers
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.timer_names import member_timer
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

_EMPTY, _DEAD = ClassicState.EMPTY, ClassicState.DEAD
_PREPARING, _COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE
_STABLE = ClassicState.STABLE
NAMED = 5
"""Members that a log line names."""
MIN_ROUND_MS = 1000
"""Time between two rounds that wait for static members: none of them may have a rebalance timeout,
and the rounds continue until their sessions end."""


def join_timer(group_id: str) -> str:
    return f"join-{group_id}"


def sync_timer(group_id: str) -> str:
    return f"sync-{group_id}"


def heartbeat_timer(group_id: str, member_id: str) -> str:
    return member_timer("heartbeat", group_id, member_id)


class Rebalance:
    """Runs in: control. Owner: the GroupShard. It has no state: it moves groups of the
    table."""

    __slots__ = ("_table",)

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    # --- the join phase

    def prepare_or_complete(self, group: ClassicGroup, reason: str, now_ms: int) -> Outcome:
        """Start a rebalance if none runs, else end the join phase if all members have joined."""
        if group.can_rebalance:
            return self.prepare(group, reason, now_ms)
        return self.complete_if_all_joined(group, now_ms)

    def prepare(self, group: ClassicGroup, reason: str, now_ms: int) -> Outcome:
        """Start a rebalance: members learn of it by their heartbeats and join again."""
        if group.is_in(_COMPLETING):
            self.propagate_error(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        timers = self._table.timers
        timers.cancel(sync_timer(group.group_id))
        initial = group.is_empty
        group.transition(_PREPARING, now_ms)
        log.info("group %s: rebalance of generation %d (%s)", group.group_id, group.generation_id, reason)
        if initial:
            delay_ms = self._table.settings.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group.group_id, delay_ms, remaining_ms)
            return Outcome()
        if group.all_joined:
            return self.complete_join(group, now_ms)
        self._schedule_join(group)
        return Outcome()

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> Outcome:
        """End the join phase early, unless it is the first one, which always waits its delay."""
        if group.is_in(_PREPARING) and group.previous_state is not _EMPTY and group.all_joined:
            return self.complete_join(group, now_ms)
        return Outcome()

    def complete_join(self, group: ClassicGroup, now_ms: int) -> Outcome:
        """End the join phase with the joined members: remove the others, elect a leader, answer
        all."""
        timers = self._table.timers
        timers.cancel(join_timer(group.group_id))
        for member in paced(group.not_yet_rejoined()):
            if not member.is_static:
                log.info("group %s: %s did not rejoin", group.group_id, member.member_id)
                group.remove(member.member_id)
                timers.cancel(heartbeat_timer(group.group_id, member.member_id))
        if group.is_in(_DEAD):
            return Outcome()
        if not group.elect_joined_leader() and group.members:
            # Only static members are left, and none of them has joined again yet: begin another
            # round.
            self._schedule_join(group, MIN_ROUND_MS)
            return Outcome()
        group.next_generation(now_ms)
        if group.is_empty:
            log.info("group %s is empty at generation %d", group.group_id, group.generation_id)
            return Outcome([group_metadata(group, {})], then=lambda code: _warn(group.group_id, code))
        log.info(
            "group %s: generation %d with %d members",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        self._table.completed_rebalances += 1
        answers = JoinAnswers(group)
        for member in paced(list(group.members.values())):
            group.pending_sync.add(member.member_id)  # it may sync while others are answered
            answers.give(member)
            self.schedule_heartbeat(group, member)
            member.is_new = False
        self._schedule_sync(group)
        return Outcome()

    def _schedule_initial(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        self._table.timers.schedule(
            join_timer(group_id),
            delay_ms,
            group_id,
            lambda now_ms: self._initial_delay_over(group_id, delay_ms, remaining_ms, now_ms),
        )

    def _initial_delay_over(self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int) -> Outcome:
        """The first rebalance waits again while members keep coming, up to the rebalance
        timeout."""
        group = self._table.classic(group_id)
        if group is None:
            return Outcome()
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(self._table.settings.initial_rebalance_delay_ms, remaining_ms)
            self._schedule_initial(group_id, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return Outcome()
        return self.complete_join(group, now_ms)

    def _schedule_join(self, group: ClassicGroup, min_ms: int = 0) -> None:
        self._table.timers.schedule(
            join_timer(group.group_id),
            max(group.rebalance_timeout_ms, min_ms),
            group.group_id,
            lambda now_ms: self._join_timed_out(group.group_id, now_ms),
        )

    def _join_timed_out(self, group_id: str, now_ms: int) -> Outcome:
        group = self._table.classic(group_id)
        return Outcome() if group is None else self.complete_join(group, now_ms)

    # --- the sync phase

    def propagate_error(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Forget the assignment and answer every waiting SyncGroup with an error."""
        for member in group.members.values():
            member.assignment = b""
            if group.complete_sync(member, SyncGroupResponse(error_code=code)):
                self.schedule_heartbeat(group, member)

    def propagate_assignment(self, group: ClassicGroup, assignment: dict[str, bytes]) -> None:
        """Store the assignment and answer every waiting SyncGroup with its part."""
        answers = SyncAnswers(group)
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
            if answers.give(member):
                self.schedule_heartbeat(group, member)

    def _schedule_sync(self, group: ClassicGroup) -> None:
        group_id, generation_id = group.group_id, group.generation_id
        self._table.timers.schedule(
            sync_timer(group_id),
            group.rebalance_timeout_ms,
            group_id,
            lambda now_ms: self._sync_timed_out(group_id, generation_id, now_ms),
        )

    def _sync_timed_out(self, group_id: str, generation_id: int, now_ms: int) -> Outcome:
        """Drop the members that joined this generation and never sent their SyncGroup."""
        group = self._table.classic(group_id)
        if group is None or group.generation_id != generation_id or not group.pending_sync:
            return Outcome()
        if not group.is_in(_COMPLETING, _STABLE):
            return Outcome()
        silent = list(group.pending_sync)
        for member_id in paced(silent):
            group.remove(member_id)
            self._table.timers.cancel(heartbeat_timer(group_id, member_id))
        return self.prepare(group, f"no SyncGroup of {_some(silent)}", now_ms)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member's SyncGroup has come; the sync timer ends with the last one."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync or not group.is_in(_COMPLETING, _STABLE):
            self._table.timers.cancel(sync_timer(group.group_id))

    # --- heartbeats

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
        """Keep a member's session alive. The code to answer: NONE, or REBALANCE_IN_PROGRESS.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        ILLEGAL_GENERATION.
        """
        if group.is_in(_DEAD):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        self.schedule_heartbeat(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(_PREPARING) else ErrorCode.NONE

    def schedule_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """The member has sent a request: restart its session timer."""
        self.schedule_expiry(
            group.group_id,
            member.member_id,
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def schedule_expiry(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        name = heartbeat_timer(group_id, member_id)
        if self._table.timers.renew(name, timeout_ms):
            return
        self._table.timers.schedule(
            name,
            timeout_ms,
            group_id,
            lambda now_ms: self._session_expired(group_id, member_id, now_ms),
        )

    def forget_pending(self, group_id: str, member_id: str) -> None:
        """A pending member is forgotten, as if its session had expired."""
        group = self._table.classic(group_id)
        if group is None or member_id not in group.pending_join:
            return
        group.remove(member_id)
        if group.is_in(_PREPARING) and group.all_joined:  # the join phase has waited for it alone
            group.pending_join.add(member_id)
            self.schedule_expiry(group_id, member_id, 0)
        else:
            self._table.timers.cancel(heartbeat_timer(group_id, member_id))

    def _session_expired(self, group_id: str, member_id: str, now_ms: int) -> Outcome:
        group = self._table.classic(group_id)
        if group is None or group.is_in(_DEAD):
            return Outcome()
        if member_id in group.pending_join:
            log.info("group %s: pending member %s never joined", group_id, member_id)
            group.remove(member_id)
            if group.is_in(_PREPARING) and group.all_joined:
                return self.complete_join(group, now_ms)
            return Outcome()
        member = group.members.get(member_id)
        if member is None or member.heartbeat_satisfied:
            return Outcome()
        log.info("group %s: session of %s expired", group_id, member_id)
        return self.remove_member(group, member, f"session of {member_id} expired", now_ms)

    def remove_member(self, group: ClassicGroup, member: ClassicMember, reason: str, now_ms: int) -> Outcome:
        """Remove a member and rebalance the others."""
        group.complete_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.is_in(_STABLE, _COMPLETING):
            return self.prepare_or_complete(group, reason, now_ms)
        if group.is_in(_PREPARING) and group.all_joined:
            return self.complete_join(group, now_ms)
        return Outcome()


def _some(member_ids: list[str]) -> str:
    """Some of them, for a log line: there may be thousands, of 32 kB each."""
    more = len(member_ids) - NAMED
    return ", ".join(member_ids[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _warn(group_id: str, code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        log.warning("group %s: its metadata could not be written: %s", group_id, code.name)
