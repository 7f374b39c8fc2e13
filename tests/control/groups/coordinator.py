"""A group coordinator without a broker: a clock that tests move, timers, and a log in memory."""

from collections.abc import Callable, Iterable
from typing import Any

from kbroker.control.coordinator.append_error import coordinator_error
from kbroker.control.coordinator.machine import Deferred, Operation, Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.shard import GroupShard
from kbroker.control.groups.share_group.member import Shared
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_describe import DescribedGroup
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kbroker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kbroker.purgatory.timing_wheel import TimerEntry, TimingWheel
from tests.control.coordinator.log_in_memory import complete

START_MS = 1_700_000_000_000
PARTITION = 0


class Timer(TimerEntry):
    __slots__ = ("name", "operation")

    def __init__(self, expiry_ms: int, name: str, operation: Operation) -> None:
        super().__init__(expiry_ms)
        self.name = name
        self.operation = operation


class Topics:
    """Topics by name; ids are the name in 16 bytes."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.version = 0

    def put(self, name: str, partitions: int) -> None:
        self.counts[name] = partitions
        self.version += 1

    def remove(self, name: str) -> None:
        del self.counts[name]
        self.version += 1

    @staticmethod
    def make_id(name: str) -> bytes:
        return name.encode().ljust(16, b"\0")

    def id_of(self, name: str) -> bytes | None:
        return self.make_id(name) if name in self.counts else None

    def name_of(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode(errors="replace")
        return name if name in self.counts else None

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def names(self) -> Iterable[str]:
        return tuple(self.counts)


class Coordinator:
    """Drives a GroupShard as the runtime does: records are appended, replayed, then the rest is
    run."""

    def __init__(
        self, settings: GroupSettings | None = None, log: list[Record] | None = None, now_ms: int = START_MS
    ) -> None:
        self.now_ms = now_ms
        self.settings = settings or GroupSettings()
        self.wheel = TimingWheel(now_ms)
        self.timers: dict[str, Timer] = {}
        self.topics = Topics()
        self.shard = GroupShard(self.settings, self, self.topics)
        self.shard.table.initialize_states = self.initialize_states
        self.log: list[Record] = []
        self.append_error = ErrorCode.NONE
        self.fails_in_log = False
        """Whether a failed append is in the log nevertheless."""
        for record in log or ():
            self.log.append(record)
            self.shard.replay(PARTITION, record.key, record.value, now_ms)
        self.shard.loaded(PARTITION, now_ms)

    # --- Timers

    def schedule(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        self.cancel(name)
        timer = self.timers[name] = Timer(self.now_ms + delay_ms, name, operation)
        self.wheel.add(timer)

    def schedule_if_absent(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        if name not in self.timers:
            self.schedule(name, delay_ms, key, operation)

    def renew(self, name: str, delay_ms: int) -> bool:
        timer = self.timers.get(name)
        if timer is not None:
            self.schedule(name, delay_ms, "", timer.operation)
        return timer is not None

    def cancel(self, name: str) -> None:
        timer = self.timers.pop(name, None)
        if timer is not None:
            self.wheel.cancel(timer)

    # --- runtime

    def restarted(self, settings: GroupSettings | None = None) -> "Coordinator":
        """What a successor knows: the log, compacted."""
        compacted: dict[bytes, Record] = {}
        for record in self.log:
            compacted.pop(record.key, None)  # the last one of a key stays where it is
            compacted[record.key] = record
        again = Coordinator(settings or self.settings, list(compacted.values()), self.now_ms)
        again.topics.counts.update(self.topics.counts)
        return again

    def initialize_states(self, group_id: str, _: int, topics: Shared) -> None:
        """Write share states at once."""
        self.schedule(
            f"states-{group_id}", 0, group_id, lambda _: self.shard.states_initialized(group_id, topics)
        )

    def run(self, outcome: Outcome) -> Any:
        """Append, replay, complete; the response as far as it is there."""
        code = coordinator_error(self.append_error) if outcome.records else ErrorCode.NONE
        complete(outcome, code, self.log, self.shard, PARTITION, self.now_ms, self.fails_in_log)
        return outcome.response

    def advance(self, ms: int) -> None:
        """Let time pass; what comes due on the way runs at its time."""
        end_ms = self.now_ms + ms
        while (due := self.wheel.next_expiry_ms()) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            for entry in self.wheel.advance(self.now_ms):
                assert isinstance(entry, Timer)
                if self.timers.get(entry.name) is entry:
                    del self.timers[entry.name]
                    self.run(entry.operation(self.now_ms))
        self.now_ms = end_ms
        self.wheel.advance(end_ms)

    # --- requests

    def send_join(
        self,
        member_id: str = "",
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        client_id: str = "client",
    ) -> Deferred:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
        )
        caller = Caller(client_id, "/127.0.0.1", version)
        deferred = self.run(self.shard.join(caller, request, self.now_ms))
        assert isinstance(deferred, Deferred)
        return deferred

    def join(self, member_id: str = "", **fields: Any) -> JoinGroupResponse:
        """A JoinGroup that is answered at once."""
        response = answer(self.send_join(member_id, **fields))
        assert isinstance(response, JoinGroupResponse)
        return response

    def new_member_id(self, **fields: Any) -> str:
        """The first of the two JoinGroups of a dynamic member."""
        response = self.join(**fields)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def stable_group(
        self, size: int = 1, instances: tuple[str, ...] = (), **fields: Any
    ) -> tuple[list[str], int]:
        """A group of `size` dynamic members and the given static ones, synced. (member ids,
        generation)"""
        waiting = [self.send_join(self.new_member_id(**fields), **fields) for _ in range(size)]
        waiting += [self.send_join(instance=instance, **fields) for instance in instances]
        self.advance(self.settings.initial_rebalance_delay_ms * 2)
        responses = [answer(each) for each in waiting]
        generation = responses[0].generation_id
        members = [response.member_id for response in responses]
        holders = [None] * size + list(instances)
        assignment = {member_id: member_id.encode() for member_id in members}
        group = fields.get("group", "g")
        syncs = [
            self.send_sync(member_id, generation, assignment, instance=instance, group=group)
            for member_id, instance in zip(members, holders, strict=True)
        ]
        for member_id, sync in zip(members, syncs, strict=True):
            assert answer(sync).assignment == member_id.encode()
        return members, generation

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignment: dict[str, bytes] | None = None,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Deferred:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(*each) for each in (assignment or {}).items()],
        )
        deferred = self.run(self.shard.sync(request, self.now_ms))
        assert isinstance(deferred, Deferred)
        return deferred

    def sync(self, member_id: str, generation: int, **fields: Any) -> SyncGroupResponse:
        response = answer(self.send_sync(member_id, generation, **fields))
        assert isinstance(response, SyncGroupResponse)
        return response

    def heartbeat(
        self, member_id: str, generation: int, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(group, generation, member_id, instance)
        return ErrorCode(self.run(self.shard.heartbeat(request)).error_code)

    def leave(self, *members: MemberIdentity, group: str = "g") -> LeaveGroupResponse:
        response = self.run(self.shard.leave(LeaveGroupRequest(group, "", list(members)), self.now_ms))
        assert isinstance(response, LeaveGroupResponse)
        return response

    def commit(
        self,
        offset: int = 7,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        version: int = 9,
        instance: str | None = None,
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        """The partition's code, or the request's."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    topic,
                    topic_id,
                    [OffsetCommitRequestPartition(partition, offset, 3, metadata)],
                )
            ],
        )
        try:
            response = self.run(self.shard.commit_offsets(request, version, self.now_ms))
        except KafkaError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def committed(
        self,
        topic: str = "t",
        partition: int = 0,
        group: str = "g",
        stable: bool = False,
        topic_id: bytes = bytes(16),
    ) -> int:
        """Committed offset, -1 when there is none."""
        request = OffsetFetchRequestGroup(
            group, topics=[OffsetFetchRequestTopics(topic, topic_id, [partition])]
        )
        found = self.shard.fetch_offsets(request, stable).topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code))
        return found.committed_offset

    # --- consumer groups

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: dict[str, list[int]] | None = None,
        group: str = "g",
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = -1,
        version: int = 1,
        sees: Callable[[str], bool] = lambda _: True,
    ) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat; a first one (epoch 0) is complete."""
        first = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=30_000 if first and rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=[
                RequestTopicPartitions(self.topics.make_id(name), partitions)
                for name, partitions in (owned or {}).items()
            ]
            if first or owned is not None
            else None,
        )
        caller = Caller("client", "/127.0.0.1", version, sees)
        outcome = self.shard.consumer_heartbeat(caller, request, self.now_ms)
        response = self.run(outcome)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def parts(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """The assignment of an answer by topic name; None when it has none."""
        if response.assignment is None:
            return None
        return {
            topic.topic_id.rstrip(b"\0").decode(): list(topic.partitions)
            for topic in response.assignment.topic_partitions
        }

    def described(self, group: str = "g") -> DescribedGroup:
        return self.shard.describe_consumer_group(group)

    def state(self, group: str = "g") -> str:
        return self.shard.describe(group, 5).group_state

    def expire_offsets(self) -> None:
        for group_id in self.shard.group_ids():
            self.run(self.shard.expire_offsets(group_id, self.now_ms))


def answer(deferred: Deferred) -> Any:
    """What a deferred was completed with; it must have been."""
    assert deferred.done, "no answer yet"
    found: list[Any] = []
    deferred.on_complete(found.append)
    return found[0]
