"""JoinGroup for classic groups: new and returning members, static and dynamic."""

import uuid

from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember, Protocols
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.group_records import empty_group_metadata, group_metadata
from kbroker.control.groups.member_answers import FramedAnswer
from kbroker.control.groups.rebalance import Rebalance, heartbeat_timer
from kbroker.control.groups.table import LARGE_BYTES, GroupTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

UNKNOWN_MEMBER = ""
KNOWN_MEMBER_ID_FROM = 4
"""JoinGroup version from which a dynamic member must join with the id it was given (KIP-394)."""
MAX_PROTOCOLS = 10_000
"""Maximum of one member. A group reads all of them at each rebalance, without a pause; Kafka has no
bound, and clients send a handful."""
SKIP_ASSIGNMENT_FROM = 9
"""First JoinGroup version with SkipAssignment, for a static leader that returns (KIP-814)."""

_EMPTY, _DEAD = ClassicState.EMPTY, ClassicState.DEAD
_PREPARING, _COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE
_STABLE = ClassicState.STABLE


def refused(request: JoinGroupRequest, code: ErrorCode) -> Deferred:
    """An error answer, with the member id of the request."""
    deferred = Deferred()
    deferred.complete(JoinGroupResponse(error_code=code, member_id=request.member_id))
    return deferred


class ClassicJoin:
    """Runs in: control. Owner: the GroupShard."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def join(self, caller: Caller, request: JoinGroupRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the Deferred JoinGroupResponse."""
        if len(request.protocols) > MAX_PROTOCOLS:
            return Outcome(response=refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not self._table.large.have_room(request.group_id, request.member_id, _size(request), now_ms):
            return Outcome(response=refused(request, ErrorCode.GROUP_MAX_SIZE_REACHED))
        group = self._table.classic(request.group_id)
        created = group is None
        tombstones: list[Record] = []
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                return Outcome(response=refused(request, ErrorCode.UNKNOWN_MEMBER_ID))
            empty = self._table.groups.get(request.group_id)
            tombstones = [] if empty is None else empty.tombstones()
            group = self._table.create_classic(request.group_id, now_ms)
        deferred = Deferred()
        if not self._accepts(group, request.member_id):
            group.remove(request.member_id)
            deferred.complete(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
            outcome = Outcome()
        elif request.member_id == UNKNOWN_MEMBER:
            outcome = self._join_new(caller, request, group, deferred, now_ms)
        else:
            outcome = self._join_known(caller, request, group, deferred, now_ms)
        if created and not outcome.records:
            outcome.records = [*tombstones, empty_group_metadata(group)]
            outcome.then = lambda code: _answer_append_error(deferred, code)
        outcome.response = deferred
        return outcome

    def take_part(self, group: ClassicGroup, request: JoinGroupRequest, answer: FramedAnswer) -> bool:
        """As `join`, of a known member that waits for others in a running join phase. False, and
        nothing has happened, for any other."""
        member = group.members.get(request.member_id)
        if (
            member is None
            or not group.is_in(_PREPARING)
            or request.group_instance_id is not None
            or member.awaiting_join is not None
            or len(request.protocols) > MAX_PROTOCOLS
            or _size(request) > LARGE_BYTES
            or request.session_timeout_ms != member.session_timeout_ms  # whose bounds were checked
            or group.awaiting_join >= self._table.settings.max_size
            or not group.supports(request.protocol_type, _names(request))
            or group.awaiting_join + 1 >= len(group.members)  # the last one ends the phase
        ):
            return False
        timeout_ms = request.rebalance_timeout_ms
        group.update(member, _protocols(request), timeout_ms, request.session_timeout_ms, answer)
        return True

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """group.max.size: members that are in may rejoin; a running join phase counts who has
        joined."""
        if group.is_in(_EMPTY, _DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(_PREPARING):
            rejoined = member is not None and member.awaiting_join is not None
            return rejoined or group.awaiting_join < self._table.settings.max_size
        return member is not None or len(group.members) < self._table.settings.max_size

    def _join_new(
        self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, deferred: Deferred, now_ms: int
    ) -> Outcome:
        if group.is_in(_DEAD):
            return _refuse(deferred, UNKNOWN_MEMBER, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(request.protocol_type, _names(request)):
            return _refuse(deferred, UNKNOWN_MEMBER, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = request.group_instance_id
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{uuid.uuid4()}"
        if instance_id is not None:
            old_member_id = group.static_members.get(instance_id)
            if old_member_id is not None:
                return self._replace_static(
                    caller, request, group, old_member_id, member_id, deferred, now_ms
                )
        elif caller.api_version >= KNOWN_MEMBER_ID_FROM:
            group.pending_join.add(member_id)
            self._rebalance.schedule_expiry(group.group_id, member_id, request.session_timeout_ms)
            for oldest in self._table.pending.add(group.group_id, member_id):
                self._rebalance.forget_pending(*oldest)
            return _refuse(deferred, member_id, ErrorCode.MEMBER_ID_REQUIRED)
        return self._add(caller, request, group, member_id, deferred, now_ms)

    def _join_known(
        self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, deferred: Deferred, now_ms: int
    ) -> Outcome:
        member_id = request.member_id
        if group.is_in(_DEAD):
            return _refuse(deferred, member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(request.protocol_type, _names(request)):
            return _refuse(deferred, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if member_id in group.pending_join:
            if request.group_instance_id is not None:
                # Kafka fails on an internal check here, which the client sees as this code.
                return _refuse(deferred, UNKNOWN_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._add(caller, request, group, member_id, deferred, now_ms)
        try:
            group.validate_member(member_id, request.group_instance_id)
        except KafkaError as error:
            deferred.complete(
                JoinGroupResponse(error_code=error.code, member_id=member_id, protocol_name=None)
            )
            return Outcome()
        return self._rejoin(request, group, group.members[member_id], deferred, now_ms)

    def _rejoin(
        self,
        request: JoinGroupRequest,
        group: ClassicGroup,
        member: ClassicMember,
        deferred: Deferred,
        now_ms: int,
    ) -> Outcome:
        """A member of the group joins again. A join that changes nothing is answered with the
        current generation."""
        protocols = _protocols(request)
        unchanged = member.matches(protocols)
        if group.is_in(_EMPTY):
            return _refuse(deferred, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.is_in(_COMPLETING) and unchanged:
            deferred.complete(group.join_response(member.member_id))
            return Outcome()
        if group.is_in(_STABLE) and unchanged and not group.is_leader(member.member_id):
            deferred.complete(group.join_response(member.member_id))
            return Outcome()
        self._table.large.note(group.group_id, member.member_id, _size(request))
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms, deferred)
        if not group.can_rebalance:
            return self._rebalance.complete_if_all_joined(group, now_ms)
        reason = f"{member.member_id} joins again; client reason: {request.reason or 'not provided'}"
        return self._rebalance.prepare(group, reason, now_ms)

    def _add(
        self,
        caller: Caller,
        request: JoinGroupRequest,
        group: ClassicGroup,
        member_id: str,
        deferred: Deferred,
        now_ms: int,
    ) -> Outcome:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            _protocols(request),
        )
        member.is_new = True
        if group.is_in(_PREPARING) and group.previous_state is _EMPTY:
            group.new_member_added = True
        self._table.large.note(group.group_id, member_id, _size(request))
        group.add(member, deferred)
        self._rebalance.schedule_heartbeat(group, member, self._table.settings.new_member_join_timeout_ms)
        reason = f"{member_id} joins; client reason: {request.reason or 'not provided'}"
        return self._rebalance.prepare_or_complete(group, reason, now_ms)

    def _replace_static(
        self,
        caller: Caller,
        request: JoinGroupRequest,
        group: ClassicGroup,
        old_member_id: str,
        member_id: str,
        deferred: Deferred,
        now_ms: int,
    ) -> Outcome:
        """A static member is back without its member id: it takes its old place under a new one."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        leader = group.leader_id
        member = group.replace_static(instance_id, old_member_id, member_id)
        self._table.large.note(group.group_id, member_id, _size(request))
        before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._table.timers.cancel(heartbeat_timer(group.group_id, old_member_id))
        self._rebalance.schedule_heartbeat(group, member)
        group.update(
            member, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms, deferred
        )
        if group.is_in(_COMPLETING):
            return self._rebalance.prepare(group, f"static member {instance_id} is back", now_ms)
        if not group.is_in(_STABLE):
            return self._rebalance.complete_if_all_joined(group, now_ms)
        if group.select_protocol() != group.protocol_name:
            reason = f"static member {instance_id} changes the group's protocol"
            return self._rebalance.prepare_or_complete(group, reason, now_ms)
        assignment = {each.member_id: each.assignment for each in group.members.values()}

        def written(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                group.complete_join(member, _static_answer(caller, group, member_id, leader))
                return
            group.update(member, *before, None)
            old = group.replace_static(instance_id, member_id, old_member_id)
            self._table.timers.cancel(heartbeat_timer(group.group_id, member_id))
            self._rebalance.schedule_heartbeat(group, old)
            answer = group.join_response(old_member_id)
            answer.member_id, answer.members, answer.leader = UNKNOWN_MEMBER, [], leader or ""
            answer.error_code = code
            deferred.complete(answer)

        return Outcome([group_metadata(group, assignment)], then=written)


def _static_answer(
    caller: Caller, group: ClassicGroup, member_id: str, leader: str | None
) -> JoinGroupResponse:
    """Answer to a static member that takes its place in a stable group.

    Before v9 the old leader's id is given, so that the member does not think it must assign.
    """
    if caller.api_version >= SKIP_ASSIGNMENT_FROM:
        return group.join_response(member_id, skip_assignment=group.is_leader(member_id))
    answer = group.join_response(member_id)
    answer.members, answer.leader = [], leader or ""
    return answer


def _names(request: JoinGroupRequest) -> set[str]:
    return {protocol.name for protocol in request.protocols}


def _size(request: JoinGroupRequest) -> int:
    """Bytes of the metadata."""
    return sum(len(protocol.metadata) for protocol in request.protocols)


def _protocols(request: JoinGroupRequest) -> Protocols:
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def _refuse(deferred: Deferred, member_id: str, code: ErrorCode) -> Outcome:
    deferred.complete(JoinGroupResponse(error_code=code, member_id=member_id))
    return Outcome()


def _answer_append_error(deferred: Deferred, code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        deferred.complete(JoinGroupResponse(error_code=code))
