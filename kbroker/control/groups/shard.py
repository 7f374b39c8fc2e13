"""The group coordinator as one machine over `__consumer_offsets`, and the entry to this package.

Each operation decides for one group (its key in the runtime) and returns an Outcome; KafkaError
refuses the whole request. Reads return their answer at once. Kafka's GroupCoordinatorShard.
"""

from collections.abc import Mapping, Set

from kbroker.control.coordinator.machine import Deferred, Outcome, Timers
from kbroker.control.groups import describe, offset_expiration
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.commit_cache.cached_decisions import Renewal
from kbroker.control.groups.consumer_group.describe import describe_consumer_group
from kbroker.control.groups.consumer_group.groups import ConsumerGroups
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.join import ClassicJoin, refused
from kbroker.control.groups.leave import ClassicLeave
from kbroker.control.groups.member_answers import FramedAnswer
from kbroker.control.groups.offset_commit import OffsetCommits
from kbroker.control.groups.offset_fetch import fetch_offsets
from kbroker.control.groups.rebalance import Rebalance, heartbeat_timer
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.share_group.describe import describe_share_group
from kbroker.control.groups.share_group.heartbeat import ShareHeartbeat
from kbroker.control.groups.share_group.member import Shared
from kbroker.control.groups.share_group.replay import ShareReplay
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.streams_group.describe import describe_streams_group
from kbroker.control.groups.streams_group.heartbeat import StreamsHeartbeat
from kbroker.control.groups.streams_group.replay import StreamsReplay
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.sync import ClassicSync, answered
from kbroker.control.groups.sync import refused as sync_refused
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.topic_view import TopicView
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.protocol.messages.describe_groups import DescribedGroup
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kbroker.protocol.messages.list_groups import ListedGroup
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kbroker.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from kbroker.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupShard:
    """Runs in: control. Owner: its Runtime. Not thread-safe.

    Everything takes the group id as the runtime's key: operations of one group run one after the
    other.
    """

    topic = CONSUMER_OFFSETS
    last_value_types = frozenset((1, 2))
    """Committed offsets, and the metadata of classic groups."""
    replays_timed_out = True

    def __init__(self, settings: GroupSettings, timers: Timers, topics: TopicView) -> None:
        self.table = GroupTable(settings, timers, topics)
        self._rebalance = Rebalance(self.table)
        self._join = ClassicJoin(self.table, self._rebalance)
        self._sync = ClassicSync(self._rebalance)
        self._leave = ClassicLeave(self.table, self._rebalance)
        self._commits = OffsetCommits(self.table, self._rebalance)
        self._replay = GroupReplay(self.table, self._rebalance)
        self._consumer = ConsumerGroups(self.table, self._rebalance, self._replay)
        self._replay.when_loaded(ConsumerGroup.TYPE, self._consumer.loaded)
        self._share = ShareHeartbeat(self.table)
        ShareReplay(self.table, self._replay)
        self._replay.when_loaded(ShareGroup.TYPE, self._share.loaded)
        self._streams = StreamsHeartbeat(self.table)
        StreamsReplay(self.table, self._replay)
        self._replay.when_loaded(StreamsGroup.TYPE, self._streams.loaded)

    # --- classic groups

    def join(self, caller: Caller, request: JoinGroupRequest, now_ms: int) -> Outcome:
        """Response: Deferred of a JoinGroupResponse. Raises KafkaError for a group of another
        type."""
        if not request.group_id:
            return Outcome(response=refused(request, ErrorCode.INVALID_GROUP_ID))
        shortest, longest = self.table.settings.session_timeout_bounds_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return Outcome(response=refused(request, ErrorCode.INVALID_SESSION_TIMEOUT))
        group = self.table.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._join_consumer_group(group, caller, request, now_ms)
        replaceable = isinstance(group, StreamsGroup) and group.is_empty
        if group is None or isinstance(group, ClassicGroup | ConsumerGroup) or replaceable:
            return self._join.join(caller, request, now_ms)
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _join_consumer_group(
        self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest, now_ms: int
    ) -> Outcome:
        try:
            return self._consumer.classic.join(group, caller, request, now_ms)
        except KafkaError as error:
            deferred = Deferred()
            deferred.complete(JoinGroupResponse(error_code=error.code))
            return Outcome(response=deferred)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> Outcome:
        """Response: Deferred of a SyncGroupResponse."""
        if not request.group_id:
            return sync_refused(ErrorCode.INVALID_GROUP_ID)
        group = self.table.groups.get(request.group_id)
        if group is None or group.is_empty:
            return sync_refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(group, ClassicGroup):
            return self._sync.sync(group, request, now_ms)
        if isinstance(group, ConsumerGroup):
            try:
                return answered(self._consumer.classic.sync(group, request))
            except KafkaError as error:
                return sync_refused(error.code)
        return sync_refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def is_completing(self, group_id: str) -> bool:
        """Whether the members of a group wait for its leader's assignment. A SyncGroup may join
        them while that is written."""
        group = self.table.classic(group_id)
        return group is not None and group.is_in(ClassicState.COMPLETING_REBALANCE)

    def take_part(self, request: JoinGroupRequest | SyncGroupRequest, answer: FramedAnswer) -> bool:
        """Decide the request of a member in a running rebalance if it only waits for others, or
        gets its part of a stored assignment; False, and nothing has happened, for any other."""
        group = self.table.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return False
        if isinstance(request, JoinGroupRequest):
            return self._join.take_part(group, request, answer)
        return self._sync.take_part(group, request, answer)

    def heartbeat(self, request: HeartbeatRequest) -> Outcome:
        """Response: HeartbeatResponse."""
        if not request.group_id:
            return Outcome(response=HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.table.groups.get(request.group_id)
        try:
            if isinstance(group, ClassicGroup):
                code = self._rebalance.heartbeat(group, request)
            elif isinstance(group, ConsumerGroup):
                code = self._consumer.classic.heartbeat(group, request)
            else:
                code = ErrorCode.UNKNOWN_MEMBER_ID
        except KafkaError as error:
            code = error.code
        return Outcome(response=HeartbeatResponse(error_code=code))

    def repeatable_heartbeats(self, request: HeartbeatRequest, answer: HeartbeatResponse) -> Renewal | None:
        """The permission to repeat this answer to this heartbeat until another operation of its
        group; None without it."""
        group = self.table.groups.get(request.group_id)
        member = group.members.get(request.member_id) if isinstance(group, ClassicGroup) else None
        if member is None or answer.error_code != ErrorCode.NONE:
            return None
        return Renewal(heartbeat_timer(request.group_id, member.member_id), member.session_timeout_ms)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Outcome:
        """Response: LeaveGroupResponse in its batched form (v3 and later)."""
        if not request.group_id:
            return Outcome(response=LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.table.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._leave.leave(group, request, now_ms)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic.leave(group, request, now_ms)
        unknown = [
            MemberResponse(each.member_id, each.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
            for each in request.members
        ]
        return Outcome(response=LeaveGroupResponse(members=unknown))

    # --- consumer groups

    def consumer_heartbeat(
        self, caller: Caller, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Outcome:
        """Response: ConsumerGroupHeartbeatResponse."""
        return self._consumer.heartbeat(caller, request, now_ms)

    def consumer_repeatable_heartbeats(
        self, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse
    ) -> Renewal | None:
        """The permission to repeat this answer to this heartbeat until another operation of its
        group; None without it."""
        return self._consumer.repeatable_heartbeats(request, answer)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        return describe_consumer_group(self.table, group_id)

    # --- share groups

    def share_heartbeat(self, caller: Caller, request: ShareGroupHeartbeatRequest, now_ms: int) -> Outcome:
        """Response: ShareGroupHeartbeatResponse."""
        return self._share.heartbeat(caller, request, now_ms)

    def share_partitions(self, group_id: str, partitions: Mapping[str, Set[int]]) -> Outcome:
        """Make these partitions shared by a share group, with or without a subscription."""
        return self._share.share_partitions(group_id, partitions)

    def states_initialized(self, group_id: str, topics: Shared) -> Outcome:
        """The share states of these partitions are written."""
        return self._share.states_initialized(group_id, topics)

    def states_not_initialized(self, group_id: str, topics: Shared) -> Outcome:
        """The share states of these partitions could not be written."""
        return self._share.states_not_initialized(group_id, topics)

    def unshare_topics(self, group_id: str, topic_ids: Set[bytes]) -> Outcome:
        """A share group forgets topics."""
        return self._share.unshare_topics(group_id, topic_ids)

    def shares_topic(self, group_id: str, topic_id: bytes) -> bool:
        """Whether the group is a share group that has, or is about to have, states of the topic."""
        return self._share.has_topic(group_id, topic_id)

    def shared_topic_deleted(self, group_id: str, topic_id: bytes) -> Outcome:
        """A topic has been deleted. Called for each group that `shares_topic`."""
        return self._share.topic_deleted(group_id, topic_id)

    def describe_share_group(self, group_id: str) -> DescribedShareGroup:
        return describe_share_group(self.table, group_id)

    # --- streams groups

    def streams_heartbeat(
        self, caller: Caller, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> Outcome:
        """Response: a HeartbeatResult of `streams_group.heartbeat`."""
        return self._streams.heartbeat(caller, request, now_ms)

    def describe_streams_group(self, group_id: str) -> DescribedStreamsGroup:
        return describe_streams_group(self.table, group_id)

    # --- offsets

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> Outcome:
        """Response: OffsetCommitResponse.

        Topics of the request have names; their ids are stored with them.
        """
        return self._commits.commit(request, api_version, now_ms)

    def repeatable_commits(self, request: OffsetCommitRequest) -> Renewal | None:
        """The permission for further commits of this sender until another operation of its group;
        None without it."""
        return self._commits.renewal(request)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int, now_ms: int
    ) -> Outcome:
        """Response: TxnOffsetCommitResponse. The records belong in a batch of the request's
        producer."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._commits.commit_in_transaction(request, api_version, now_ms)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """One group's offsets; see `offset_fetch`."""
        return fetch_offsets(self.table, request, require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Outcome:
        """Response: OffsetDeleteResponse."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._commits.delete(request)

    def expire_offsets(self, group_id: str, now_ms: int) -> Outcome:
        """Called for each of `group_ids` every offsets.retention.check.interval.ms."""
        return offset_expiration.expire_offsets(self.table, group_id, now_ms)

    def partitions_deleted(
        self, group_id: str, partitions: list[tuple[str, int]], topic_id: bytes
    ) -> Outcome:
        """(topic, partition) pairs of a topic have been deleted. Called for each group that
        `has_offsets_of` it."""
        return offset_expiration.delete_offsets_of_partitions(self.table, group_id, partitions, topic_id)

    # --- groups of any type

    def group_ids(self) -> list[str]:
        return list(self.table.groups)

    def has_offsets_of(self, group_id: str, topic: str) -> bool:
        """Whether the group has an offset of the topic, committed or pending."""
        return self.table.offsets.has_topic(group_id, topic)

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        return describe.describe_group(self.table, group_id, api_version)

    def list(self, partitions: int, states: list[str], types: list[str]) -> list[ListedGroup]:
        """partitions: number of them in the groups' topic."""
        return describe.list_groups(self.table, partitions, states, types)

    def delete(self, group_id: str) -> Outcome:
        """Response: DeletableGroupResult."""
        return describe.delete_group(self.table, group_id)

    # --- the log

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:  # noqa: ARG002
        """Apply one record.

        Raises ProtocolError for one of a type or version that Kafka 4.3 does not have.
        """
        self._replay.replay(partition, key, value)

    def replay_in_transaction(
        self, partition: int, producer_id: int, key: bytes, value: bytes | None
    ) -> None:
        """Apply one record of a transactional batch: an offset that waits for its transaction's
        end."""
        self._replay.replay(partition, key, value, producer_id)

    def replay_end_of_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Apply a control record of one partition: the transaction's offsets of groups elsewhere
        wait for theirs."""
        self.table.offsets.end_transaction(producer_id, commit, self._replay.groups_of(partition))

    def loaded(self, partition: int, now_ms: int) -> None:
        """Start the sessions of every member that was found, and drop groups above
        group.max.size."""
        self._replay.loaded(partition, now_ms)

    def unloaded(self, partition: int) -> None:
        """Answer waiting requests with NOT_COORDINATOR and drop the groups of the partition."""
        self._replay.unloaded(partition)
