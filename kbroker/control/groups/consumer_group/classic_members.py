"""Members of a consumer group that still speak the classic protocol: JoinGroup, SyncGroup,
Heartbeat, LeaveGroup.

The broker assigns for them too; the heartbeat answer reports a rebalance when the member has a step
to take.
"""

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.classic_group import CONSUMER
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.fencing import Fencing
from kbroker.control.groups.consumer_group.heartbeat import static_member
from kbroker.control.groups.consumer_group.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from kbroker.control.groups.consumer_group.migration import Migration
from kbroker.control.groups.consumer_group.progress import Progress
from kbroker.control.groups.consumer_group.regex import RegexChange, update_regex
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.target import update_target
from kbroker.control.groups.join import KNOWN_MEMBER_ID_FROM, UNKNOWN_MEMBER
from kbroker.control.groups.modern_group.partitions import named_partitions, plain
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.consumer_protocol import parse_subscription
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.kafka_uuid import random_uuid
from kbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.schema import ProtocolError


class ClassicMembers:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, progress: Progress, fencing: Fencing, migration: Migration) -> None:
        self._table = table
        self._progress = progress
        self._fencing = fencing
        self._migration = migration

    # --- JoinGroup

    def join(self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the Deferred JoinGroupResponse. Raises KafkaError."""
        unknown = request.member_id == UNKNOWN_MEMBER
        member_id = random_uuid() if unknown else request.member_id
        self._check_join(group, member_id, request)
        deferred = Deferred()
        if unknown and request.group_instance_id is None and caller.api_version >= KNOWN_MEMBER_ID_FROM:
            deferred.complete(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
            return Outcome(response=deferred)
        out: list[Record] = []
        replaced = group.static_member(request.group_instance_id)
        old = self._joining_member(group, member_id, request.group_instance_id, unknown, out)
        downgrade = replaced is not None and self._migration.may_downgrade_with(group, replaced)
        subscription = _subscription(request)
        new = _updated(old, caller, request, subscription)
        changed = new.subscribed_topics != old.subscribed_topics
        if not new.same_metadata(old) or member_id not in group.members:
            out.append(records.member_metadata(group.group_id, new))
        changed |= update_regex(self._table, group, old, new, now_ms, out) is not RegexChange.NONE
        epoch = self._progress.group_epoch(group, changed, new, out)
        owned = self._owned(subscription)
        if downgrade:
            assert replaced is not None
            outcome = self._migration.downgrade_with(group, replaced.member_id, new, changed, now_ms)
            return self._answer_after(outcome, deferred, group, new, request, downgrade=True)
        target = update_target(self._table, group, epoch, new, now_ms, out)
        member = self._progress.reconcile(group, new, target, changed, owned, out)
        return self._answer_after(Outcome(out), deferred, group, member, request, downgrade=False)

    def _check_join(self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
        settings = self._table.settings
        if not settings.consumer_upgrade and not settings.consumer_downgrade:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the "
                "group migration is disabled.",
            )
        group.check_room(member_id, settings.consumer_max_size)
        if request.protocol_type != CONSUMER or not any(
            group.supports(protocol.name) for protocol in request.protocols
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )

    def _joining_member(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        unknown: bool,
        out: list[Record],
    ) -> ConsumerMember:
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not unknown:
            return static_member(group, instance_id, member_id)
        known = group.static_member(instance_id)
        if known is None:
            return ConsumerMember(member_id)
        return self._progress.replace_member(group, known, member_id, out)

    def _owned(self, subscription: ConsumerProtocolSubscription) -> dict[bytes, frozenset[int]]:
        return named_partitions(subscription.owned_partitions, self._table.topics)

    def _answer_after(
        self,
        outcome: Outcome,
        deferred: Deferred,
        group: ConsumerGroup,
        member: ConsumerMember,
        request: JoinGroupRequest,
        downgrade: bool,
    ) -> Outcome:
        """The member is answered once the records are there, and is then expected to sync."""
        before = outcome.then
        timers = self._progress.timers
        response = JoinGroupResponse(
            generation_id=group.group_epoch if downgrade else member.member_epoch,
            protocol_type=CONSUMER,
            protocol_name=_protocols(member)[0][0],
            member_id=member.member_id,
        )

        def written(code: ErrorCode) -> None:
            if before is not None:
                before(code)
            if not downgrade:  # the member is also there if a failed append is in the log
                timers.session(group.group_id, member.member_id, request.session_timeout_ms)
            if code is not ErrorCode.NONE:
                deferred.complete(JoinGroupResponse(error_code=code))
                return
            timers.end_join(group.group_id, member.member_id)
            if not downgrade:
                timers.sync(group.group_id, member.member_id, request.rebalance_timeout_ms)
            deferred.complete(response)

        return Outcome(outcome.records, deferred, written)

    # --- SyncGroup and Heartbeat

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """The member's current assignment. Raises KafkaError."""
        member = self._known(group, request.member_id, request.group_instance_id, request.generation_id)
        name = _protocols(member)[0][0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        timers = self._progress.timers
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            timers.join_if_absent(group.group_id, member.member_id, member.rebalance_timeout_ms)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        assert member.classic is not None
        timers.end_sync(group.group_id, member.member_id)
        timers.session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        metadata = _protocols(member)[0][1]
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=self._migration.encode_partitions(plain(member.assigned), metadata),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """NONE, or REBALANCE_IN_PROGRESS when the member has a step to take. Raises KafkaError.

        Members of the new protocol compute a new assignment by their heartbeats. Without any, one
        of the classic members must join again for it."""
        member = self._known(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        timers = self._progress.timers
        timers.session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        unreleased = member.state is MemberState.UNRELEASED_PARTITIONS
        if (
            member.member_epoch < group.assignment_epoch
            or (member.member_epoch < group.group_epoch and not group.has_modern_members)
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (unreleased and not group.waits_for_unreleased(member))
        ):
            timers.join_if_absent(group.group_id, member.member_id, member.rebalance_timeout_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _known(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ConsumerMember:
        """A classic member in its current generation. Raises KafkaError."""
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = static_member(group, instance_id, member_id)
        _check_classic(member)
        if member.member_epoch != generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    # --- LeaveGroup

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the LeaveGroupResponse, with a code per member.

        Members of the new protocol may be removed this way too: administrators do.
        """
        answers: list[MemberResponse] = []
        gone: dict[str, ConsumerMember] = {}
        for identity in request.members:
            code = ErrorCode.NONE
            try:
                member = _leaving(group, identity)
                gone[member.member_id] = member
            except KafkaError as error:
                code = error.code
            answers.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
        outcome = self._fencing.leave(group, list(gone.values()), now_ms)
        outcome.response = LeaveGroupResponse(members=answers)
        return outcome


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        member = group.member(identity.member_id)
    else:
        holder = group.static_member(identity.group_instance_id)
        known = holder.member_id if holder is not None else ""
        member = static_member(group, identity.group_instance_id, identity.member_id or known)
    return member


def _check_classic(member: ConsumerMember) -> None:
    if not member.uses_classic:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol."
        )


def _protocols(member: ConsumerMember) -> tuple[tuple[str, bytes], ...]:
    assert member.classic is not None
    return tuple(member.classic.protocols)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The subscription of the first protocol. Malformed metadata fails as in Kafka."""
    try:
        return parse_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The embedded consumer protocol is malformed."
        ) from error


def _updated(
    member: ConsumerMember,
    caller: Caller,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, protocols),
    )
