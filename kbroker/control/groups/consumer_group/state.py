"""State of a consumer group: members, target assignment, owners of partitions, resolved
expressions."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.consumer_group.records import group_tombstones
from kbroker.control.groups.modern_group.partitions import EpochPartitions, Partitions
from kbroker.control.groups.modern_group.state import ModernGroup, stale
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES, Subscriptions
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.slices import paced

MANY_NAMES: Final = 10_000
"""Topics in the subscriptions of all members, of which an assignment takes long."""


class ConsumerState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics a regular expression matched, at a version of the topics and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """Runs in: control. Owner: the GroupTable. Changed by replay alone (Kafka's ConsumerGroup)."""

    TYPE: ClassVar[str] = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        self._owner_epochs: dict[bytes, dict[int, int]] = {}

    # --- what follows from the members

    @property
    def is_long(self) -> bool:
        return super().is_long or self.subscriptions.total > MANY_NAMES

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def subscribers_of(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Topics a member subscribes to, by name or expression. One not resolved yet matches
        nothing."""
        resolved = self.regexes.get(member.regex)
        return member.subscribed_topics if resolved is None else member.subscribed_topics | resolved.topics

    def topics_with(self, members: Iterable[ConsumerMember]) -> set[str]:
        topics: set[str] = set()
        for member in members:
            topics |= self.topics_of(member)
        return topics

    def existing_topics(
        self, view: TopicView, gone: Collection[str] = (), new: ConsumerMember | None = None
    ) -> set[str]:
        """The existing topics of all members' subscriptions, once the members of some ids are gone
        and a new or changed one is there."""
        changed = gone if new is None else {*gone, new.member_id}
        old = [member.subscribed_topics for each in changed if (member := self.members.get(each)) is not None]
        names = NO_NAMES if new is None else new.subscribed_topics
        if len(old) == 1 and old[0] is names:
            old, names = [], NO_NAMES
        topics = self.subscriptions.existing(view, old, names)
        regexes = {member.regex for each, member in self.members.items() if each not in changed}
        for regex in paced(regexes if new is None else {*regexes, new.regex}):
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return topics

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Epoch of the member that owns the partition, -1 when it has no owner."""
        return self._owner_epochs.get(topic_id, {}).get(partition, -1)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """The target assignment of the member, or of the static member that it replaces."""
        found = self.target.get(member.member_id)
        if found is None and member.instance_id is not None:
            found = self.target.get(self.static_members.get(member.instance_id, ""))
        return found if found is not None else {}

    def waits_for_unreleased(self, member: ConsumerMember) -> bool:
        """Whether other members still own partitions of the member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.owner_epoch(topic_id, partition) != -1
            for topic_id, partitions in self.target_of(member).items()
            for partition in partitions
        )

    # --- changes (replay)

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
            if old.instance_id is not None and old.instance_id != member.instance_id:
                self._forget_instance(old)
        self.members[member.member_id] = member
        self.subscriptions.change(
            NO_NAMES if old is None else old.subscribed_topics, member.subscribed_topics
        )
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._claim(member)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_instance(member)
            self.subscriptions.change(member.subscribed_topics, NO_NAMES)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _claim(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in partitions.items():
                self._owner_epochs.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member.member_epoch))

    def _release(self, member: ConsumerMember) -> None:
        """Give up the member's partitions, unless another has claimed them since."""
        for partitions in (member.assigned, member.pending_revocation):
            self._release_each(partitions, member.member_epoch)

    def _release_each(self, partitions: EpochPartitions, epoch: int) -> None:
        for topic_id, epochs in partitions.items():
            owners = self._owner_epochs.get(topic_id, {})
            for partition in epochs:
                if owners.get(partition) == epoch:
                    del owners[partition]
            if not owners:
                self._owner_epochs.pop(topic_id, None)

    # --- offsets and deletion

    def topics_of_members(self) -> Collection[str]:
        return self.topics_with(paced(self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic_id: bytes | None, partition: int
    ) -> None:
        """Whether the partition was the member's in the epoch it commits with (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or generation_or_epoch == member.member_epoch:
            return
        epoch = None
        if topic_id is not None:
            epoch = member.assigned.get(topic_id, {}).get(partition)
            if epoch is None:
                epoch = member.pending_revocation.get(topic_id, {}).get(partition)
        if epoch is None or generation_or_epoch < epoch:
            raise stale(member)

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members, self.regexes)
