"""Groups that no client would make: at the last epoch, from records that cannot be, with members
that hide odd metadata behind their first protocol."""

import pytest

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.consumer_group import records as consumer_records
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS
from kbroker.protocol.epochs import MAX_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, Topology
from kbroker.protocol.record_types import decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError
from tests.control.groups.classic_members import PROTOCOLS, subscription
from tests.control.groups.consumer_members import Member
from tests.control.groups.coordinator import PARTITION, Coordinator, answer
from tests.control.groups.streams_members import Process, application

LOADING = PARTITION + 1
"""A partition that is not loaded yet."""


def stored(
    generation: int = 1, protocol: str | None = "range", leader: str | None = "a"
) -> GroupMetadataValue:
    """A stable group with members a and b."""
    members = [
        MemberMetadata(each, f"i-{each}", "client", "/host", 60_000, 10_000, subscription(), b"")
        for each in ("a", "b")
    ]
    return GroupMetadataValue("consumer", generation, protocol, leader, 1000, members)


def record(value: GroupMetadataValue) -> Record:
    return Record(encode_key(GroupMetadataKey("g")), encode_value(value, 3))


def twice(*fields: str) -> GroupMetadataValue:
    value = stored()
    for name in fields:
        setattr(value.members[1], name, getattr(value.members[0], name))
    return value


@pytest.mark.parametrize(
    "value",
    [twice("member_id"), twice("group_instance_id"), stored(protocol=None), stored(protocol="")],
    ids=["member twice", "instance twice", "no protocol", "empty protocol"],
)
def test_a_classic_group_that_cannot_be_does_not_replace_the_known_one(value: GroupMetadataValue) -> None:
    kafka, odd = Coordinator(), record(value)
    kafka.shard.replay(LOADING, *_parts(record(stored())), 0)
    known = kafka.shard.table.groups["g"]
    with pytest.raises(ProtocolError):
        kafka.shard.replay(LOADING, *_parts(odd), 0)
    assert kafka.shard.table.groups["g"] is known


def _parts(one: Record) -> tuple[bytes, bytes | None]:
    return one.key, one.value


@pytest.mark.parametrize("leader", ["gone", None])
def test_a_group_whose_leader_is_no_member_rebalances(leader: str | None) -> None:
    kafka = Coordinator(log=[record(stored(leader=leader))])
    joins = [kafka.send_join(each, instance=f"i-{each}", protocols=PROTOCOLS) for each in ("a", "b")]
    kafka.advance(61_000)
    assert answer(joins[0]).leader == "a"


def test_the_generation_after_the_last_goes_round_as_in_kafka() -> None:
    kafka = Coordinator(log=[record(stored(MAX_EPOCH))])
    joins = [
        kafka.send_join(each, instance=f"i-{each}", protocols=(("range", b"new"),)) for each in ("a", "b")
    ]
    generation = answer(joins[0]).generation_id
    assert generation == -MAX_EPOCH - 1
    kafka.send_sync("a", generation, {"a": b"1", "b": b"2"}, instance="i-a")
    assert kafka.state() == "Stable"
    assert kafka.commit(7, "a", generation, instance="i-a") is ErrorCode.NONE
    kafka.advance(20_000)
    assert kafka.restarted().state() == "Empty"


def test_a_consumer_group_at_the_last_epoch_ends_with_its_members() -> None:
    kafka = Coordinator(log=[consumer_records.group_epoch("g", MAX_EPOCH, 0)])
    kafka.topics.put("t", 2)
    Member(kafka, "m")
    assert kafka.described().group_epoch == -MAX_EPOCH - 1
    kafka.advance(60_000)
    assert kafka.described().group_state == "Empty"
    assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NONE


def _mixed(*protocols: tuple[str, bytes]) -> Coordinator:
    """A consumer group with a member of the new protocol and a classic one of these protocols."""
    kafka = Coordinator()
    kafka.topics.put("t", 2)
    Member(kafka, "new")
    classic = kafka.send_join(protocols=protocols, version=3)
    assert answer(classic).error_code == ErrorCode.NONE
    return kafka


def test_metadata_after_the_first_protocol_does_not_keep_others_in_the_group() -> None:
    """`b` is what both support, and what the group would become classic with."""
    kafka = _mixed(("a", subscription()), ("b", b""))
    other = kafka.send_join(protocols=(("b", subscription()),), version=3)
    assert answer(other).error_code == ErrorCode.NONE
    assert kafka.beat("new", -1).error_code == ErrorCode.NONE
    assert isinstance(kafka.shard.table.groups["g"], ClassicGroup)


def test_a_group_whose_members_have_no_protocol_in_common_stays_a_consumer_group() -> None:
    log = _mixed(("a", subscription())).log
    other = _mixed(("b", subscription())).log
    kafka = Coordinator(log=[*log, *(each for each in other if each.value is not None)])
    kafka.topics.put("t", 2)
    group = kafka.shard.table.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert len(group.members) == 3
    assert kafka.beat("new", -1).error_code == ErrorCode.NONE
    assert isinstance(kafka.shard.table.groups["g"], ConsumerGroup)


@pytest.mark.parametrize(
    "part",
    [
        Subtopology("0", ["lines"], copartition_groups=[CopartitionGroup([1])]),
        Subtopology("0", ["lines"], copartition_groups=[CopartitionGroup([-1])]),
        Subtopology("0", ["lines"], copartition_groups=[CopartitionGroup([], [], [0])]),
        Subtopology("0"),
    ],
    ids=["beyond the topics", "before the topics", "no repartition topics", "reads nothing"],
)
def test_a_topology_that_refers_to_nothing_is_refused(part: Subtopology) -> None:
    """As by Apache Kafka, where it is an error of the server."""
    kafka = application()
    with pytest.raises(KafkaError) as refused:
        Process(kafka, "s", topology=Topology(0, [part]))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert kafka.log == []


def test_a_member_that_prefers_an_assignor_of_another_broker_gets_the_first_of_this() -> None:
    made = Coordinator()
    made.topics.put("t", 2)
    Member(made, "m")
    made.advance(1000)
    (value,) = [each for each in made.log if each.key[:2] == b"\0\5"]
    parsed, content = decode_record(CONSUMER_OFFSETS, value.key, value.value)
    content.server_assignor = "custom"  # type: ignore[union-attr]
    assert content is not None
    odd = Record(encode_key(parsed), encode_value(content, 0))
    kafka = Coordinator(log=[odd if each is value else each for each in made.log])
    kafka.topics.put("t", 2)
    Member(kafka, "second")
    assert kafka.described().group_state != "Empty"
