"""Reconciliation: the next step of one member towards its target assignment (Kafka's
CurrentAssignmentBuilder).

A member first revokes partitions and confirms this by its heartbeat; only then it moves to the
target's epoch, with what it keeps and with what others have released.
"""

from collections.abc import Callable, Mapping, Set

from msgspec.structs import replace

from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.modern_group.partitions import NO_PARTITIONS, EpochPartitions, Partitions
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

Owned = Mapping[bytes, Set[int]] | None
"""The member's owned partitions as reported; None if the heartbeat has none."""


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    subscribed: Set[bytes],
    subscription_changed: bool,
    owned: Owned,
    owner_epoch: Callable[[bytes, int], int],
) -> ConsumerMember:
    """The member after its next step, or the same when there is none.

    subscribed: ids of the topics the member subscribes to: nothing else is assigned to it, whatever
    its target. owner_epoch(topic_id, partition): -1 when the partition has no owner. Raises
    FENCED_MEMBER_EPOCH for a member in a state that this version does not know.
    """
    step = _Step(member, target_epoch, target, subscribed, owned, owner_epoch)
    if member.state is MemberState.STABLE:
        if member.member_epoch != target_epoch:
            return step.next_assignment(member.member_epoch)
        return step.without_unsubscribed() if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.pending_revocation):
            return step.without_unsubscribed() if subscription_changed else member
        # A subscription change may ask for revocations before there is a newer target.
        return step.next_assignment(min(next_epoch(member.member_epoch), target_epoch))
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return step.next_assignment(member.member_epoch)
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return step.next_assignment(target_epoch)


def _owns_any(owned: Owned, partitions: Mapping[bytes, Mapping[int, int]]) -> bool:
    """Whether the member still has one of the partitions, as far as we know."""
    if owned is None:
        return True
    return any(not each.isdisjoint(partitions.get(topic_id, ())) for topic_id, each in owned.items())


class _Step:
    """One call of `reconcile`."""

    def __init__(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target: Partitions,
        subscribed: Set[bytes],
        owned: Owned,
        owner_epoch: Callable[[bytes, int], int],
    ) -> None:
        self.member = member
        self.target_epoch = target_epoch
        self.target = target
        self.subscribed = subscribed
        self.owned = owned
        self.owner_epoch = owner_epoch

    def without_unsubscribed(self) -> ConsumerMember:
        """Remove topics that the member no longer subscribes to, ahead of a new target."""
        member = self.member
        dropped = {key: each for key, each in member.assigned.items() if key not in self.subscribed}
        if not dropped:
            return member
        kept = {key: each for key, each in member.assigned.items() if key in self.subscribed}
        revoke = dict(member.pending_revocation)
        for topic_id, epochs in dropped.items():
            revoke[topic_id] = {**revoke.get(topic_id, {}), **epochs}
        if _owns_any(self.owned, revoke):
            return replace(
                member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoke
            )
        return replace(member, assigned=kept)

    def next_assignment(self, epoch: int) -> ConsumerMember:
        """Keep, revoke and add by the target; the member stays at `epoch` while it has to
        revoke."""
        member = self.member
        kept: dict[bytes, EpochMap] = {}
        revoke: dict[bytes, EpochMap] = {}
        added: dict[bytes, list[int]] = {}
        unreleased = False
        for topic_id in paced(dict.fromkeys((*self.target, *member.assigned))):
            target_partitions = (
                self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()
            )
            has = member.assigned.get(topic_id, {})
            if keeps := {partition: at for partition, at in has.items() if partition in target_partitions}:
                kept[topic_id] = keeps
            if loses := {
                partition: at for partition, at in has.items() if partition not in target_partitions
            }:
                revoke[topic_id] = loses
            missing = sorted(target_partitions - keeps.keys())
            if free := [each for each in paced(missing) if self._is_free(topic_id, each)]:
                added[topic_id] = free
            unreleased |= len(free) < len(missing)
        if revoke and _owns_any(self.owned, revoke):
            return self._moved(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoke)
        for topic_id, partitions in added.items():
            new = dict.fromkeys(partitions, self.target_epoch)
            kept[topic_id] = {**kept.get(topic_id, {}), **new}
        state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
        return self._moved(self.target_epoch, state, kept, NO_PARTITIONS)

    def _is_free(self, topic_id: bytes, partition: int) -> bool:
        """The partition has no owner, or the member itself, which was to revoke it."""
        if partition in self.member.pending_revocation.get(topic_id, {}):
            return True
        return self.owner_epoch(topic_id, partition) == -1

    def _moved(
        self, epoch: int, state: MemberState, assigned: EpochPartitions, revoke: EpochPartitions
    ) -> ConsumerMember:
        return replace(
            self.member.with_epoch(epoch), state=state, assigned=assigned, pending_revocation=revoke
        )


EpochMap = Mapping[int, int]
