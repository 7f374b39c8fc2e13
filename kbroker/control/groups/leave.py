"""LeaveGroup on classic groups: members leave by id, or are removed by their instance id
(KIP-345)."""

import logging

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.join import UNKNOWN_MEMBER
from kbroker.control.groups.rebalance import Rebalance, heartbeat_timer
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

log = logging.getLogger(__name__)


class ClassicLeave:
    """Runs in: control. Owner: the GroupShard."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the LeaveGroupResponse, with a code per member."""
        if group.is_in(ClassicState.DEAD):
            return Outcome(response=LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        members = [
            MemberResponse(each.member_id, each.group_instance_id, self._leave(group, each))
            for each in request.members
        ]
        gone = [member.member_id for member in members if member.error_code == ErrorCode.NONE]
        outcome = Outcome()
        if gone:
            if group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                reason = f"{', '.join(gone)} left"
                outcome = self._rebalance.prepare_or_complete(group, reason, now_ms)
            else:
                outcome = self._rebalance.complete_if_all_joined(group, now_ms)
        outcome.response = LeaveGroupResponse(members=members)
        return outcome

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if member_id == UNKNOWN_MEMBER:
            held = group.static_members.get(identity.group_instance_id or "")
            if identity.group_instance_id is None or held is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = held
        elif member_id not in group.pending_join:
            try:
                group.validate_member(member_id, identity.group_instance_id)
            except KafkaError as error:
                return error.code
        log.info(
            "group %s: %s left; client reason: %s",
            group.group_id,
            member_id,
            identity.reason or "not provided",
        )
        self._table.timers.cancel(heartbeat_timer(group.group_id, member_id))
        member = group.members.get(member_id)
        if member is not None:
            group.complete_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        return ErrorCode.NONE
