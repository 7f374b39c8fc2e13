"""ShareGroupHeartbeat: join, continue, leave. Nothing is revoked: partitions are shared."""

from collections.abc import Mapping, Set

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.timers import MemberTimers
from kbroker.control.groups.share_group import records
from kbroker.control.groups.share_group.member import Shared, SharedTopic, ShareMember
from kbroker.control.groups.share_group.simple_assignor import assign_shared
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.topic_view import topic_ids
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kbroker.protocol.slices import in_order, paced


class ShareHeartbeat:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = MemberTimers(table, ShareGroup, table.settings.share_session_timeout_ms, self._fence)

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
            else group.subscriptions.shared(frozenset(request.subscribed_topic_names)),
            client_id=caller.client_id,
            client_host=caller.client_host,
        )
        pending = group.assignment_epoch >= group.group_epoch and group.lacks_shared(self._table.topics)
        same = (
            new.subscribed_topics is old.subscribed_topics or new.subscribed_topics == old.subscribed_topics
        )
        bump = pending or not same
        if not new.same_metadata(old) or new.member_id not in group.members:
            out.append(records.member_metadata(group.group_id, new))
        epoch = self._epoch(group, new, bump, out)
        target_epoch, target = self._target(group, new, epoch, now_ms, out)
        member = self._reconciled(group, new, target_epoch, target, out)
        if not same or group.states_seen != self._table.topics.version:
            self._initialize(group, new, out)
        self._timers.session(group.group_id, member.member_id)
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
        return self._table.of_type(group_id, ShareGroup)

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        group.check_room(request.member_id, self._table.settings.share_max_size)
        member = group.members.get(request.member_id)
        if member is None:
            if request.member_epoch == 0:
                self._table.check_open(group.group_id)
                return ShareMember(request.member_id)
            return group.member(request.member_id)
        epoch = request.member_epoch
        if epoch in (0, member.member_epoch, member.previous_member_epoch):
            return member
        known, previous = member.member_epoch, member.previous_member_epoch
        more = f", and it does not match the previous member epoch ({previous})" if epoch < known else ""
        raise group.fenced(epoch, known, more)

    def _initialize(self, group: ShareGroup, member: ShareMember, out: list[Record]) -> None:
        """Subscribed partitions without a share state get one; they are assigned from the next
        heartbeat on."""
        new = {}
        version = self._table.topics.version
        for name in paced(in_order(group.existing_topics(self._table.topics, member))):
            topic_id, count = self._table.topics.id_of(name), self._table.topics.partition_count(name)
            if topic_id is None or count is None:
                continue
            known = group.initializing.get(topic_id) or group.shared.get(topic_id)
            if known is None or len(known.partitions) < count:
                new[topic_id] = SharedTopic(name, frozenset(range(count)))
        if not new:
            group.states_seen = version
        else:
            initializing = {**group.initializing, **new}
            out.append(records.shared_partitions(group.group_id, initializing, group.shared, group.deleting))
            self._schedule_initialize(group.group_id)

    def _schedule_initialize(self, group_id: str) -> None:
        """Have the states written, as soon as the record that names them is."""

        def initialize(_: int) -> Outcome:
            group = self._table.groups.get(group_id)
            if isinstance(group, ShareGroup) and group.initializing:
                self._table.initialize_states(group_id, group.group_epoch, group.initializing)
            return Outcome()

        self._table.timers.schedule(f"share-initialize-{group_id}", 0, group_id, initialize)

    def states_initialized(self, group_id: str, topics: Shared) -> Outcome:
        """The states of these partitions are written: they are shared from now on."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Outcome()
        new = {topic_id: topic for topic_id, topic in topics.items() if topic_id in group.initializing}
        if not new:
            return Outcome()
        left = {
            topic_id: topic for topic_id, topic in group.initializing.items() if topic != new.get(topic_id)
        }
        return Outcome([records.shared_partitions(group_id, left, {**group.shared, **new}, group.deleting)])

    def states_not_initialized(self, group_id: str, topics: Shared) -> Outcome:
        """The states of these partitions could not be written: the next heartbeat begins again."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not topics.keys() & group.initializing.keys():
            return Outcome()
        left = {topic_id: topic for topic_id, topic in group.initializing.items() if topic_id not in topics}
        return Outcome([records.shared_partitions(group_id, left, group.shared, group.deleting)])

    def _epoch(self, group: ShareGroup, member: ShareMember, bump: bool, out: list[Record]) -> int:
        version = self._table.topics.version
        if not bump and group.topics_seen == version:
            return group.group_epoch
        hashed = group.hash_with(self._table.topics, member)
        if hashed == group.metadata_hash:  # else compared again: the new one may not be written
            group.topics_seen = version
        if not bump and hashed == group.metadata_hash:
            return group.group_epoch
        epoch = next_epoch(group.group_epoch)
        out.append(records.group_epoch(group.group_id, epoch, hashed))
        return epoch

    def _target(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        now_ms: int,
        out: list[Record],
    ) -> tuple[int, Partitions]:
        interval_ms = self._table.overrides.number(
            group.group_id, "share.assignment.interval.ms", self._table.settings.share_assignment_interval_ms
        )
        if group.assignment_epoch >= epoch or not group.assignment_is_due(interval_ms, now_ms):
            return group.assignment_epoch, group.target.get(member.member_id, {})
        members = {**group.members, member.member_id: member}
        different: dict[frozenset[str], Set[bytes]] = {}
        topics: dict[str, Set[bytes]] = {}
        for each in paced(members.values()):
            found = different.get(each.subscribed_topics)
            if found is None:
                found = topic_ids(each.subscribed_topics, self._table.topics).keys()
                different[each.subscribed_topics] = found
            topics[each.member_id] = found
        available = {topic_id: topic.partitions for topic_id, topic in group.shared.items()}
        assignment = assign_shared(topics, available, group.target)
        for member_id in paced(members):
            if group.target.get(member_id) != assignment[member_id]:
                out.append(records.target_assignment(group.group_id, member_id, assignment[member_id]))
        out.append(records.target_epoch(group.group_id, epoch, now_ms))
        return epoch, assignment[member.member_id]

    def _reconciled(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        target: Partitions,
        out: list[Record],
    ) -> ShareMember:
        """The member takes over its target at once, except for topics it no longer subscribes
        to."""
        name_of, names = self._table.topics.name_of, member.subscribed_topics
        assigned = {topic_id: each for topic_id, each in paced(target.items()) if name_of(topic_id) in names}
        if member.member_epoch == epoch and member.assigned == assigned:
            return member
        moved = replace(
            member, member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=assigned
        )
        out.append(records.current_assignment(group.group_id, moved))
        return moved

    def share_partitions(self, group_id: str, partitions: Mapping[str, Set[int]]) -> Outcome:
        """Begin to share partitions that an administrator has set offsets of (topic ->
        partitions).

        Replay makes a group that is new. The other partitions follow when a member subscribes to
        the topic.
        """
        group = self._table.groups.get(group_id) or ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            return Outcome()
        shared = dict(group.shared)
        for name in sorted(partitions):
            topic_id, count = self._table.topics.id_of(name), self._table.topics.partition_count(name)
            if topic_id is not None and count is not None:
                known = shared.get(topic_id, SharedTopic(name, frozenset()))
                shared[topic_id] = SharedTopic(
                    name, known.partitions | (partitions[name] & frozenset(range(count)))
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

    def has_topic(self, group_id: str, topic_id: bytes) -> bool:
        """Whether a share group has share states of a topic, or states of it are being written or
        deleted."""
        group = self._table.groups.get(group_id)
        return isinstance(group, ShareGroup) and (
            topic_id in group.shared or topic_id in group.initializing or topic_id in group.deleting
        )

    def topic_deleted(self, group_id: str, topic_id: bytes) -> Outcome:
        """Forget a deleted topic: one record lists all topics of the group, which may subscribe to
        new ones without end."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not self.has_topic(group_id, topic_id):
            return Outcome()
        initializing, shared, deleting = dict(group.initializing), dict(group.shared), dict(group.deleting)
        initializing.pop(topic_id, None)
        shared.pop(topic_id, None)
        deleting.pop(topic_id, None)
        return Outcome([records.shared_partitions(group_id, initializing, shared, deleting)])

    # --- leaving

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Outcome:
        group = self._table.of_type(request.group_id, ShareGroup)
        outcome = self._remove(group, group.member(request.member_id).member_id)
        self._timers.left(group.group_id, request.member_id)
        outcome.response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return outcome

    def _fence(self, group: ShareGroup, member_id: str, _: int) -> Outcome:
        return self._remove(group, member_id)

    def _remove(self, group: ShareGroup, member_id: str) -> Outcome:
        out = records.member_tombstones(group.group_id, member_id)
        hashed = group.hash_with(self._table.topics, gone=member_id)
        out.append(records.group_epoch(group.group_id, next_epoch(group.group_epoch), hashed))
        self._timers.end_all(group.group_id, member_id)
        return Outcome(out)

    def loaded(self, group: ShareGroup) -> None:
        """The group was loaded after a restart: start its members' session timers."""
        for member_id in group.members:
            self._timers.session(group.group_id, member_id)
        if group.initializing:
            self._schedule_initialize(group.group_id)


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
