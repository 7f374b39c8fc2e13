"""What a deleted group leaves in the log: nothing, once the log is compacted."""

from tests.control.groups.consumer_members import Member, kafka_with
from tests.control.groups.consumer_members import settle as settle_consumers
from tests.control.groups.coordinator import Coordinator
from tests.control.groups.streams_members import GROUP as STREAMS
from tests.control.groups.streams_members import Process, application
from tests.control.groups.streams_members import settle as settle_streams


def left(kafka: Coordinator) -> list[bytes]:
    """Keys that compaction keeps."""
    last = {record.key: record.value for record in kafka.log}
    assert last
    return [key for key, value in last.items() if value is not None]


def test_a_consumer_group_whose_members_left() -> None:
    kafka = kafka_with(t=6)
    members = [Member(kafka, "m1"), Member(kafka, "m2", topics=None, regex="t.*")]
    settle_consumers(kafka, *members)
    kafka.commit(5, "m1", members[0].epoch)
    assert left(kafka)
    for member in members:
        kafka.beat(member.name, -1)
    kafka.run(kafka.shard.delete("g"))
    assert left(kafka) == []


def test_a_consumer_group_whose_members_were_not_heard_of() -> None:
    kafka = kafka_with(t=6)
    settle_consumers(kafka, Member(kafka, "m1"), Member(kafka, "m2", instance="i2"))
    kafka.advance(60_000)
    kafka.run(kafka.shard.delete("g"))
    assert left(kafka) == []


def test_a_classic_group_is_deleted_with_its_offsets() -> None:
    kafka = Coordinator()
    kafka.stable_group(2)
    kafka.commit(group="g", topic="t", offset=3)
    kafka.advance(60_000)
    kafka.run(kafka.shard.delete("g"))
    assert left(kafka) == []


def test_a_streams_group_is_deleted_with_its_offsets() -> None:
    kafka = application()
    members = [Process(kafka, "a"), Process(kafka, "b")]
    settle_streams(kafka, *members)
    for member in members:
        member.leave()
    kafka.run(kafka.shard.delete(STREAMS))
    assert left(kafka) == []
