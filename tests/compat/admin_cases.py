"""Admin and metadata requests, answered as Apache Kafka 4.3.1 does. They build on one another."""

import time
from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_partition_reassignments as apr
from kbroker.protocol.messages import create_acls as ca
from kbroker.protocol.messages import create_partitions as cp
from kbroker.protocol.messages import create_topics as ct
from kbroker.protocol.messages import delete_acls as dacl
from kbroker.protocol.messages import delete_records as dr
from kbroker.protocol.messages import delete_topics as dt
from kbroker.protocol.messages import describe_acls as da
from kbroker.protocol.messages import describe_cluster as dc
from kbroker.protocol.messages import describe_log_dirs as dld
from kbroker.protocol.messages import describe_producers as dp
from kbroker.protocol.messages import describe_quorum as dq
from kbroker.protocol.messages import describe_topic_partitions as dtp
from kbroker.protocol.messages import elect_leaders as el
from kbroker.protocol.messages import find_coordinator as fc
from kbroker.protocol.messages import init_producer_id as ip
from kbroker.protocol.messages import list_offsets as lo
from kbroker.protocol.messages import list_partition_reassignments as lpr
from kbroker.protocol.messages import metadata as md
from kbroker.protocol.messages import offset_for_leader_epoch as ofe
from kbroker.protocol.messages import unregister_broker as ub
from kbroker.protocol.messages import update_features as uf
from tests.compat.config_cases import CONFIGS
from tests.compat.empty_topic_cases import EMPTY_TOPICS
from tests.compat.raw import Case, Peer, case, later

ID = b"\x01" * 16
WAIT_MS = 10_000


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> ct.CreatableTopic:
    """A topic to create; configs as pairs, assignments as (partition, replicas)."""
    configs = [ct.CreatableTopicConfig(key, value) for key, value in more.get("configs", {}).items()]
    assignments = [
        ct.CreatableReplicaAssignment(index, nodes) for index, nodes in more.get("assignments", ())
    ]
    return ct.CreatableTopic(name, partitions, replicas, assignments, configs)


def create(*topics: ct.CreatableTopic, validate_only: bool = False) -> ct.CreateTopicsRequest:
    return ct.CreateTopicsRequest(list(topics), 30_000, validate_only)


CONFIGS_DIFFER = frozenset({"topics.configs"})
"""kbroker has one topic config more."""

CREATE_TOPICS: list[Case] = [
    case("create", K.CREATE_TOPICS, (7, 7), create(topic("one", 3), topic("two"), topic("dotted.name")),
         ignore=CONFIGS_DIFFER, same_text=True),
    case("create with configs", K.CREATE_TOPICS, (5, 5),
         create(topic("configured", 2, configs={"retention.ms": "3600000", "cleanup.policy": "compact,delete"})),
         ignore=CONFIGS_DIFFER, same_text=True),
    case("create by defaults", K.CREATE_TOPICS, (4, 4), create(topic("defaults", -1, -1)), same_text=True),
    case("create by assignment", K.CREATE_TOPICS, (7, 7),
         create(topic("assigned", -1, -1, assignments=[(0, [1]), (1, [1])])), ignore=CONFIGS_DIFFER, same_text=True),
    case("validate only", K.CREATE_TOPICS, (2, 7), create(topic("unborn", 2), topic("x y"), validate_only=True),
         ignore=CONFIGS_DIFFER, same_text=True),
    case("create, refused", K.CREATE_TOPICS, (2, 7), create(
        topic("one"), topic("dotted_name"), topic("bad name"), topic(""), topic(".."), topic("w" * 250),
        topic("three", 1, 3), topic("none", 0), topic("minus", -2), topic("nil", 1, 0), topic("minus2", 1, -2),
        topic("twice"), topic("twice"), topic("__cluster_metadata"),
        topic("k1", configs={"bogus": "1"}), topic("k2", configs={"retention.ms": None}),
        topic("k3", configs={"retention.ms": "x"}), topic("k4", configs={"cleanup.policy": "shred"}),
        topic("k5", configs={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}),
        topic("k6", configs={"segment.bytes": "1"}), topic("k7", configs={"retention.ms": None, "bogus": "1"}),
        topic("a1", 1, -1, assignments=[(0, [1])]), topic("a2", -1, 1, assignments=[(0, [1])]),
        topic("a3", -1, -1, assignments=[(0, [1]), (0, [1])]), topic("a4", -1, -1, assignments=[(1, [1])]),
        topic("a5", -1, -1, assignments=[(0, [2])]), topic("a6", -1, -1, assignments=[(0, [1, 1])]),
        topic("a7", -1, -1, assignments=[(0, [])]), topic("a8", -1, -1, assignments=[(0, [1]), (1, [1, 2])]),
    ), same_text=True, ignore=CONFIGS_DIFFER),
]  # fmt: skip


def metadata(*names: str | None, auto: bool = False, **more: bool) -> md.MetadataRequest:
    return md.MetadataRequest([md.MetadataRequestTopic(name=name) for name in names], auto, **more)


OPERATIONS = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}

METADATA: list[Case] = [
    case("all", K.METADATA, (1, 13), md.MetadataRequest(None)),
    case("empty", K.METADATA, (0, 13), md.MetadataRequest([])),
    case("by name, twice", K.METADATA, (4, 13), metadata("one", "two", "one", "absent", "bad name", "")),
    case("operations", K.METADATA, (8, 10), metadata("one", "absent", **OPERATIONS)),
    case("topic operations", K.METADATA, (11, 13), metadata("two", "absent", include_topic_authorized_operations=True)),
    case("internal, absent", K.METADATA, (4, 13), metadata("__share_group_state")),
    case("by id", K.METADATA, (12, 13), lambda peer: md.MetadataRequest(
        [md.MetadataRequestTopic(peer.topic_id("one"), None), md.MetadataRequestTopic(ID, None)])),
    case("by id and name", K.METADATA, (12, 13), lambda peer: md.MetadataRequest(
        [md.MetadataRequestTopic(peer.topic_id("one"), "two"), md.MetadataRequestTopic(name="two")])),
    case("null name too early", K.METADATA, (10, 11), metadata(None)),
    case("id too early", K.METADATA, (10, 11), md.MetadataRequest([md.MetadataRequestTopic(ID, "one")])),
    case("null name alone", K.METADATA, (12, 13), metadata(None)),
]  # fmt: skip


def topic_partitions(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else dtp.RequestCursor(*cursor)
    return dtp.DescribeTopicPartitionsRequest([dtp.TopicRequest(name) for name in names], limit, at)


DESCRIBE_TOPIC_PARTITIONS: list[Case] = [
    case(f"pages {number}", K.DESCRIBE_TOPIC_PARTITIONS, (0, 0), request, keep=frozenset({"topics"}))
    for number, request in enumerate((
        topic_partitions(),
        topic_partitions("two", "one", "absent", "bad name"),
        topic_partitions("one", "two", limit=2),
        topic_partitions("one", "two", limit=3),
        topic_partitions("one", "two", limit=0),
        topic_partitions("one", "two", cursor=("one", 1)),
        topic_partitions("one", "two", cursor=("one", 7)),
        topic_partitions("one", cursor=("two", 0)),
        topic_partitions("one", cursor=("one", -1)),
        topic_partitions(cursor=("o", 0), limit=1),
        topic_partitions(limit=4),
        topic_partitions("__consumer_offsets"),
    ))
]  # fmt: skip


def offsets(*pairs: tuple[str, int, int], **more: Any) -> lo.ListOffsetsRequest:
    """(topic, partition, timestamp) triples."""
    epoch = more.pop("epoch", -1)
    topics = [
        lo.ListOffsetsTopic(name, [lo.ListOffsetsPartition(index, epoch, timestamp)])
        for name, index, timestamp in pairs
    ]
    return lo.ListOffsetsRequest(more.pop("replica", -1), more.pop("isolation", 0), topics, 1000)


LIST_OFFSETS: list[Case] = (
    [
        case(f"offset at {at}", K.LIST_OFFSETS, (1, 11), offsets(("one", 0, at), ("one", 1, at)))
        for at in (-1, -2, -3, -4, -5, -6, -7, 0, 5, 1000, 2000, 2001, 1 << 60)
    ]
    + [
        case(
            f"offset at {at} of empty logs",
            K.LIST_OFFSETS,
            (1, 11),
            offsets(("two", 0, at), ("compacted", 0, at)),
        )
        for at in (-1, -2, -3, -4, -5, -6, 0, 1)
    ]
    + [
        case("read committed", K.LIST_OFFSETS, (2, 11), offsets(("one", 0, -1), isolation=1)),
        case("unknown", K.LIST_OFFSETS, (1, 11), offsets(("one", 9, -1), ("absent", 0, -1), ("one", -1, -1))),
        case("twice", K.LIST_OFFSETS, (1, 11), offsets(("one", 0, -1), ("one", 0, -2))),
        case("newer epoch", K.LIST_OFFSETS, (4, 11), offsets(("one", 0, -1), epoch=5)),
        case("debugger", K.LIST_OFFSETS, (1, 11), offsets(("one", 0, -1), replica=-2)),
        case("follower", K.LIST_OFFSETS, (1, 11), offsets(("one", 0, -1), replica=7)),
    ]
)


def epochs(name: str, index: int, current: int, epoch: int) -> ofe.OffsetForLeaderEpochRequest:
    partition = ofe.OffsetForLeaderPartition(index, current, epoch)
    return ofe.OffsetForLeaderEpochRequest(-1, [ofe.OffsetForLeaderTopic(name, [partition])])


def deletion(name: str, *pairs: tuple[int, int]) -> dr.DeleteRecordsRequest:
    partitions = [dr.DeleteRecordsPartition(*pair) for pair in pairs]
    return dr.DeleteRecordsRequest([dr.DeleteRecordsTopic(name, partitions)], 10_000)


PARTITIONS: list[Case] = [
    *(
        case(f"epoch {arguments}", K.OFFSET_FOR_LEADER_EPOCH, (2, 4), epochs(*arguments))
        for arguments in (("one", 0, -1, 0), ("one", 0, 0, 0), ("one", 0, 3, 0), ("one", 0, -1, 9), ("one", 0, -1, -1),
                          ("one", 9, -1, 0), ("absent", 0, -1, 0), ("one", 1, -1, 0))
    ),
    *(
        case(f"producers of {name}", K.DESCRIBE_PRODUCERS, (0, 0),
             dp.DescribeProducersRequest([dp.TopicRequest(name, [0, 1, 99])]))
        for name in ("one", "absent", "bad name")
    ),
    case("delete records of nothing", K.DELETE_RECORDS, (0, 2), deletion("absent", (0, 1))),
    case("delete records beyond", K.DELETE_RECORDS, (0, 2), deletion("one", (0, 1 << 40), (9, 0), (1, -2))),
    case("delete records", K.DELETE_RECORDS, (0, 2), deletion("one", (0, 1), (1, -1))),
    case("delete internal", K.DELETE_RECORDS, (0, 2), deletion("__consumer_offsets", (0, -1))),
    *(case(f"delete {name}", K.DELETE_RECORDS, (0, 2), deletion(name, (0, -1))) for name in ("compacted", "kept")),
    case("offset after", K.LIST_OFFSETS, (1, 11), offsets(("one", 0, -2), ("one", 0, 0))),
]  # fmt: skip

CLUSTER: list[Case] = [
    case("unregister nobody", K.UNREGISTER_BROKER, (0, 0), ub.UnregisterBrokerRequest(99), same_text=True),
    *(
        case(f"cluster {kind}", K.DESCRIBE_CLUSTER, (0, 2), dc.DescribeClusterRequest(operations, kind, True))
        for kind, operations in ((1, False), (1, True), (2, False), (3, False))
    ),
    case("reassignments", K.LIST_PARTITION_REASSIGNMENTS, (0, 0), lpr.ListPartitionReassignmentsRequest(1000, None)),
    case("reassignments of some", K.LIST_PARTITION_REASSIGNMENTS, (0, 0), lpr.ListPartitionReassignmentsRequest(
        1000, [lpr.ListPartitionReassignmentsTopics("one", [0, 9]), lpr.ListPartitionReassignmentsTopics("no", [0])])),
    case("reassign", K.ALTER_PARTITION_REASSIGNMENTS, (0, 1), apr.AlterPartitionReassignmentsRequest(1000, True, [
        apr.ReassignableTopic("one", [apr.ReassignablePartition(index, replicas) for index, replicas in (
            (0, [1]), (1, [2]), (2, None), (9, [1]))]),
        apr.ReassignableTopic("absent", [apr.ReassignablePartition(0, [1])]),
        apr.ReassignableTopic("two", [apr.ReassignablePartition(0, [])]),
    ]), same_text=True),
    *(
        case(f"elect {kind}", K.ELECT_LEADERS, versions, el.ElectLeadersRequest(kind, [
            el.TopicPartitions("one", [0, 9]), el.TopicPartitions("absent", [0])], 1000))
        for kind, versions in ((0, (0, 2)), (1, (1, 2)))
    ),
    case("elect all", K.ELECT_LEADERS, (0, 2), el.ElectLeadersRequest(0, None, 1000)),
    case("describe ACLs", K.DESCRIBE_ACLS, (1, 3),
         da.DescribeAclsRequest(1, None, 1, None, None, 1, 1), same_text=True),
    case("create ACLs", K.CREATE_ACLS, (1, 3), ca.CreateAclsRequest(
        [ca.AclCreation(2, "one", 3, "User:a", "*", 3, 3)]), same_text=True),
    case("delete ACLs", K.DELETE_ACLS, (1, 3), dacl.DeleteAclsRequest(
        [dacl.DeleteAclsFilter(2, "one", 3, None, None, 3, 3)]), same_text=True),
    case("quorum", K.DESCRIBE_QUORUM, (0, 2), dq.DescribeQuorumRequest(
        [dq.RequestTopicData("__cluster_metadata", [dq.RequestPartitionData(0)])]), ignore=frozenset({
            "topics.partitions.high_watermark", "topics.partitions.leader_epoch", "nodes",
            "topics.partitions.current_voters.log_end_offset", "topics.partitions.current_voters.last_fetch_timestamp",
            "topics.partitions.current_voters.last_caught_up_timestamp",
            "topics.partitions.current_voters.replica_directory_id"})),
    case("quorum of another", K.DESCRIBE_QUORUM, (0, 2), dq.DescribeQuorumRequest(
        [dq.RequestTopicData("one", [dq.RequestPartitionData(0)])])),
    case("idempotent producer", K.INIT_PRODUCER_ID, (0, 5), ip.InitProducerIdRequest(None, 60_000)),
    case("producer that goes on", K.INIT_PRODUCER_ID, (3, 5), ip.InitProducerIdRequest(None, 60_000, 5, 3)),
    case("half a producer", K.INIT_PRODUCER_ID, (3, 5), ip.InitProducerIdRequest(None, 60_000, 5, -1)),
    case("log dirs", K.DESCRIBE_LOG_DIRS, (1, 5), dld.DescribeLogDirsRequest(
        [dld.DescribableLogDirTopic("one", [0, 9]), dld.DescribableLogDirTopic("absent", [0])])),
    case("log dirs of none", K.DESCRIBE_LOG_DIRS, (1, 5), dld.DescribeLogDirsRequest([])),
]  # fmt: skip


FIND_COORDINATOR: list[Case] = [
    later(f"coordinator {kind} {keys}", K.FIND_COORDINATOR, versions, fc.FindCoordinatorRequest(keys[0], kind, keys))
    for kind, keys, versions in (
        (0, ["g"], (0, 6)), (0, [""], (0, 6)), (0, ["g", "h", "g"], (4, 6)), (1, ["t"], (1, 6)), (9, ["x"], (1, 6)),
        (2, ["x"], (1, 6)), (2, ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"], (1, 5)), (-1, ["x"], (1, 6)),
    )
] + [later("coordinator of nothing", K.FIND_COORDINATOR, (4, 6), fc.FindCoordinatorRequest("", 0, []))]  # fmt: skip


def growth(*topics: tuple[Any, ...], validate_only: bool = False) -> cp.CreatePartitionsRequest:
    specs = [
        cp.CreatePartitionsTopic(
            name, count, None if not rest else [cp.CreatePartitionsAssignment(a) for a in rest[0]]
        )
        for name, count, *rest in topics
    ]
    return cp.CreatePartitionsRequest(specs, 10_000, validate_only)


GROW_AND_DELETE: list[Case] = [
    case("grow, validated", K.CREATE_PARTITIONS, (0, 3), growth(("two", 3), validate_only=True), same_text=True),
    case("grow", K.CREATE_PARTITIONS, (3, 3), growth(("two", 2), ("dotted.name", 2, [[1]])), same_text=True),
    case("grow, refused", K.CREATE_PARTITIONS, (0, 3), growth(
        ("two", 2), ("one", 1), ("absent", 5), ("defaults", 2, [[2]]), ("assigned", 5, [[1]]), ("configured", 3, [[]]),
        ("same", 3), ("same", 4)), ignore=frozenset({"results.error_message"})),
    case("grow what is not there", K.CREATE_PARTITIONS, (3, 3), growth(("absent", 5), ("bad name", 5)), same_text=True),
    later("grown", K.METADATA, (12, 12), metadata("two", "dotted.name")),
    case("delete", K.DELETE_TOPICS, (5, 5), dt.DeleteTopicsRequest(["defaults", "absent"], [], WAIT_MS),
         same_text=True),
    case("delete, old", K.DELETE_TOPICS, (1, 4), dt.DeleteTopicsRequest(["absent", "absent", "no"], [], WAIT_MS)),
    case("delete by id", K.DELETE_TOPICS, (6, 6), lambda peer: dt.DeleteTopicsRequest(timeout_ms=WAIT_MS, topics=[
        dt.DeleteTopicState(None, peer.topic_id("assigned")), dt.DeleteTopicState(None, ID),
        dt.DeleteTopicState("two", ID), dt.DeleteTopicState(None), dt.DeleteTopicState("twice"),
        dt.DeleteTopicState("twice"), dt.DeleteTopicState("absent")])),
    case("delete by name and id", K.DELETE_TOPICS, (6, 6), lambda peer: dt.DeleteTopicsRequest([], [
        dt.DeleteTopicState(None, peer.topic_id("configured")), dt.DeleteTopicState("configured")], WAIT_MS)),
    later("deleted", K.METADATA, (12, 12), metadata("defaults", "assigned", "configured")),
]  # fmt: skip


FEATURES: list[Case] = [
    case(f"feature {name} {level} {kind}", K.UPDATE_FEATURES, (1, 2), uf.UpdateFeaturesRequest(
        1000, [uf.FeatureUpdateKey(name, level, False, kind)], validate_only=True),
        ignore=frozenset({"results.error_message", "error_message"}))
    for name, level, kind in (("bogus", 1, 1), ("metadata.version", 99, 1), ("metadata.version", 30, 1),
                              ("metadata.version", 30, 9), ("metadata.version", -1, 1),
                              ("metadata.version", 29, 2), ("metadata.version", 21, 3))
]  # fmt: skip

CASES: list[Case] = [
    *CREATE_TOPICS, *METADATA, *DESCRIBE_TOPIC_PARTITIONS, *LIST_OFFSETS, *PARTITIONS, *CLUSTER, *CONFIGS, *FEATURES,
    *FIND_COORDINATOR, *EMPTY_TOPICS, *GROW_AND_DELETE,
]  # fmt: skip


def prepare(peer: Peer) -> None:
    """Topics that the cases build on, with the same records in one-0 and one-1 (see `records`)."""
    for name, policy in (("compacted", "compact"), ("kept", "")):
        peer.ask(K.CREATE_TOPICS, 7, create(topic(name, configs={"cleanup.policy": policy})))
    # Kafka answers COORDINATOR_LOAD_IN_PROGRESS until it has its first block of producer ids
    for _ in range(1200):
        answer: Any = peer.ask(K.INIT_PRODUCER_ID, 5, ip.InitProducerIdRequest(None, 60_000))
        if answer.error_code == 0:
            return
        time.sleep(0.05)


RECORDS = [
    (0, [(b"a", b"1", (), 1000), (b"b", b"2", (), 3000), (b"c", b"3", (), 2000)]),
    (0, [(None, b"4", (), 2000)]),
]
"""(partition of topic "one", records of one batch): timestamps 1000, 3000, 2000, 2000."""
