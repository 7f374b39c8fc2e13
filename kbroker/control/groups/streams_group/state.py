"""State of a streams group: members, target assignment, topology, and holders of tasks."""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import ClassVar

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.state import ModernGroup, stale
from kbroker.control.groups.streams_group.configured_topology import ConfiguredTopology
from kbroker.control.groups.streams_group.member import StreamsMember
from kbroker.control.groups.streams_group.records import group_tombstones
from kbroker.control.groups.streams_group.tasks import TaskId, TaskSet
from kbroker.control.groups.streams_group.topology import Topology
from kbroker.protocol.slices import paced


class StreamsState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(ModernGroup[StreamsMember, TaskSet]):
    """Runs in: control. Owner: the GroupTable. Changed only by replay (Kafka's StreamsGroup).

    Not in the log, as in Kafka: configured and topics_seen (rebuilt from topology and topics), the
    member that requested a shutdown, and the endpoint epoch.
    """

    TYPE: ClassVar[str] = "streams"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = -1
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        self._active_holder: dict[TaskId, str] = {}
        self._held: Counter[tuple[str, TaskId]] = Counter()

    # --- what follows from the members

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state

    def active_holder(self, subtopology: str, partition: int) -> str | None:
        """The process that works on a task or has yet to give it up."""
        return self._active_holder.get(TaskId(subtopology, partition))

    def is_held_by(self, process_id: str, subtopology: str, partition: int) -> bool:
        """Whether a process has a task, in any role, or has yet to give it up."""
        return self._held[process_id, TaskId(subtopology, partition)] > 0

    # --- changes (replay)

    def put_member(self, member: StreamsMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        self._claim(member)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
        if not self.members:
            self.shutdown_requested_by = None

    def _claim(self, member: StreamsMember) -> None:
        for task, active in paced(_tasks(member)):
            self._held[member.process_id, task] += 1
            if active:
                self._active_holder[task] = member.process_id

    def _release(self, member: StreamsMember) -> None:
        for task, active in paced(_tasks(member)):
            self._held[member.process_id, task] -= 1
            if self._held[member.process_id, task] <= 0:
                del self._held[member.process_id, task]
            if active and self._active_holder.get(task) == member.process_id:
                del self._active_holder[task]

    # --- offsets and deletion

    def topics_read(self) -> Collection[str]:
        return () if self.is_empty or self.topology is None else self.topology.inputs()

    def is_subscribed_to(self, topic: str) -> bool:
        if self.is_empty or self.topology is None:
            return False
        return self.topology.subtopology_reading(topic) is not None

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic: str, partition: int
    ) -> None:
        """Check that the member had the topic's task in the epoch of its commit (KIP-1251). Raises
        KafkaError."""
        member = self.members.get(member_id)
        if member is None or generation_or_epoch == member.member_epoch:
            return
        part = None if self.topology is None else self.topology.subtopology_reading(topic)
        epoch = None
        if part is not None:
            key = part.subtopology_id
            epoch = member.tasks.active.get(key, {}).get(partition)
            if epoch is None:
                epoch = member.pending_revocation.active.get(key, {}).get(partition)
        if epoch is None or generation_or_epoch < epoch:
            raise stale(member)

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members)


def _tasks(member: StreamsMember) -> list[tuple[TaskId, bool]]:
    """Every task that a member has or has yet to give up, and whether it is an active one."""
    found = []
    for owned in (member.tasks, member.pending_revocation):
        found += [(TaskId(key, each), True) for key, epochs in paced(owned.active.items()) for each in epochs]
        for plain in (owned.standby, owned.warmup):
            found += [
                (TaskId(key, each), False) for key, partitions in paced(plain.items()) for each in partitions
            ]
    return found
