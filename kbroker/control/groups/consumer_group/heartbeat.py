"""ConsumerGroupHeartbeat: join, continue, leave. Each answer moves the group and the member one
step on."""

import logging
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.fencing import Fencing
from kbroker.control.groups.consumer_group.member import (
    ConsumerMember,
)
from kbroker.control.groups.consumer_group.migration import Migration
from kbroker.control.groups.consumer_group.progress import Progress
from kbroker.control.groups.consumer_group.regex import RegexChange, update_regex
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.target import known_assignors, update_target
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kbroker.control.groups.modern_group.partitions import NO_PARTITIONS, EpochPartitions, plain
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.kafka_uuid import random_uuid
from kbroker.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)
MEMBER_ID_GIVEN_FROM = 1
"""ConsumerGroupHeartbeat version from which clients make their own member ids (KIP-1082)."""


class ConsumerHeartbeat:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, progress: Progress, fencing: Fencing, migration: Migration) -> None:
        self._table = table
        self._progress = progress
        self._fencing = fencing
        self._migration = migration

    def heartbeat(self, caller: Caller, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the ConsumerGroupHeartbeatResponse. Raises KafkaError."""
        check_heartbeat(request, caller.api_version, known_assignors(self._table))
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now_ms)
        out: list[Record] = []
        group = self._migration.group_for(request.group_id, request.member_epoch == 0, out)
        group.check_room(request.member_id, self._table.settings.consumer_max_size)
        member_id = request.member_id or random_uuid()
        old = self._member(group, member_id, request, out)
        new = _updated(group, old, caller, request)
        names_changed = (
            new.subscribed_topics is not old.subscribed_topics
            and new.subscribed_topics != old.subscribed_topics
        )
        if not new.same_metadata(old) or member_id not in group.members:
            out.append(records.member_metadata(group.group_id, new))
        regex = update_regex(self._table, group, old, new, now_ms, out, caller.sees)
        bump = names_changed or regex is RegexChange.RESOLVED
        epoch = self._progress.group_epoch(group, bump, new, out)
        target = update_target(self._table, group, epoch, new, now_ms, out)
        changed = names_changed or regex is not RegexChange.NONE
        member = self._progress.reconcile(group, new, target, changed, _owned(request), out)
        self._progress.timers.session(group.group_id, member_id)
        full = (
            request.rebalance_timeout_ms != -1
            and not (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
            and request.topic_partitions is not None
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._table.overrides.number(
                group.group_id,
                "consumer.heartbeat.interval.ms",
                self._table.settings.consumer_heartbeat_interval_ms,
            ),
        )
        moved = member.assigned is not old.assigned and plain(member.assigned) != plain(old.assigned)
        if request.member_epoch == 0 or full or moved:
            response.assignment = Assignment(
                [
                    ResponseTopicPartitions(topic, sorted(each))
                    for topic, each in paced(member.assigned.items())
                ]
            )
        return Outcome(out, response)

    def _member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        out: list[Record],
    ) -> ConsumerMember:
        """The member as it was, or a new one; a returning static member under its new id, or under
        the same one.

        Raises UNRELEASED_INSTANCE_ID.
        """
        joins = request.member_epoch == 0
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                return ConsumerMember(member_id) if joins else group.member(member_id)
            check_epoch(group, member, request.member_epoch, request.topic_partitions)
            return member
        known = group.static_member(request.instance_id)
        if not joins:
            member = static_member(group, request.instance_id, member_id)
            check_epoch(group, member, request.member_epoch, request.topic_partitions)
            return member
        if known is None:
            return ConsumerMember(member_id)
        if not known.uses_classic and known.member_epoch != STATIC_LEAVE_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by {known.member_id} member.",
            )
        return self._progress.replace_member(group, known, member_id, out)

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Outcome:
        """A member leaves the group, or a static member leaves temporarily."""
        group = self._table.of_type(request.group_id, ConsumerGroup)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_member(group, request.instance_id, request.member_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                away = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=NO_PARTITIONS)
                return Outcome([records.current_assignment(group.group_id, away)], response)
        log.info("group %s: %s left", group.group_id, member.member_id)
        outcome = self._fencing.leave(group, [member], now_ms)
        outcome.response = response
        return outcome


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The holder of an instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if that is
    another."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_epoch(
    group: ConsumerGroup, member: ConsumerMember, epoch: int, owned: Iterable[RequestTopicPartitions] | None
) -> None:
    """The member's own epoch, 0 to join again, or the previous epoch if the answer with the new one
    may be lost.

    Raises FENCED_MEMBER_EPOCH.
    """
    if epoch in (0, member.member_epoch):
        return
    if (
        epoch > member.member_epoch
        or epoch != member.previous_member_epoch
        or not _is_part(owned, member.assigned)
    ):
        raise group.fenced(epoch, member.member_epoch)


def _is_part(owned: Iterable[RequestTopicPartitions] | None, assigned: EpochPartitions) -> bool:
    return owned is not None and all(
        partition in assigned.get(topic.topic_id, {})
        for topic in owned
        for partition in paced(topic.partitions)
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, frozenset[int]] | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions}


def _updated(
    group: ConsumerGroup, member: ConsumerMember, caller: Caller, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with the request's fields; null leaves a field unchanged."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topics=member.subscribed_topics
        if names is None
        else group.subscriptions.shared(frozenset(names)),
        regex=member.regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]
) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, in Kafka's words."""
    epoch = request.member_epoch
    if api_version >= MEMBER_ID_GIVEN_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.instance_id, "InstanceId")
    _not_empty(request.rack_id, "RackId")
    if epoch == 0:
        _check_first(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    """A member that (re-)joins must send all of its fields."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
