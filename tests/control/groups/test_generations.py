"""A classic group takes requests of its present generation alone: neither older nor newer ones."""

import pytest

from kbroker.protocol.errors import ErrorCode
from tests.control.groups.coordinator import Coordinator, answer


def second_generation(kafka: Coordinator) -> tuple[str, int]:
    """A stable group whose only member has been through an earlier generation."""
    (member,), first = kafka.stable_group()
    generation = answer(kafka.send_join(member, protocols=(("range", b"other"),))).generation_id
    assert generation == first + 1
    assert kafka.sync(member, generation, assignment={member: b"1"}).error_code == ErrorCode.NONE
    return member, generation


@pytest.mark.parametrize("off", [-1, 1])
def test_requests_of_other_generations_are_refused(off: int) -> None:
    kafka = Coordinator()
    member, generation = second_generation(kafka)
    assert kafka.heartbeat(member, generation + off) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.sync(member, generation + off).error_code == ErrorCode.ILLEGAL_GENERATION
    assert kafka.commit(7, member_id=member, generation=generation + off) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.committed() == -1
    assert kafka.heartbeat(member, generation) == ErrorCode.NONE
    assert kafka.commit(7, member_id=member, generation=generation) == ErrorCode.NONE
    assert kafka.committed() == 7


def test_the_sync_timer_of_an_earlier_generation_removes_no_member() -> None:
    """It fired before the rebalance, and waited for its turn."""
    kafka = Coordinator()
    (member,), generation = kafka.stable_group()
    kafka.send_join(member, protocols=(("range", b"other"),))
    group = kafka.shard.table.classic("g")
    assert group is not None
    for fired, left in ((generation, {member}), (generation + 1, set())):
        kafka.run(kafka.shard._rebalance._sync_timed_out("g", fired, kafka.now_ms))
        assert set(group.members) == left


def test_a_commit_without_a_member_is_refused_while_the_group_has_some() -> None:
    kafka = Coordinator()
    kafka.stable_group()
    assert kafka.commit(7, generation=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.committed() == -1


def test_an_offset_expires_when_its_retention_is_over_and_not_a_millisecond_earlier() -> None:
    kafka = Coordinator()
    kafka.commit(7)
    kafka.advance(kafka.settings.offsets_retention_ms - 1)
    kafka.expire_offsets()
    assert kafka.committed() == 7
    kafka.advance(1)
    kafka.expire_offsets()
    assert kafka.committed() == -1
