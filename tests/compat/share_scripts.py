"""Conversations about share groups (KIP-932), in which kbroker must give the answers of Apache
Kafka."""

import time
from collections.abc import Callable

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.records import build_batch
from tests.compat.group_requests import join_request
from tests.compat.group_talk import Talk
from tests.compat.share_talk import ShareMember

GROUP_RESOURCE = 32
STARTED_MS = time.time_ns() // 1_000_000
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def configure(talk: Talk, group_id: str, **settings: str) -> None:
    """Set configs of a group; underscores stand for dots. Assignments are computed without
    delay."""
    settings["share_assignment_interval_ms"] = "0"
    configs = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group_id, configs)])
    talk.ask("configure", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    time.sleep(0.5)


def wake(talk: Talk, topic: str) -> None:
    """Wait for the share state topic, which a broker creates for its first share group."""
    early = ShareMember(talk, talk.group("early"), "early")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        request = ShareGroupHeartbeatRequest(early.group_id, early.member_id, early.epoch, None, [topic])
        answer = early.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        early.epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        time.sleep(0.2)
    early.close()


def begin(talk: Talk, partitions: int = 1, **settings: str) -> tuple[str, str, bytes]:
    """A group that starts at the earliest records, and a topic for it: (group, topic, topic id)."""
    group, topic = talk.group(), f"{talk.prefix}-t"
    topic_id = talk.create_topic("t", partitions)
    wake(talk, topic)
    configure(talk, group, share_auto_offset_reset="earliest", **settings)
    return group, topic, topic_id


def produce(talk: Talk, topic: str, *counts: int, partition: int = 0) -> None:
    """Produce a batch for each count of records."""
    for count in counts:
        part = PartitionProduceData(partition, build_batch([(b"key", b"value", (), STARTED_MS)] * count))
        request = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(f"{talk.prefix}-{topic}", partition_data=[part])]
        )
        talk.peer.ask(ApiKey.PRODUCE, 9, request)


def describe(talk: Talk, *groups: str) -> None:
    """Members and assignments."""
    talk.ask("describe", ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(list(groups)))


def offsets(talk: Talk, group: str, topic: str | None = None, partitions: int = 1, version: int = 1) -> None:
    """The offsets of the group."""
    spec = DescribeShareGroupOffsetsRequestGroup(
        group,
        None if topic is None else [DescribeShareGroupOffsetsRequestTopic(topic, list(range(partitions)))],
    )
    request = DescribeShareGroupOffsetsRequest([spec])
    talk.ask("offsets", ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, request)


def membership(talk: Talk) -> None:
    """Join, heartbeat, leave, and refusals. (Which member gets which of several partitions is
    random in Apache Kafka.)"""
    group = talk.group()
    topic = f"{talk.prefix}-t"
    talk.create_topic("t", 1)
    wake(talk, topic)
    configure(talk, group)
    a, b = ShareMember(talk, group, "a"), ShareMember(talk, group, "b")
    describe(talk, group, "")
    a.heartbeat("no such group", epoch=1)
    a.heartbeat("joins without topics")
    a.heartbeat("joins with none", [])
    a.heartbeat("joins", [topic])
    time.sleep(2)
    a.heartbeat("goes on")
    describe(talk, group)
    b.heartbeat("joins", [topic])
    b.heartbeat("goes on")
    a.heartbeat("hears of b")
    b.heartbeat("wrong epoch", epoch=77)
    b.heartbeat("old epoch", epoch=1)
    b.heartbeat("epoch -2", epoch=-2)
    b.heartbeat("epoch 0 again", [topic], epoch=0)
    b.heartbeat("adds a topic that is not there", [topic, f"{talk.prefix}-nope"])
    b.heartbeat("goes on")
    b.heartbeat("rack", rack_id="r")
    b.heartbeat("empty rack", rack_id="")
    describe(talk, group, talk.group("other"))
    talk.ask("list", ApiKey.LIST_GROUPS, 5, ListGroupsRequest([], ["share"]))
    talk.ask("classic describe", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("consumer describe", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([group]))
    talk.ask("classic join", ApiKey.JOIN_GROUP, 9, join_request(group))
    talk.ask("delete too early", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    b.heartbeat("leaves", epoch=-1)
    b.heartbeat("leaves again", epoch=-1)
    a.heartbeat("alone")
    a.heartbeat("leaves", epoch=-1)
    describe(talk, group)
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    describe(talk, group)
    for label, request in {
        "no group id": ShareGroupHeartbeatRequest("", a.member_id, 0, None, [topic]),
        "blank member id": ShareGroupHeartbeatRequest(group, " ", 0, None, [topic]),
        "odd member id": ShareGroupHeartbeatRequest(group, "odd", 0, None, [topic]),
    }.items():
        talk.ask(label, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


def work(talk: Talk) -> None:
    """Acquire, accept, release, reject, renew, and refusals."""
    group, topic, topic_id = begin(talk)
    a, b = ShareMember(talk, group, "a"), ShareMember(talk, group, "b")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    b.heartbeat("joins", [topic])
    a.heartbeat("assigned")
    produce(talk, "t", 3, 4, 5)
    a.ask(ApiKey.SHARE_FETCH, 1, _opening(a, topic_id))
    time.sleep(2)
    a.fetch("opens with an acknowledgement", topic_id, said=[(0, 1, [ACCEPT])], epoch=0)
    a.fetch("opens", topic_id, max_records=3)
    offsets(talk, group, topic)
    a.fetch("wrong epoch", topic_id, epoch=9)
    a.fetch("second batch", topic_id, (), max_records=3)
    b.acknowledge("no session", topic_id, [(0, 2, [ACCEPT])], epoch=1)
    b.acknowledge("epoch 0", topic_id, [(0, 2, [ACCEPT])], epoch=0)
    b.fetch("opens", topic_id, max_records=1)
    b.acknowledge("what a has", topic_id, [(0, 2, [ACCEPT])])
    a.acknowledge("accept 0, release 1, reject 2", topic_id, [(0, 2, [ACCEPT, RELEASE, REJECT])])
    a.acknowledge("again", topic_id, [(0, 2, [ACCEPT])])
    a.acknowledge("unknown offsets", topic_id, [(20, 22, [ACCEPT])])
    a.acknowledge("odd type", topic_id, [(3, 3, [9])])
    a.acknowledge("too many types", topic_id, [(3, 4, [1, 1, 1])])
    a.acknowledge("reversed", topic_id, [(4, 3, [1])])
    a.acknowledge("overlapping", topic_id, [(3, 4, [1]), (4, 5, [1])])
    a.acknowledge("renew in v1", topic_id, [(3, 3, [RENEW])])
    a.acknowledge("unknown partition", topic_id, [(0, 0, [ACCEPT])], partition=7)
    a.acknowledge("unknown topic", bytes(range(16)), [(0, 0, [ACCEPT])])
    b.fetch("gets 1 again", topic_id, max_records=10)
    b.acknowledge("accepts part", topic_id, [(1, 1, [ACCEPT])])
    a.fetch("rest with acknowledgements", topic_id, (0,), [(3, 3, [ACCEPT]), (4, 6, [RELEASE])])
    a.acknowledge("renew", topic_id, [(4, 5, [RENEW])], version=2, is_renew_ack=True)
    a.acknowledge("renew without saying so", topic_id, [(4, 5, [RENEW])], version=2)
    a.fetch("forgets", topic_id, (), forgotten=(0,))
    a.acknowledge("closes", topic_id, [(4, 4, [ACCEPT])], epoch=-1)
    a.acknowledge("closed", topic_id, [(5, 5, [ACCEPT])])
    b.fetch("gets what a had", topic_id, ())
    b.fetch("closes", topic_id, (), epoch=-1)
    b.fetch("closes again", topic_id, (), epoch=-1)
    a.session_epoch = 0
    a.fetch("unknown partition", topic_id, (5,))
    a.close()
    b.close()


def _opening(member: ShareMember, topic_id: bytes):  # type: ignore[no-untyped-def]
    from kbroker.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

    return ShareFetchRequest(
        member.group_id,
        member.member_id,
        0,
        0,
        1,
        1,
        0,
        0,
        topics=[FetchTopic(topic_id, [FetchPartition(0)])],
    )


def strict(talk: Talk) -> None:
    """v2: never more records than requested; records are released when the connection closes, and
    archived after too many deliveries."""
    group, topic, topic_id = begin(
        talk, share_delivery_count_limit="2", share_record_lock_duration_ms="15000"
    )
    a, b = ShareMember(talk, group, "a"), ShareMember(talk, group, "b")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    b.heartbeat("joins", [topic])
    produce(talk, "t", 6)
    a.ask(ApiKey.SHARE_FETCH, 1, _opening(a, topic_id))
    time.sleep(2)
    a.fetch("opens", topic_id, version=2, max_records=2, share_acquire_mode=1)
    b.fetch("opens", topic_id, version=2, max_records=3, share_acquire_mode=1)
    a.close()
    time.sleep(2)
    b.fetch("gets what a had", topic_id, (), version=2, max_records=3, share_acquire_mode=1)
    b.acknowledge("releases", topic_id, [(0, 1, [RELEASE])], version=2)
    b.fetch("second time", topic_id, (), version=2, max_records=2, share_acquire_mode=1)
    b.acknowledge("releases again", topic_id, [(0, 1, [RELEASE])], version=2)
    b.fetch("they are given up", topic_id, (), version=2, max_records=9, share_acquire_mode=1)
    b.close()


def unrenewed(talk: Talk) -> None:
    """A group without renewal: a lock is not renewed, and no other record of the request is
    acknowledged."""
    group, topic, topic_id = begin(talk, share_renew_acknowledge_enable="false")
    a = ShareMember(talk, group, "a")
    a.heartbeat("joins", [topic])
    produce(talk, "t", 5)
    a.ask(ApiKey.SHARE_FETCH, 1, _opening(a, topic_id))
    time.sleep(2)
    a.fetch("opens", topic_id, version=2, max_records=5)
    a.acknowledge("renew", topic_id, [(1, 2, [RENEW])], version=2, is_renew_ack=True)
    mixed = [(0, 0, [ACCEPT]), (3, 4, [RELEASE, RENEW])]
    a.acknowledge("accept, release and renew", topic_id, mixed, version=2, is_renew_ack=True)
    a.acknowledge("accept", topic_id, [(0, 4, [ACCEPT])], version=2)
    a.acknowledge("renew what is done", topic_id, [(1, 2, [RENEW])], version=2, is_renew_ack=True)
    a.close()


def loading(talk: Talk) -> None:
    """The records of the first loaded partition do not wait for other partitions; the next answer
    has the rest."""
    group, topic, topic_id = begin(talk, 3)
    for partition in range(3):
        produce(talk, "t", 2, partition=partition)
    a = ShareMember(talk, group, "a")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    silent = ShareMember(Talk(talk.peer, talk.prefix), group, "a")
    found: list[int] = []
    for label, partitions in (("first", range(3)), ("second", range(0))):
        answer = silent.fetch(label, topic_id, partitions, wait_ms=5000)
        parts = [part for each in answer.responses for part in each.partitions if part.acquired_records]
        found.append(len(parts))
        time.sleep(2)
    # the number of partitions that are loaded in time for the first answer depends on the machine
    talk.lines.append(("partitions", {"in_the_first_answer": found[0] > 0, "in_both": sum(found)}))
    silent.close()
    a.close()


def patience(talk: Talk) -> None:
    """A fetch waits for enough bytes, but not forever."""
    group, topic, topic_id = begin(talk)
    a = ShareMember(talk, group, "a")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    produce(talk, "t", 1)
    a.ask(ApiKey.SHARE_FETCH, 1, _opening(a, topic_id))
    time.sleep(2)
    for label, min_bytes, wait_ms in (("not enough", 5000, 2000), ("enough", 50, 25_000)):
        began = time.monotonic()
        a.fetch(label, topic_id, wait_ms=wait_ms, min_bytes=min_bytes)
        quick = time.monotonic() - began < 0.9 * wait_ms / 1000
        talk.lines.append((f"{label} at once", {"quick": quick}))
        assert quick == (label == "enough")
        produce(talk, "t", 3)
    a.close()


def moved(talk: Talk) -> None:
    """Offsets shown, altered and deleted."""
    group, topic = talk.group(), f"{talk.prefix}-t"
    topic_id = talk.create_topic("t", 2)
    wake(talk, topic)
    produce(talk, "t", 5)
    configure(talk, group, share_auto_offset_reset="earliest")
    offsets(talk, group)
    alter = [AlterShareGroupOffsetsRequestPartition(0, 3), AlterShareGroupOffsetsRequestPartition(7, 3)]
    request = AlterShareGroupOffsetsRequest(
        group,
        [
            AlterShareGroupOffsetsRequestTopic(topic, alter),
            AlterShareGroupOffsetsRequestTopic("nope", alter[:1]),
        ],
    )
    delete = DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(topic), DeleteShareGroupOffsetsRequestTopic("nope")]
    )
    talk.ask("alter, no group", ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)
    offsets(talk, group)
    talk.ask("delete, no group", ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, delete)
    a = ShareMember(talk, group, "a")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    a.heartbeat("assigned")
    talk.ask("alter, not empty", ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)
    talk.ask("delete, not empty", ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, delete)
    a.heartbeat("leaves", epoch=-1)
    talk.ask("alter", ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)
    offsets(talk, group, topic)
    offsets(talk, group, topic, version=0)
    offsets(talk, group, "nope")
    a.epoch = 0
    a.heartbeat("joins again", [topic])
    a.ask(ApiKey.SHARE_FETCH, 1, _opening(a, topic_id))
    time.sleep(2)
    a.fetch("from 3 on", topic_id)
    a.acknowledge("accepts", topic_id, [(3, 4, [ACCEPT])])
    a.acknowledge("closes", topic_id, [], epoch=-1)
    a.heartbeat("leaves", epoch=-1)
    talk.ask("delete", ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, delete)
    talk.ask("delete again", ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, delete)
    offsets(talk, group, topic)
    a.close()


SCRIPTS: dict[str, Callable[[Talk], None]] = {
    "share-membership": membership,
    "share-work": work,
    "share-strict": strict,
    "share-unrenewed": unrenewed,
    "share-loading": loading,
    "share-patience": patience,
    "share-moved": moved,
}
