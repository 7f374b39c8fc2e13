"""Valid requests about topics, configs and the cluster, each field of which is made odd."""

from collections.abc import Mapping

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_configs as ac
from kbroker.protocol.messages import alter_partition_reassignments as apr
from kbroker.protocol.messages import alter_replica_log_dirs as arld
from kbroker.protocol.messages import create_acls as ca
from kbroker.protocol.messages import create_partitions as cp
from kbroker.protocol.messages import create_topics as ct
from kbroker.protocol.messages import delete_records as dr
from kbroker.protocol.messages import delete_topics as dt
from kbroker.protocol.messages import describe_client_quotas as dcq
from kbroker.protocol.messages import describe_cluster as dc
from kbroker.protocol.messages import describe_configs as dcf
from kbroker.protocol.messages import describe_log_dirs as dld
from kbroker.protocol.messages import describe_quorum as dq
from kbroker.protocol.messages import describe_topic_partitions as dtp
from kbroker.protocol.messages import elect_leaders as el
from kbroker.protocol.messages import fetch as f
from kbroker.protocol.messages import find_coordinator as fc
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.messages import list_config_resources as lcr
from kbroker.protocol.messages import list_offsets as lo
from kbroker.protocol.messages import list_partition_reassignments as lpr
from kbroker.protocol.messages import metadata as md
from kbroker.protocol.messages import offset_for_leader_epoch as ofe
from kbroker.protocol.messages import push_telemetry as pt
from kbroker.protocol.messages import sasl_authenticate as sa
from kbroker.protocol.messages import sasl_handshake as sh
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kbroker.protocol.schema import Struct
from tests.compat.odd_world import OTHER, TOPIC, Scene, World, produced

TIMEOUT_MS = 10_000
VALIDATED = frozenset({"timeout_ms", "validate_only"})
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32


def create(world: World, name: str, version: int) -> Struct:
    configs = [
        ct.CreatableTopicConfig("retention.ms", "5"),
        ct.CreatableTopicConfig("cleanup.policy", "compact"),
    ]
    return ct.CreateTopicsRequest([ct.CreatableTopic(name, 2, 1, [], configs)], TIMEOUT_MS, True)


def create_assigned(world: World, name: str, version: int) -> Struct:
    assigned = [ct.CreatableReplicaAssignment(index, [1]) for index in (0, 1)]
    return ct.CreateTopicsRequest([ct.CreatableTopic(name, -1, -1, assigned)], TIMEOUT_MS, True)


def grow(world: World, name: str, version: int) -> Struct:
    assigned = [cp.CreatePartitionsAssignment([1])]
    return cp.CreatePartitionsRequest([cp.CreatePartitionsTopic(OTHER, 3, assigned)], TIMEOUT_MS, True)


def delete(world: World, name: str, version: int) -> Struct:
    return dt.DeleteTopicsRequest(["gone"], [dt.DeleteTopicState("gone")], TIMEOUT_MS)


def delete_by_id(world: World, name: str, version: int) -> Struct:
    return dt.DeleteTopicsRequest([], [dt.DeleteTopicState(None, b"no-topic-has-it-")], TIMEOUT_MS)


def delete_records(world: World, name: str, version: int) -> Struct:
    return dr.DeleteRecordsRequest(
        [dr.DeleteRecordsTopic(OTHER, [dr.DeleteRecordsPartition(0, 0)])], TIMEOUT_MS
    )


def reassign(world: World, name: str, version: int) -> Struct:
    topics = [apr.ReassignableTopic(TOPIC, [apr.ReassignablePartition(0, [1])])]
    return apr.AlterPartitionReassignmentsRequest(TIMEOUT_MS, True, topics)


def list_offsets(world: World, name: str, version: int) -> Struct:
    parts = [lo.ListOffsetsPartition(index, -1, at) for index, at in ((0, 1), (1, -1))]
    return lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic(TOPIC, parts)], TIMEOUT_MS)


def pages(world: World, name: str, version: int) -> Struct:
    topics = [dtp.TopicRequest(each) for each in (TOPIC, OTHER)]
    return dtp.DescribeTopicPartitionsRequest(topics, 3, dtp.RequestCursor(TOPIC, 1))


def metadata(world: World, name: str, version: int) -> Struct:
    topics = [md.MetadataRequestTopic(name=TOPIC), md.MetadataRequestTopic(name=OTHER)]
    return md.MetadataRequest(topics, False)


def metadata_by_id(world: World, name: str, version: int) -> Struct:
    return md.MetadataRequest([md.MetadataRequestTopic(world.ids[TOPIC], None)], False)


def fetch(world: World, name: str, version: int) -> f.FetchRequest:
    parts = [f.FetchPartition(0, partition_max_bytes=1 << 20)]
    return f.FetchRequest(max_bytes=1 << 20, topics=[f.FetchTopic(TOPIC, world.ids[TOPIC], parts)])


def fetch_session(world: World, name: str, version: int) -> Struct:
    opening = fetch(world, name, version)
    opening.session_epoch = 0
    opening.topics.append(f.FetchTopic(OTHER, world.ids[OTHER], [f.FetchPartition(1)]))
    answer = world.done(K.FETCH, version, opening)
    request = fetch(world, name, version)
    request.session_id, request.session_epoch = answer.session_id, 1
    request.forgotten_topics_data = [f.ForgottenTopic(OTHER, world.ids[OTHER], [1])]
    return request


def end_session(world: World, name: str, version: int) -> Struct:
    """It forgets the last partition of its session, and reads one."""
    opening = fetch(world, name, version)
    opening.session_epoch = 0
    answer = world.done(K.FETCH, version, opening)
    request = fetch(world, name, version)
    request.session_id, request.session_epoch = answer.session_id, 1
    request.forgotten_topics_data = [f.ForgottenTopic(TOPIC, world.ids[TOPIC], [0])]
    return request


def produce(world: World, name: str, version: int) -> Struct:
    request = produced(1, OTHER, 1)
    request.acks = -1
    request.topic_data[0].topic_id = world.ids[OTHER]
    return request


def described(world: World, name: str, version: int) -> Struct:
    keys = ["retention.ms", "cleanup.policy"]
    return dcf.DescribeConfigsRequest([dcf.DescribeConfigsResource(TOPIC_RESOURCE, TOPIC, keys)], True)


def configure(world: World, name: str, version: int) -> Struct:
    configs = [iac.AlterableConfig("cleanup.policy", 2, "compact"), iac.AlterableConfig("flush.ms", 0, "5")]
    return iac.IncrementalAlterConfigsRequest(
        [iac.AlterConfigsResource(TOPIC_RESOURCE, TOPIC, configs)], True
    )


def replace(world: World, name: str, version: int) -> Struct:
    configs = [ac.AlterableConfig("cleanup.policy", "compact"), ac.AlterableConfig("flush.ms", "5")]
    return ac.AlterConfigsRequest([ac.AlterConfigsResource(TOPIC_RESOURCE, TOPIC, configs)], True)


def configure_group(world: World, name: str, version: int) -> Struct:
    configs = [iac.AlterableConfig("consumer.session.timeout.ms", 0, "50000")]
    return iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(GROUP_RESOURCE, name, configs)], True)


def create_acls(world: World, name: str, version: int) -> Struct:
    return ca.CreateAclsRequest([ca.AclCreation(2, TOPIC, 3, "User:a", "*", 3, 3)])


def log_dirs(world: World, name: str, version: int) -> Struct:
    return dld.DescribeLogDirsRequest([dld.DescribableLogDirTopic(TOPIC, [0])])


def move(world: World, name: str, version: int) -> Struct:
    return arld.AlterReplicaLogDirsRequest(
        [arld.AlterReplicaLogDir("/no/such/dir", [arld.AlterReplicaLogDirTopic(TOPIC, [0])])]
    )


def epochs(world: World, name: str, version: int) -> Struct:
    return ofe.OffsetForLeaderEpochRequest(
        -1, [ofe.OffsetForLeaderTopic(TOPIC, [ofe.OffsetForLeaderPartition(0, 0, 0)])]
    )


def quotas(world: World, name: str, version: int) -> Struct:
    return dcq.DescribeClientQuotasRequest([dcq.ComponentData("user", 0, "nobody")])


def elect(world: World, name: str, version: int) -> Struct:
    return el.ElectLeadersRequest(0, [el.TopicPartitions(TOPIC, [0])], TIMEOUT_MS)


def reassignments(world: World, name: str, version: int) -> Struct:
    return lpr.ListPartitionReassignmentsRequest(
        TIMEOUT_MS, [lpr.ListPartitionReassignmentsTopics(TOPIC, [0])]
    )


def quorum(world: World, name: str, version: int) -> Struct:
    return dq.DescribeQuorumRequest([dq.RequestTopicData(TOPIC, [dq.RequestPartitionData(0)])])


def push(world: World, name: str, version: int) -> Struct:
    return pt.PushTelemetryRequest(b"client-instance-", 0, False, 0, b"")


TIMED = frozenset({"timeout_ms"})
WAITS = frozenset({"max_wait_ms", "min_bytes"})
"""A session is of a client: Apache Kafka lets each request of it come from another replica."""
TOPIC_SCENES: Mapping[str, Scene] = {
    "create": Scene(K.CREATE_TOPICS, (2, 7), create, VALIDATED),
    "create-assigned": Scene(K.CREATE_TOPICS, (2, 7), create_assigned, VALIDATED),
    "grow": Scene(K.CREATE_PARTITIONS, (0, 3), grow, VALIDATED),
    "delete-topics": Scene(K.DELETE_TOPICS, (1, 6), delete, TIMED),
    "delete-topics-by-id": Scene(K.DELETE_TOPICS, (6, 6), delete_by_id, TIMED),
    "delete-records": Scene(K.DELETE_RECORDS, (0, 2), delete_records, TIMED),
    "reassign": Scene(K.ALTER_PARTITION_REASSIGNMENTS, (0, 1), reassign, TIMED),
    "reassignments": Scene(K.LIST_PARTITION_REASSIGNMENTS, (0, 0), reassignments, TIMED),
    "elect": Scene(K.ELECT_LEADERS, (0, 2), elect, TIMED),
    "list-offsets": Scene(K.LIST_OFFSETS, (1, 11), list_offsets, TIMED),
    "epochs": Scene(K.OFFSET_FOR_LEADER_EPOCH, (2, 4), epochs),
    "pages": Scene(K.DESCRIBE_TOPIC_PARTITIONS, (0, 0), pages, frozenset({"partition_index"})),
    "metadata": Scene(K.METADATA, (0, 13), metadata, frozenset({"allow_auto_topic_creation"})),
    "metadata-by-id": Scene(K.METADATA, (12, 13), metadata_by_id, frozenset({"allow_auto_topic_creation"})),
    "fetch-records": Scene(K.FETCH, (4, 18), fetch, WAITS | {"session_id"}),
    "fetch-session": Scene(K.FETCH, (7, 18), fetch_session, WAITS | {"replica_id"}),
    "fetch-ends-session": Scene(K.FETCH, (7, 18), end_session, WAITS | {"replica_id"}),
    "produce-records": Scene(K.PRODUCE, (3, 13), produce, frozenset({"acks"}), once=True),
    "describe-configs": Scene(
        K.DESCRIBE_CONFIGS, (1, 4), described, frozenset({"include_documentation"}), once=True
    ),
    "configure": Scene(K.INCREMENTAL_ALTER_CONFIGS, (0, 1), configure, VALIDATED),
    "configure-group": Scene(K.INCREMENTAL_ALTER_CONFIGS, (0, 1), configure_group, VALIDATED),
    "replace": Scene(K.ALTER_CONFIGS, (0, 2), replace, VALIDATED, once=True),
    "config-resources": Scene(
        K.LIST_CONFIG_RESOURCES, (0, 1), lambda *_: lcr.ListConfigResourcesRequest([TOPIC_RESOURCE])
    ),
    "log-dirs": Scene(K.DESCRIBE_LOG_DIRS, (1, 5), log_dirs),
    "move": Scene(K.ALTER_REPLICA_LOG_DIRS, (1, 2), move, frozenset({"name"})),
    "quorum": Scene(K.DESCRIBE_QUORUM, (0, 2), quorum, frozenset({"topic_name"})),
    "cluster": Scene(K.DESCRIBE_CLUSTER, (0, 2), lambda *_: dc.DescribeClusterRequest()),
    "find": Scene(K.FIND_COORDINATOR, (0, 6), lambda *_: fc.FindCoordinatorRequest("g", 0, ["g"])),
    "acls": Scene(K.CREATE_ACLS, (1, 3), create_acls),
    "quotas": Scene(K.DESCRIBE_CLIENT_QUOTAS, (0, 1), quotas),
    "api-versions": Scene(K.API_VERSIONS, (0, 4), lambda *_: ApiVersionsRequest("name", "1.0")),
    "handshake": Scene(K.SASL_HANDSHAKE, (0, 1), lambda *_: sh.SaslHandshakeRequest("PLAIN")),
    "authenticate": Scene(K.SASL_AUTHENTICATE, (0, 2), lambda *_: sa.SaslAuthenticateRequest(b"\0a\0b")),
    "telemetry": Scene(
        K.GET_TELEMETRY_SUBSCRIPTIONS,
        (0, 0),
        lambda *_: GetTelemetrySubscriptionsRequest(b"client-instance-"),
    ),
    "push-telemetry": Scene(K.PUSH_TELEMETRY, (0, 0), push),
}
