"""Of groups that are gone, the replay keeps nothing: clients may make them without end."""

from tests.control.groups.consumer_members import Member, kafka_with
from tests.control.groups.coordinator import PARTITION, Coordinator


def test_a_group_that_is_gone_is_forgotten() -> None:
    kafka = Coordinator()
    kafka.commit(group="commits")
    kafka.new_member_id(group="pending")
    replay = kafka.shard._replay
    assert replay.groups_of(PARTITION) == {"commits", "pending"}
    for group in ("commits", "pending"):
        kafka.run(kafka.shard.delete(group))
    assert replay.groups_of(PARTITION) == set()
    assert not kafka.shard.table.groups


def test_a_group_is_kept_while_it_has_members_or_offsets() -> None:
    kafka = kafka_with(t=1)
    member = Member(kafka, "m")
    replay = kafka.shard._replay
    assert replay.groups_of(PARTITION) == {"g"}
    kafka.commit(5, "m", member.epoch)
    kafka.beat("m", -1)
    assert replay.groups_of(PARTITION) == {"g"}
    kafka.run(kafka.shard.delete("g"))
    assert replay.groups_of(PARTITION) == set()
