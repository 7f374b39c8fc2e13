"""The next step of one member towards its target assignment."""

from collections.abc import Mapping, Set

import pytest

from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.consumer_group.reconcile import reconcile

TOPIC = b"t" * 16
EpochMap = Mapping[bytes, Mapping[int, int]]


def member(assigned: EpochMap, pending: EpochMap) -> ConsumerMember:
    """One that has to revoke partitions, at epoch 5."""
    return ConsumerMember(
        "m",
        member_epoch=5,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=assigned,
        pending_revocation=pending,
    )


def step(
    before: ConsumerMember,
    target: Set[int],
    owned: Mapping[bytes, Set[int]] | None,
    subscribed: Set[bytes] = frozenset((TOPIC,)),
    changed: bool = False,
) -> ConsumerMember:
    """One step towards the target of epoch 8; all partitions have an owner."""
    expected = {TOPIC: frozenset(target)} if target else {}
    return reconcile(before, 8, expected, subscribed, changed, owned, lambda *_: 5)


@pytest.mark.parametrize("owned", [None, {TOPIC: {0, 1}}])
def test_partitions_are_not_revoked_before_the_member_says_so(owned: Mapping[bytes, Set[int]] | None) -> None:
    """A heartbeat without owned partitions says nothing."""
    before = member({TOPIC: {1: 5}}, {TOPIC: {0: 5}})
    assert step(before, {1}, owned) == before


def test_a_member_that_has_more_to_revoke_is_moved_by_one_epoch() -> None:
    after = step(member({TOPIC: {1: 5}}, {TOPIC: {0: 5}}), set(), {TOPIC: {1}})
    assert (after.member_epoch, after.state) == (6, MemberState.UNREVOKED_PARTITIONS)
    assert (after.assigned, after.pending_revocation) == ({}, {TOPIC: {1: 5}})


def test_a_partition_that_a_member_has_revoked_may_be_its_own_again() -> None:
    after = step(member({TOPIC: {1: 5}}, {TOPIC: {0: 5}}), {0, 1}, {TOPIC: {1}})
    assert (after.member_epoch, after.state) == (8, MemberState.STABLE)
    assert after.assigned == {TOPIC: {0: 8, 1: 5}}


def test_partitions_of_an_unsubscribed_topic_are_revoked_with_those_before() -> None:
    before = member({TOPIC: {1: 5}}, {TOPIC: {0: 5}})
    after = step(before, set(), None, subscribed=frozenset(), changed=True)
    assert (after.assigned, after.pending_revocation) == ({}, {TOPIC: {0: 5, 1: 5}})
