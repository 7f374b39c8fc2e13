"""The next step of one member towards its target assignment."""

from collections.abc import Mapping, Set

import pytest

from kbroker.control.groups.consumer_group.member import ConsumerMember, MemberState
from kbroker.control.groups.consumer_group.reconcile import reconcile
from kbroker.protocol.errors import ErrorCode, KafkaError

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


def stable(assigned: EpochMap, state: MemberState = MemberState.STABLE) -> ConsumerMember:
    """A member at epoch 5 that has nothing to revoke."""
    return ConsumerMember("m", member_epoch=5, state=state, assigned=assigned)


def free_step(before: ConsumerMember, epoch: int, target: Set[int], *owned: int) -> ConsumerMember:
    """One step towards a target; all partitions but the owned ones are free."""
    holders = dict.fromkeys(owned, 5)
    expected = {TOPIC: frozenset(target)}
    return reconcile(before, epoch, expected, {TOPIC}, False, None, lambda _, each: holders.get(each, -1))


def test_a_member_at_the_epoch_of_the_target_has_no_step() -> None:
    before = stable({TOPIC: {0: 5}})
    assert free_step(before, 5, {1}) is before


def test_free_partitions_are_assigned_in_the_epoch_of_the_target() -> None:
    after = free_step(stable({TOPIC: {0: 3}}), 8, {0, 1})
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (8, 5, MemberState.STABLE)
    assert after.assigned == {TOPIC: {0: 3, 1: 8}}


def test_partitions_of_others_are_waited_for_in_the_epoch_of_the_target() -> None:
    after = free_step(stable({TOPIC: {0: 3}}), 8, {0, 1, 2}, 1)
    assert (after.member_epoch, after.state) == (8, MemberState.UNRELEASED_PARTITIONS)
    assert after.assigned == {TOPIC: {0: 3, 2: 8}}
    last = free_step(after, 8, {0, 1, 2})
    assert (last.member_epoch, last.previous_member_epoch, last.state) == (8, 8, MemberState.STABLE)
    assert last.assigned == {TOPIC: {0: 3, 1: 8, 2: 8}}


def test_nothing_is_added_while_something_has_to_be_revoked() -> None:
    after = free_step(stable({TOPIC: {0: 3, 1: 4}}), 8, {1, 2})
    assert (after.member_epoch, after.state) == (5, MemberState.UNREVOKED_PARTITIONS)
    assert (after.assigned, after.pending_revocation) == ({TOPIC: {1: 4}}, {TOPIC: {0: 3}})


def test_partitions_that_the_member_does_not_own_any_more_are_not_waited_for() -> None:
    after = step(stable({TOPIC: {0: 3, 1: 4}}), {1}, {TOPIC: {1}})
    assert (after.member_epoch, after.state) == (8, MemberState.STABLE)
    assert (after.assigned, after.pending_revocation) == ({TOPIC: {1: 4}}, {})


def test_a_target_of_topics_without_a_subscription_is_not_assigned() -> None:
    after = step(stable({}), {0}, None, subscribed=frozenset())
    assert (after.member_epoch, after.state, after.assigned) == (8, MemberState.STABLE, {})


def test_a_member_in_a_state_of_a_later_version_rejoins_without_partitions() -> None:
    before = stable({TOPIC: {0: 3}}, MemberState.UNKNOWN)
    for owned in (None, {TOPIC: {0}}):
        with pytest.raises(KafkaError) as refused:
            step(before, {0}, owned)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(before, {0}, {}).state is MemberState.STABLE
