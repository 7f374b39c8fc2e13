"""SyncGroup on classic groups: the leader sends the assignment, each member gets its part."""

import logging

from kbroker.control.coordinator.machine import Deferred, Outcome
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.group_records import group_metadata
from kbroker.control.groups.member_answers import FramedAnswer, SyncAnswers, sync_response
from kbroker.control.groups.rebalance import Rebalance
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger(__name__)

_COMPLETING, _STABLE = ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE


def answered(response: SyncGroupResponse) -> Outcome:
    """An outcome that is a SyncGroup answer already."""
    deferred = Deferred()
    deferred.complete(response)
    return Outcome(response=deferred)


def refused(code: ErrorCode) -> Outcome:
    return answered(SyncGroupResponse(error_code=code))


class ClassicSync:
    """Runs in: control. Owner: the GroupShard."""

    __slots__ = ("_rebalance",)

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the Deferred SyncGroupResponse."""
        error = _error_of(group, request)
        if error is not None:
            return refused(error)
        if group.is_in(ClassicState.PREPARING_REBALANCE):
            return refused(ErrorCode.REBALANCE_IN_PROGRESS)
        member = group.members[request.member_id]
        if group.is_in(_STABLE):
            self._rebalance.synced(group, request.member_id)
            return answered(sync_response(group, member.assignment))
        deferred = member.awaiting_sync = Deferred()
        self._rebalance.synced(group, request.member_id)
        if not group.is_leader(request.member_id):
            return Outcome(response=deferred)
        outcome = self._store(group, request, now_ms)
        outcome.response = deferred
        return outcome

    def take_part(self, group: ClassicGroup, request: SyncGroupRequest, answer: FramedAnswer) -> bool:
        """As `sync`, of a request that neither writes nor fails: of a follower. False, and nothing
        has happened, for any other."""
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.assignments
            or request.group_instance_id is not None
            or group.is_leader(request.member_id)
            or member.awaiting_sync is not None
            or not group.is_in(_COMPLETING, _STABLE)
            or _error_of(group, request) is not None
        ):
            return False
        self._rebalance.synced(group, request.member_id)
        member.awaiting_sync = answer
        if group.is_in(_STABLE):
            SyncAnswers(group).give(member)
        return True

    def _store(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> Outcome:
        """Write the leader's assignment; once it is durable the generation is stable."""
        assignment = dict.fromkeys(group.members, b"")
        given = {
            each.member_id: each.assignment for each in request.assignments if each.member_id in group.members
        }
        assignment.update(given)
        if missing := group.members.keys() - given.keys():
            log.warning("group %s: the leader assigned nothing to %s", group.group_id, ", ".join(missing))

        def written(code: ErrorCode) -> None:
            if not group.is_in(_COMPLETING) or request.generation_id != group.generation_id:
                return
            if code is ErrorCode.NONE:
                self._rebalance.propagate_assignment(group, assignment)
                group.transition(ClassicState.STABLE, now_ms)
            else:
                self._rebalance.propagate_error(group, code)
                self._rebalance.prepare_or_complete(group, f"assignment not stored: {code.name}", now_ms)

        return Outcome([group_metadata(group, assignment)], then=written)


def _error_of(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    if group.is_in(ClassicState.DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    try:
        group.validate_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _contradicts(request.protocol_type, group.protocol_type) or _contradicts(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _contradicts(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual
