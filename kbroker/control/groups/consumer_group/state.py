"""State of a consumer group: members, target assignment, owners of partitions, resolved
expressions."""

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.consumer_group.records import group_tombstones
from kbroker.control.groups.modern_group.partitions import EpochPartitions, Partitions
from kbroker.control.groups.modern_group.state import ModernGroup, stale
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES, Subscriptions
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.slices import paced


class ConsumerState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(Struct, frozen=True):
    """The topics a regular expression matched, at a version of the topics and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """Runs in: control. Owner: the GroupTable. Changed only by replay (Kafka's ConsumerGroup).

    subscriptions: of members by name, and the topics of their resolved expressions. unresolved:
    expressions of members that are not resolved yet. resolved_ms, resolved_version: time and
    version of the topics of the last resolution.
    """

    TYPE: ClassVar[str] = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.regexes: dict[str, ResolvedRegex] = {}
        self.unresolved: set[str] = set()
        self.resolved_ms = 0
        self.resolved_version = -1
        self.has_partition_metadata = False
        self._owner_epochs: dict[bytes, dict[int, int]] = {}
        self._subscribers: dict[str, int] = {}  # members by expression
        self._protocols: dict[str, int] = {}  # classic members by supported protocol
        self._classic = 0  # classic members

    # --- what follows from the members

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
        return self._subscribers.get(regex, 0)

    def subscribed_regexes(self) -> Collection[str]:
        """The expressions that members subscribe by."""
        return self._subscribers.keys()

    @property
    def classic_members(self) -> int:
        """Number of members that use the classic protocol."""
        return self._classic

    @property
    def has_modern_members(self) -> bool:
        """Whether a member uses the new protocol."""
        return self._classic < len(self.members)

    def supports(self, protocol: str) -> bool:
        """Whether all classic members support a protocol."""
        return self._protocols.get(protocol, 0) == self._classic

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Topics a member subscribes to, by name or expression. One not resolved yet matches
        nothing."""
        resolved = self.regexes.get(member.regex)
        if resolved is None:
            return member.subscribed_topics
        return member.subscribed_topics | resolved.topics if member.subscribed_topics else resolved.topics

    def hash_with(
        self, view: TopicView, gone: Collection[str] = (), new: ConsumerMember | None = None
    ) -> int:
        """The hash of the existing topics of all members' subscriptions, once the members of some
        ids are gone and a new or changed one is there."""
        changed = gone if new is None else {*gone, new.member_id}
        old = [member for each in changed if (member := self.members.get(each)) is not None]
        lost, added = [member.subscribed_topics for member in old], [NO_NAMES]
        changes: dict[str, int] = {}
        for member in old:
            _count(changes, member.regex, -1)
        if new is not None:
            added.append(new.subscribed_topics)
            _count(changes, new.regex, 1)
        for regex, change in changes.items():
            subscribers, resolved = self.subscribers_of(regex), self.regexes.get(regex)
            if resolved is not None and bool(subscribers) != bool(subscribers + change):
                (lost if subscribers else added).append(resolved.topics)
        return self.subscriptions.hash(view, lost, added)

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
        names = self.subscriptions.shared(member.subscribed_topics)
        if names is not member.subscribed_topics:
            member = replace(member, subscribed_topics=names)
        held = (
            old is not None
            and old.member_epoch == member.member_epoch
            and old.assigned is member.assigned
            and old.pending_revocation is member.pending_revocation
        )
        if old is not None:
            if not held:
                self._release(old)
            if old.instance_id is not None and old.instance_id != member.instance_id:
                self._forget_instance(old)
        self.members[member.member_id] = member
        self._subscribe(old, member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not held:
            self._claim(member)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_instance(member)
            self._subscribe(member, None)

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """An expression has been resolved, as all of the group are at the same time."""
        known = self.regexes.get(regex)
        if known is not None and known.topics == resolved.topics:
            resolved = replace(resolved, topics=known.topics)
        self.regexes[regex] = resolved
        self.resolved_ms, self.resolved_version = resolved.timestamp_ms, resolved.version
        self.unresolved.discard(regex)
        if regex in self._subscribers:
            self.subscriptions.change(NO_NAMES if known is None else known.topics, resolved.topics)

    def remove_regex(self, regex: str) -> None:
        known = self.regexes.pop(regex, None)
        if not self.regexes:
            self.resolved_ms, self.resolved_version = 0, -1
        if known is not None and regex in self._subscribers:
            self.unresolved.add(regex)
            self.subscriptions.change(known.topics, NO_NAMES)

    def _subscribe(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count what a member subscribes to and supports, no longer as the old one but as the new
        one."""
        before = NO_NAMES if old is None else old.subscribed_topics
        self.subscriptions.change(before, NO_NAMES if new is None else new.subscribed_topics)
        if old is not None and new is not None and old.regex == new.regex and old.classic is new.classic:
            return
        for member, change in ((new, 1), (old, -1)):
            if member is None:
                continue
            self._classic += change * member.uses_classic
            for name in protocol_names(member):
                _count(self._protocols, name, change)
            was_subscribed = member.regex in self._subscribers
            _count(self._subscribers, member.regex, change)
            if was_subscribed != (member.regex in self._subscribers):
                self._subscribe_by(member.regex, not was_subscribed)

    def _subscribe_by(self, regex: str, new: bool) -> None:
        """An expression has its first subscriber, or none any more."""
        known = self.regexes.get(regex)
        if known is None and new:
            self.unresolved.add(regex)
        elif known is None:
            self.unresolved.discard(regex)
        elif new:
            self.subscriptions.change(NO_NAMES, known.topics)
        else:
            self.subscriptions.change(known.topics, NO_NAMES)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _claim(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in paced(partitions.items()):
                self._owner_epochs.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member.member_epoch))

    def _release(self, member: ConsumerMember) -> None:
        """Give up the member's partitions, unless another has claimed them since."""
        for partitions in (member.assigned, member.pending_revocation):
            self._release_each(partitions, member.member_epoch)

    def _release_each(self, partitions: EpochPartitions, epoch: int) -> None:
        for topic_id, epochs in paced(partitions.items()):
            owners = self._owner_epochs.get(topic_id, {})
            for partition in paced(epochs):
                if owners.get(partition) == epoch:
                    del owners[partition]
            if not owners:
                self._owner_epochs.pop(topic_id, None)

    # --- offsets and deletion

    def topics_read(self) -> Collection[str]:
        return self.subscriptions

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic_id: bytes | None, partition: int
    ) -> None:
        """Check that the member had the partition in the epoch of its commit (KIP-1251). Raises
        KafkaError."""
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


def protocol_names(member: ConsumerMember) -> frozenset[str]:
    """Names of the protocols that a classic member supports; none of another member."""
    return frozenset() if member.classic is None else frozenset(name for name, _ in member.classic.protocols)


def _count(numbers: dict[str, int], name: str, change: int) -> None:
    """Change a number by name; there is none for 0, nor for the empty name."""
    if not name:
        return
    number = numbers.get(name, 0) + change
    if number:
        numbers[name] = number
    else:
        numbers.pop(name, None)
