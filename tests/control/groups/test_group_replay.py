"""Of groups that are gone, the replay keeps nothing: clients may make them without end."""

from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.control.groups.offset_store import OffsetStore
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


def test_the_end_of_a_transaction_costs_no_look_at_other_open_ones() -> None:
    class WithoutItems(dict[str, set[int]]):
        items = None  # type: ignore[assignment]

    store = OffsetStore()
    for producer_id in range(3):
        record = offset_record(f"g{producer_id}", "t", 0, CommittedOffset(5, -1, "", 0))
        store.replay(record.key, record.value, producer_id)
    store._open = WithoutItems(store._open)
    store.end_transaction(1, True, {"g0", "g1", "g2"})
    assert [store.has_open_transaction(f"g{number}") for number in range(3)] == [True, False, True]
    assert store.get("g1", "t", 0) is not None
    assert set(store._opened) == {0, 2}
