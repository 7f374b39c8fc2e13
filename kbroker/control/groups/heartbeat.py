"""Heartbeat on classic groups: keeps a member's session alive and reports a rebalance."""

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.rebalance import Rebalance
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.heartbeat import HeartbeatRequest


def classic_heartbeat(rebalance: Rebalance, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """The code to answer: NONE, or REBALANCE_IN_PROGRESS.

    Raises KafkaError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION.
    """
    if group.is_in(ClassicState.DEAD):
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    rebalance.schedule_heartbeat(group, group.members[request.member_id])
    if group.is_in(ClassicState.PREPARING_REBALANCE):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
