"""ShareGroupHeartbeat: join, go on, leave. There is nothing to revoke: partitions are shared."""

import logging
from collections.abc import Mapping, Set
from dataclasses import replace

from kbroker.control.groups.caller import Caller
from kbroker.control.groups.consumer_group.member import LEAVE_EPOCH, Partitions
from kbroker.control.groups.consumer_group.state import metadata_hash, topic_ids
from kbroker.control.groups.share_group import records
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.simple_assignor import assign_shared
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.table import GroupTable
from kbroker.control.machine import Outcome, Record
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)


class ShareHeartbeat:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def heartbeat(self, caller: Caller, request: ShareGroupHeartbeatRequest, now_ms: int) -> Outcome:
        """Outcome whose response is the ShareGroupHeartbeatResponse. Raises KafkaError."""
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        out: list[Record] = []
        group = self._group(request.group_id, request.member_epoch == 0)
        old = self._member(group, request)
        new = replace(
            old,
            rack_id=old.rack_id if request.rack_id is None else request.rack_id,
            subscribed_topics=old.subscribed_topics
            if request.subscribed_topic_names is None
            else frozenset(request.subscribed_topic_names),
            client_id=caller.client_id,
            client_host=caller.client_host,
        )
        pending = group.assignment_epoch >= group.group_epoch and _lacks_shared(group)
        bump = pending or new.subscribed_topics != old.subscribed_topics
        if not new.same_subscription(old) or new.member_id not in group.members:
            out.append(records.member_metadata(group.group_id, new))
        members = {**group.members, new.member_id: new}
        epoch = self._epoch(group, members, bump, out)
        target_epoch, target = self._target(group, members, epoch, new.member_id, now_ms, out)
        member = self._reconciled(group, new, target_epoch, target, out)
        self._initialize(group, members, out)
        self.schedule_session(group.group_id, member.member_id)
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._table.overrides.number(
                group.group_id,
                "share.heartbeat.interval.ms",
                self._table.settings.share_heartbeat_interval_ms,
            ),
        )
        full = request.member_epoch == 0 or request.subscribed_topic_names is not None
        if full or member.assigned != old.assigned:
            response.assignment = Assignment(
                [TopicPartitions(topic_id, sorted(each)) for topic_id, each in member.assigned.items()]
            )
        return Outcome(out, response)

    def _group(self, group_id: str, create: bool) -> ShareGroup:
        group = self._table.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is None and create:
            return ShareGroup(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        raise not_a_share_group(group_id, True)

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        limit = self._table.settings.share_max_size
        member = group.members.get(request.member_id)
        if member is None and len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {limit} members.",
            )
        if member is None:
            if request.member_epoch == 0:
                return ShareMember(request.member_id)
            return group.member(request.member_id)
        epoch = request.member_epoch
        if epoch in (0, member.member_epoch, member.previous_member_epoch):
            return member
        known, previous = member.member_epoch, member.previous_member_epoch
        size, more = "greater", ""
        if epoch < known:
            size, more = "smaller", f", and it does not match the previous member epoch ({previous})"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {size} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}){more}. The member must abandon all its partitions and rejoin.",
        )

    def _initialize(self, group: ShareGroup, members: dict[str, ShareMember], out: list[Record]) -> None:
        """Subscribed partitions without a share state get one; they are assigned from the next heartbeat on."""
        new = {}
        for name in sorted({topic for member in members.values() for topic in member.subscribed_topics}):
            topic_id, count = self._table.topics.id_of(name), self._table.topics.partition_count(name)
            if topic_id is None or count is None:
                continue
            known = group.initializing.get(topic_id) or group.shared.get(topic_id)
            if known is None or len(known.partitions) < count:
                new[topic_id] = SharedTopic(name, frozenset(range(count)))
        if new:
            initializing = {**group.initializing, **new}
            out.append(records.shared_partitions(group.group_id, initializing, group.shared, group.deleting))
            self._schedule_initialized(group.group_id)

    def _schedule_initialized(self, group_id: str) -> None:
        def initialized(_: int) -> Outcome:
            group = self._table.groups.get(group_id)
            if not isinstance(group, ShareGroup) or not group.initializing:
                return Outcome()
            shared = {**group.shared, **group.initializing}
            return Outcome([records.shared_partitions(group_id, {}, shared, group.deleting)])

        self._table.timers.schedule(f"share-initialize-{group_id}", 0, group_id, initialized)

    def _epoch(
        self, group: ShareGroup, members: dict[str, ShareMember], bump: bool, out: list[Record]
    ) -> int:
        version = self._table.topics.version
        if not bump and group.topics_seen == version:
            return group.group_epoch
        topics = {topic for member in members.values() for topic in member.subscribed_topics}
        hashed = metadata_hash(topics, self._table.topics)
        group.topics_seen = version
        if not bump and hashed == group.metadata_hash:
            return group.group_epoch
        out.append(records.group_epoch(group.group_id, group.group_epoch + 1, hashed))
        return group.group_epoch + 1

    def _target(
        self,
        group: ShareGroup,
        members: dict[str, ShareMember],
        epoch: int,
        member_id: str,
        now_ms: int,
        out: list[Record],
    ) -> tuple[int, Partitions]:
        interval_ms = self._table.overrides.number(
            group.group_id, "share.assignment.interval.ms", self._table.settings.share_assignment_interval_ms
        )
        due = not group.assignment_timestamp_ms or now_ms >= group.assignment_timestamp_ms + interval_ms
        if group.assignment_epoch >= epoch or not due:
            return group.assignment_epoch, group.target.get(member_id, {})
        topics = {
            each.member_id: topic_ids(each.subscribed_topics, self._table.topics).keys()
            for each in members.values()
        }
        available = {topic_id: topic.partitions for topic_id, topic in group.shared.items()}
        assignment = assign_shared(topics, available, group.target)
        for each in members:
            if group.target.get(each) != assignment[each]:
                out.append(records.target_assignment(group.group_id, each, assignment[each]))
        out.append(records.target_epoch(group.group_id, epoch, now_ms))
        return epoch, assignment[member_id]

    def _reconciled(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        target: Partitions,
        out: list[Record],
    ) -> ShareMember:
        """The member takes over its target at once, except for topics it no longer subscribes to."""
        wanted = topic_ids(member.subscribed_topics, self._table.topics)
        assigned = {topic_id: each for topic_id, each in target.items() if topic_id in wanted}
        if member.member_epoch == epoch and member.assigned == assigned:
            return member
        moved = replace(
            member, member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=assigned
        )
        out.append(records.current_assignment(group.group_id, moved))
        return moved

    def share_partitions(self, group_id: str, wanted: Mapping[str, Set[int]]) -> Outcome:
        """Begin to share partitions that an administrator has set offsets of (wanted: topic -> partitions).

        Replay makes a group that is new. The other partitions follow when somebody subscribes to the topic.
        """
        group = self._table.groups.get(group_id) or ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            return Outcome()
        shared = dict(group.shared)
        for name in sorted(wanted):
            topic_id, count = self._table.topics.id_of(name), self._table.topics.partition_count(name)
            if topic_id is not None and count is not None:
                known = shared.get(topic_id, SharedTopic(name, frozenset()))
                shared[topic_id] = SharedTopic(
                    name, known.partitions | (wanted[name] & frozenset(range(count)))
                )
        if shared == group.shared:
            return Outcome()
        return Outcome([records.shared_partitions(group_id, group.initializing, shared, group.deleting)])

    def unshare_topics(self, group_id: str, topic_ids: Set[bytes]) -> Outcome:
        """Forget topics, whose states have been deleted."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not topic_ids & group.shared.keys():
            return Outcome()
        shared = {topic_id: topic for topic_id, topic in group.shared.items() if topic_id not in topic_ids}
        return Outcome([records.shared_partitions(group_id, group.initializing, shared, group.deleting)])

    # --- leaving

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Outcome:
        group = self._table.groups.get(request.group_id)
        if not isinstance(group, ShareGroup):
            raise not_a_share_group(request.group_id, group is not None)
        outcome = self._remove(group, group.member(request.member_id))
        outcome.response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return outcome

    def _remove(self, group: ShareGroup, member: ShareMember) -> Outcome:
        rest = {
            topic for each in group.members.values() if each is not member for topic in each.subscribed_topics
        }
        out = records.member_tombstones(group.group_id, member.member_id)
        hashed = metadata_hash(rest, self._table.topics)
        out.append(records.group_epoch(group.group_id, group.group_epoch + 1, hashed))
        self._table.timers.cancel(_session_timer(group.group_id, member.member_id))
        return Outcome(out)

    def schedule_session(self, group_id: str, member_id: str) -> None:
        """The member has been heard of."""
        timeout_ms = self._table.overrides.number(
            group_id, "share.session.timeout.ms", self._table.settings.share_session_timeout_ms
        )

        def expired(_: int) -> Outcome:
            group = self._table.groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
            if member is None:
                return Outcome()
            assert isinstance(group, ShareGroup)
            log.info("group %s: session of %s expired", group_id, member_id)
            return self._remove(group, member)

        self._table.timers.schedule(_session_timer(group_id, member_id), timeout_ms, group_id, expired)

    def loaded(self, group: ShareGroup) -> None:
        """After a restart sessions start anew."""
        for member_id in group.members:
            self.schedule_session(group.group_id, member_id)
        if group.initializing:
            self._schedule_initialized(group.group_id)


def _lacks_shared(group: ShareGroup) -> bool:
    """Whether partitions have become shared that nobody has been given yet."""
    topics = {topic for member in group.members.values() for topic in member.subscribed_topics}
    assigned = group.assigned()
    return any(
        topic.name in topics and topic.partitions != assigned.get(topic_id, set())
        for topic_id, topic in group.shared.items()
    )


def not_a_share_group(group_id: str, exists: bool) -> KafkaError:
    text = f"Group {group_id} is not a share group." if exists else f"Group {group_id} not found."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _session_timer(group_id: str, member_id: str) -> str:
    return f"session-timeout-{group_id}-{member_id}"


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST, in Kafka's words."""
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == 0:
        if not request.subscribed_topic_names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
