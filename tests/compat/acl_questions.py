"""What every user of the ACL matrix asks: one or more requests of each API, which change nothing
that others see."""

from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import add_offsets_to_txn as aot
from kbroker.protocol.messages import add_partitions_to_txn as apt
from kbroker.protocol.messages import alter_client_quotas as acq
from kbroker.protocol.messages import alter_configs as ac
from kbroker.protocol.messages import alter_partition_reassignments as apr
from kbroker.protocol.messages import alter_replica_log_dirs as arl
from kbroker.protocol.messages import alter_share_group_offsets as aso
from kbroker.protocol.messages import alter_user_scram_credentials as aus
from kbroker.protocol.messages import consumer_group_describe as cgd
from kbroker.protocol.messages import consumer_group_heartbeat as cgh
from kbroker.protocol.messages import create_acls as ca
from kbroker.protocol.messages import create_partitions as cp
from kbroker.protocol.messages import create_topics as ct
from kbroker.protocol.messages import delete_acls as da
from kbroker.protocol.messages import delete_groups as dg
from kbroker.protocol.messages import delete_records as dr
from kbroker.protocol.messages import delete_share_group_offsets as dso
from kbroker.protocol.messages import delete_topics as dt
from kbroker.protocol.messages import describe_acls as dsa
from kbroker.protocol.messages import describe_client_quotas as dcq
from kbroker.protocol.messages import describe_cluster as dc
from kbroker.protocol.messages import describe_configs as dcf
from kbroker.protocol.messages import describe_groups as dgr
from kbroker.protocol.messages import describe_log_dirs as dld
from kbroker.protocol.messages import describe_producers as dp
from kbroker.protocol.messages import describe_quorum as dq
from kbroker.protocol.messages import describe_share_group_offsets as sso
from kbroker.protocol.messages import describe_topic_partitions as dtp
from kbroker.protocol.messages import describe_transactions as dtx
from kbroker.protocol.messages import describe_user_scram_credentials as dus
from kbroker.protocol.messages import elect_leaders as el
from kbroker.protocol.messages import end_txn as et
from kbroker.protocol.messages import fetch as fe
from kbroker.protocol.messages import find_coordinator as fc
from kbroker.protocol.messages import heartbeat as hb
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.messages import init_producer_id as ip
from kbroker.protocol.messages import join_group as jg
from kbroker.protocol.messages import leave_group as lg
from kbroker.protocol.messages import list_config_resources as lcr
from kbroker.protocol.messages import list_groups as lgr
from kbroker.protocol.messages import list_offsets as lo
from kbroker.protocol.messages import list_partition_reassignments as lpr
from kbroker.protocol.messages import list_transactions as lt
from kbroker.protocol.messages import metadata as md
from kbroker.protocol.messages import offset_commit as oc
from kbroker.protocol.messages import offset_delete as od
from kbroker.protocol.messages import offset_fetch as of
from kbroker.protocol.messages import offset_for_leader_epoch as ofe
from kbroker.protocol.messages import produce as pr
from kbroker.protocol.messages import share_acknowledge as sa
from kbroker.protocol.messages import share_fetch as sf
from kbroker.protocol.messages import share_group_describe as sgd
from kbroker.protocol.messages import share_group_heartbeat as sgh
from kbroker.protocol.messages import streams_group_describe as stg
from kbroker.protocol.messages import streams_group_heartbeat as sth
from kbroker.protocol.messages import sync_group as sg
from kbroker.protocol.messages import txn_offset_commit as toc
from kbroker.protocol.messages import unregister_broker as ub
from kbroker.protocol.messages import update_features as uf
from kbroker.protocol.messages import write_txn_markers as wtm
from kbroker.protocol.records import build_batch
from tests.compat.acl_matrix import NAME, member_id
from tests.compat.raw import Case, Peer, case

OTHER = "other"
ABSENT = "acl-absent"
BOTH = (NAME, OTHER)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def _batch(producer: tuple[int, int, int] | None = None) -> bytes:
    records = [(b"k", b"v", (), 1_700_000_000_000)]
    return build_batch(records) if producer is None else build_batch(records, producer=producer)


def _produce(peer: Peer, version: int) -> pr.ProduceRequest:
    def named(name: str) -> pr.TopicProduceData:
        parts = [pr.PartitionProduceData(7, _batch())]  # no such partition: nothing is written
        return pr.TopicProduceData(name, peer.topic_id(name) if version >= 13 else bytes(16), parts)

    names = BOTH if version >= 13 else (*BOTH, ABSENT, "never")
    return pr.ProduceRequest(None, 1, 1000, [named(name) for name in names])


def _produce_in_transaction(_: Peer) -> pr.ProduceRequest:
    batch = bytearray(_batch())
    batch[22] |= 16  # transactional: the CRC does not matter before the id is refused
    parts = [pr.PartitionProduceData(7, bytes(batch))]
    return pr.ProduceRequest(NAME, -1, 1000, [pr.TopicProduceData(NAME, bytes(16), parts)])


def _fetch(peer: Peer, version: int) -> fe.FetchRequest:
    def named(name: str) -> fe.FetchTopic:
        topic_id = peer.topic_id(name) if version >= 13 else bytes(16)
        return fe.FetchTopic(name, topic_id, [fe.FetchPartition(0, -1, 0, -1, -1, 1000)])

    names = BOTH if version >= 13 else (*BOTH, ABSENT)
    return fe.FetchRequest(max_wait_ms=0, max_bytes=1000, session_epoch=-1, topics=[named(n) for n in names])


def _commit(peer: Peer, version: int) -> oc.OffsetCommitRequest:
    def named(name: str) -> oc.OffsetCommitRequestTopic:
        topic_id = peer.topic_id(name) if version >= 10 else bytes(16)
        return oc.OffsetCommitRequestTopic(name, topic_id, [oc.OffsetCommitRequestPartition(0, 1)])

    return oc.OffsetCommitRequest(NAME, 3, "nobody", topics=[named(name) for name in BOTH])


def _txn_commit(_: Peer) -> toc.TxnOffsetCommitRequest:
    topics = [
        toc.TxnOffsetCommitRequestTopic(name, [toc.TxnOffsetCommitRequestPartition(0, 1)]) for name in BOTH
    ]
    return toc.TxnOffsetCommitRequest(NAME, NAME, 99, 0, topics=topics)


def _offset_fetch(peer: Peer, version: int) -> of.OffsetFetchRequest:
    if version < 8:
        return of.OffsetFetchRequest(NAME, [of.OffsetFetchRequestTopic(name, [0]) for name in BOTH])
    topics = [
        of.OffsetFetchRequestTopics(name, peer.topic_id(name) if version >= 10 else bytes(16), [0])
        for name in BOTH
    ]
    groups = [
        of.OffsetFetchRequestGroup(NAME, topics=topics),
        of.OffsetFetchRequestGroup(OTHER, topics=None),
        of.OffsetFetchRequestGroup("acl-more", topics=None),
    ]
    return of.OffsetFetchRequest(groups=groups)


def _by_id(peer: Peer) -> md.MetadataRequest:
    return md.MetadataRequest(
        [md.MetadataRequestTopic(peer.topic_id(name), None) for name in BOTH], False, False, True
    )


def _by_name(*names: str, create: bool = False, with_operations: bool = True) -> md.MetadataRequest:
    return md.MetadataRequest(
        [md.MetadataRequestTopic(name=name) for name in names], create, with_operations, with_operations
    )


def _delete_by_id(peer: Peer) -> dt.DeleteTopicsRequest:
    return dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(None, bytes(range(16)))], timeout_ms=1000)


def _share_fetch(peer: Peer) -> sf.ShareFetchRequest:
    topics = [sf.FetchTopic(peer.topic_id(name), [sf.FetchPartition(0)]) for name in BOTH]
    return sf.ShareFetchRequest(NAME, member_id(), -1, 0, 0, 1000, 10, 10, topics=topics)


def _share_acknowledge(peer: Peer) -> sa.ShareAcknowledgeRequest:
    batches = [sa.AcknowledgementBatch(0, 0, [1])]
    topics = [
        sa.AcknowledgeTopic(peer.topic_id(name), [sa.AcknowledgePartition(0, batches)]) for name in BOTH
    ]
    return sa.ShareAcknowledgeRequest(NAME, member_id(), 5, topics=topics)


def _configs(*pairs: tuple[int, str]) -> dcf.DescribeConfigsRequest:
    return dcf.DescribeConfigsRequest(
        [dcf.DescribeConfigsResource(kind, name, ["retention.ms", "num.io.threads"]) for kind, name in pairs]
    )


ALTERED = ((TOPIC, NAME), (TOPIC, OTHER), (GROUP, NAME), (GROUP, OTHER), (BROKER, ""), (METRICS, "m"))
CONFIG_VALUES = {TOPIC: ("retention.ms", "7"), GROUP: ("consumer.session.timeout.ms", "45000")}


def _incremental(_: Peer) -> iac.IncrementalAlterConfigsRequest:
    resources = []
    for kind, name in ALTERED[:5]:
        key, value = CONFIG_VALUES.get(kind, ("log.retention.ms", "9"))
        resources.append(iac.AlterConfigsResource(kind, name, [iac.AlterableConfig(key, 0, value)]))
    return iac.IncrementalAlterConfigsRequest(resources, validate_only=True)


def _replaced(_: Peer) -> ac.AlterConfigsRequest:
    resources = []
    for kind, name in ALTERED[:2]:
        key, value = CONFIG_VALUES[kind]
        resources.append(ac.AlterConfigsResource(kind, name, [ac.AlterableConfig(key, value)]))
    return ac.AlterConfigsRequest(resources, validate_only=True)


def _partitions(request: Any, topic: Any, part: Any, **more: Any) -> Any:
    return request(topics=[topic(name, [part]) for name in BOTH], **more)


def _topology(*sources: str) -> sth.StreamsGroupHeartbeatRequest:
    topology = sth.Topology(1, [sth.Subtopology("0", list(sources))])
    return sth.StreamsGroupHeartbeatRequest("acl-streams", member_id(), 7, topology=topology)


CREATED = ct.CreateTopicsRequest([ct.CreatableTopic(name, 1, 1) for name in (ABSENT, "absent")], 1000, True)
SHARED = [sso.DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in BOTH]
ENTITY = [acq.RequestEntityData("user", "someone")]
MARKER = wtm.WritableTxnMarker(99, 0, True, [wtm.WritableTxnMarkerTopic("nowhere", [0])], 0)
CREATION = ca.AclCreation(2, "", 3, "User:x", "*", 3, 3)

QUESTIONS: list[Case] = [
    case("produce", K.PRODUCE, (12, 13), _produce),
    case("produce in a transaction", K.PRODUCE, (11, 11), _produce_in_transaction),
    case("fetch", K.FETCH, (12, 13), _fetch),
    case("list offsets", K.LIST_OFFSETS, (7, 7), lo.ListOffsetsRequest(topics=[
        lo.ListOffsetsTopic(name, [lo.ListOffsetsPartition(0, -1, -1)]) for name in (*BOTH, ABSENT)])),
    case("metadata of all", K.METADATA, (12, 12), md.MetadataRequest(None, False, False, True)),
    case("metadata of all, plain", K.METADATA, (0, 0), md.MetadataRequest([])),
    case("metadata by name", K.METADATA, (10, 10), _by_name(*BOTH, ABSENT, "never")),
    case("metadata by name, plain", K.METADATA, (12, 12), _by_name(*BOTH, with_operations=False)),
    case("metadata by id", K.METADATA, (12, 12), _by_id),
    case("describe topics", K.DESCRIBE_TOPIC_PARTITIONS, (0, 0), dtp.DescribeTopicPartitionsRequest(
        [dtp.TopicRequest(name) for name in (*BOTH, ABSENT, "never")])),
    case("describe all topics", K.DESCRIBE_TOPIC_PARTITIONS, (0, 0), dtp.DescribeTopicPartitionsRequest([])),
    case("offset commit", K.OFFSET_COMMIT, (9, 10), _commit),
    case("offset fetch", K.OFFSET_FETCH, (7, 10), _offset_fetch),
    case("find a group", K.FIND_COORDINATOR, (3, 3), fc.FindCoordinatorRequest(NAME, 0)),
    case("find groups", K.FIND_COORDINATOR, (4, 4), fc.FindCoordinatorRequest("", 0, list(BOTH))),
    case("find transactions", K.FIND_COORDINATOR, (4, 4), fc.FindCoordinatorRequest("", 1, list(BOTH))),
    case("find shares", K.FIND_COORDINATOR, (6, 6), fc.FindCoordinatorRequest("", 2, ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])),
    case("join", K.JOIN_GROUP, (6, 6), jg.JoinGroupRequest(NAME, 1, 1, "", None, "consumer", [])),
    case("heartbeat", K.HEARTBEAT, (4, 4), hb.HeartbeatRequest(NAME, 1, "nobody")),
    case("leave", K.LEAVE_GROUP, (4, 4), lg.LeaveGroupRequest(NAME, members=[lg.MemberIdentity("nobody")])),
    case("sync", K.SYNC_GROUP, (5, 5), sg.SyncGroupRequest(NAME, 1, "nobody", None, "consumer", "range")),
    case("describe groups", K.DESCRIBE_GROUPS, (5, 6), dgr.DescribeGroupsRequest([*BOTH, "acl-more"], True)),
    case("list groups", K.LIST_GROUPS, (4, 4), lgr.ListGroupsRequest()),
    case("create topics", K.CREATE_TOPICS, (7, 7), CREATED, ignore=frozenset({"topics.configs"})),
    case("delete topics", K.DELETE_TOPICS, (5, 5),
         dt.DeleteTopicsRequest(topic_names=[ABSENT, "never"], timeout_ms=1000)),
    case("delete topics by id", K.DELETE_TOPICS, (6, 6), _delete_by_id),
    case("delete records", K.DELETE_RECORDS, (2, 2), _partitions(
        dr.DeleteRecordsRequest, dr.DeleteRecordsTopic, dr.DeleteRecordsPartition(0, 0), timeout_ms=1000)),
    case("init producer id", K.INIT_PRODUCER_ID, (4, 4), ip.InitProducerIdRequest(None, 1000)),
    case("init transaction", K.INIT_PRODUCER_ID, (4, 4), ip.InitProducerIdRequest(OTHER, -5)),
    case("init my transaction", K.INIT_PRODUCER_ID, (4, 4), ip.InitProducerIdRequest(NAME, -5)),
    case("epochs", K.OFFSET_FOR_LEADER_EPOCH, (4, 4), ofe.OffsetForLeaderEpochRequest(-1, [
        ofe.OffsetForLeaderTopic(name, [ofe.OffsetForLeaderPartition(0, -1, 0)]) for name in BOTH])),
    case("add partitions", K.ADD_PARTITIONS_TO_TXN, (3, 3), apt.AddPartitionsToTxnRequest(
        NAME, 99, 0, [apt.AddPartitionsToTxnTopic(name, [0]) for name in BOTH])),
    case("add partitions, many", K.ADD_PARTITIONS_TO_TXN, (4, 4), apt.AddPartitionsToTxnRequest(transactions=[
        apt.AddPartitionsToTxnTransaction(NAME, 99, 0, True, [apt.AddPartitionsToTxnTopic(NAME, [0])])])),
    case("add offsets", K.ADD_OFFSETS_TO_TXN, (3, 3), aot.AddOffsetsToTxnRequest(NAME, 99, 0, NAME)),
    case("end transaction", K.END_TXN, (3, 3), et.EndTxnRequest(NAME, 99, 0, True)),
    case("write markers", K.WRITE_TXN_MARKERS, (1, 1), wtm.WriteTxnMarkersRequest([MARKER])),
    case("commit in a transaction", K.TXN_OFFSET_COMMIT, (3, 3), _txn_commit),
    case("describe acls", K.DESCRIBE_ACLS, (3, 3), dsa.DescribeAclsRequest(1, None, 1, "User:x", None, 1, 1)),
    case("create acls", K.CREATE_ACLS, (3, 3), ca.CreateAclsRequest([CREATION])),
    case("delete acls", K.DELETE_ACLS, (3, 3), da.DeleteAclsRequest(
        [da.DeleteAclsFilter(1, None, 1, "User:nobody-has", None, 1, 1)])),
    case("describe configs", K.DESCRIBE_CONFIGS, (4, 4), _configs(
        (TOPIC, NAME), (TOPIC, OTHER), (TOPIC, ABSENT), (GROUP, NAME), (GROUP, OTHER), (METRICS, "m")),
        ignore=frozenset({"results.configs"})),
    case("describe broker", K.DESCRIBE_CONFIGS, (4, 4), _configs((BROKER, "1")),
         ignore=frozenset({"results.configs"})),
    case("alter configs", K.ALTER_CONFIGS, (2, 2), _replaced),
    case("alter configs bit by bit", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), _incremental),
    case("alter log dirs", K.ALTER_REPLICA_LOG_DIRS, (2, 2), arl.AlterReplicaLogDirsRequest(
        [arl.AlterReplicaLogDir("/nowhere", [arl.AlterReplicaLogDirTopic(NAME, [0])])])),
    case("describe log dirs", K.DESCRIBE_LOG_DIRS, (4, 4), dld.DescribeLogDirsRequest(
        [dld.DescribableLogDirTopic("nowhere", [0])])),
    case("create partitions", K.CREATE_PARTITIONS, (3, 3), cp.CreatePartitionsRequest(
        [cp.CreatePartitionsTopic(name, 1, None) for name in (*BOTH, ABSENT)], 1000, True)),
    case("delete groups", K.DELETE_GROUPS, (2, 2), dg.DeleteGroupsRequest(["acl-none", "none"])),
    case("elect leaders", K.ELECT_LEADERS, (2, 2), el.ElectLeadersRequest(0, [el.TopicPartitions(NAME, [0])], 1000)),
    case("reassign", K.ALTER_PARTITION_REASSIGNMENTS, (0, 0), apr.AlterPartitionReassignmentsRequest(1000, topics=[
        apr.ReassignableTopic(NAME, [apr.ReassignablePartition(0, None)])])),
    case("reassignments", K.LIST_PARTITION_REASSIGNMENTS, (0, 0), lpr.ListPartitionReassignmentsRequest(1000, None)),
    case("delete offsets", K.OFFSET_DELETE, (0, 0), _partitions(
        od.OffsetDeleteRequest, od.OffsetDeleteRequestTopic, od.OffsetDeleteRequestPartition(0), group_id="acl-none")),
    case("describe quotas", K.DESCRIBE_CLIENT_QUOTAS, (1, 1), dcq.DescribeClientQuotasRequest([])),
    case("alter quotas", K.ALTER_CLIENT_QUOTAS, (1, 1), acq.AlterClientQuotasRequest(
        [acq.RequestEntryData(ENTITY, [acq.OpData("producer_byte_rate", 1000.0)])], True)),
    case("describe credentials", K.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), dus.DescribeUserScramCredentialsRequest()),
    case("alter credentials", K.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), aus.AlterUserScramCredentialsRequest(
        [aus.ScramCredentialDeletion("nobody", 1)])),
    case("quorum", K.DESCRIBE_QUORUM, (2, 2), dq.DescribeQuorumRequest(
        [dq.RequestTopicData("nowhere", [dq.RequestPartitionData(0)])])),
    case("update features", K.UPDATE_FEATURES, (1, 1), uf.UpdateFeaturesRequest(
        1000, [uf.FeatureUpdateKey("nothing", 1)], True)),
    case("describe cluster", K.DESCRIBE_CLUSTER, (1, 1), dc.DescribeClusterRequest(True)),
    case("describe cluster, plain", K.DESCRIBE_CLUSTER, (1, 1), dc.DescribeClusterRequest(False)),
    case("producers", K.DESCRIBE_PRODUCERS, (0, 0), dp.DescribeProducersRequest(
        [dp.TopicRequest(name, [0]) for name in (*BOTH, ABSENT)])),
    case("unregister", K.UNREGISTER_BROKER, (0, 0), ub.UnregisterBrokerRequest(77)),
    case("describe transactions", K.DESCRIBE_TRANSACTIONS, (0, 0), dtx.DescribeTransactionsRequest(list(BOTH))),
    case("list transactions", K.LIST_TRANSACTIONS, (1, 1), lt.ListTransactionsRequest()),
    case("consumer heartbeat", K.CONSUMER_GROUP_HEARTBEAT, (1, 1), cgh.ConsumerGroupHeartbeatRequest(
        NAME, member_id(), 7, subscribed_topic_names=[OTHER])),
    case("consumer heartbeat, mine", K.CONSUMER_GROUP_HEARTBEAT, (1, 1), cgh.ConsumerGroupHeartbeatRequest(
        NAME, member_id(), 7, subscribed_topic_names=[NAME])),
    case("describe consumer groups", K.CONSUMER_GROUP_DESCRIBE, (1, 1), cgd.ConsumerGroupDescribeRequest(
        [*BOTH, "acl-more"], True)),
    case("config resources", K.LIST_CONFIG_RESOURCES, (1, 1), lcr.ListConfigResourcesRequest([GROUP, METRICS])),
    case("share heartbeat", K.SHARE_GROUP_HEARTBEAT, (1, 1), sgh.ShareGroupHeartbeatRequest(
        "acl-share", member_id(), 7, None, [NAME])),
    case("describe share groups", K.SHARE_GROUP_DESCRIBE, (1, 1), sgd.ShareGroupDescribeRequest(list(BOTH), True)),
    case("share fetch", K.SHARE_FETCH, (1, 1), _share_fetch),
    case("share acknowledge", K.SHARE_ACKNOWLEDGE, (1, 1), _share_acknowledge),
    case("describe streams groups", K.STREAMS_GROUP_DESCRIBE, (0, 0),
         stg.StreamsGroupDescribeRequest(list(BOTH), True)),
    case("streams heartbeat", K.STREAMS_GROUP_HEARTBEAT, (0, 0), sth.StreamsGroupHeartbeatRequest(
        "acl-streams", member_id(), 7, active_tasks=[], standby_tasks=[], warmup_tasks=[])),
    case("streams heartbeat, mine", K.STREAMS_GROUP_HEARTBEAT, (0, 0), _topology(NAME)),
    case("streams heartbeat, other", K.STREAMS_GROUP_HEARTBEAT, (0, 0), _topology(NAME, OTHER)),
    case("share offsets", K.DESCRIBE_SHARE_GROUP_OFFSETS, (1, 1), sso.DescribeShareGroupOffsetsRequest(
        [sso.DescribeShareGroupOffsetsRequestGroup("acl-none", SHARED)])),
    case("alter share offsets", K.ALTER_SHARE_GROUP_OFFSETS, (0, 0), aso.AlterShareGroupOffsetsRequest(NAME, [
        aso.AlterShareGroupOffsetsRequestTopic(OTHER, [aso.AlterShareGroupOffsetsRequestPartition(0, 0)])])),
    case("delete share offsets", K.DELETE_SHARE_GROUP_OFFSETS, (0, 0), dso.DeleteShareGroupOffsetsRequest(NAME, [
        dso.DeleteShareGroupOffsetsRequestTopic(OTHER)])),
]  # fmt: skip
