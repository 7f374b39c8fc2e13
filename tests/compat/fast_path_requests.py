"""Requests that a fast path of compiled code may answer, made at random for any version of their
API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.schema import Struct
from tests.compat.group_requests import commit_request, fetch_request

PARTITIONS = 3
TRANSACTIONAL_ID = "known"


@dataclass
class Known:
    """What the broker under test has. topics: name to id; each has PARTITIONS with records."""

    topics: Mapping[str, bytes]
    group: str
    members: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Of "classic" and "consumer" groups: the group's member id and its generation or epoch."""

    def some(self, random: Random) -> list[str]:
        """Names of topics, in any order."""
        return random.sample(sorted(self.topics), random.randrange(1, len(self.topics) + 1))


def _api_versions(random: Random, _: Known, version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(random.choice(("java", "librdkafka")), random.choice(("1", "2.16.1")))


def _metadata(random: Random, known: Known, version: int) -> MetadataRequest:
    names = known.some(random)
    topics = [MetadataRequestTopic(name=name) for name in names]
    if version >= 12 and random.random() < 0.5:
        topics = [MetadataRequestTopic(known.topics[name], None) for name in names]
    everything = version >= 1 and random.random() < 0.2
    cluster = 8 <= version <= 10 and random.random() < 0.5
    return MetadataRequest(None if everything else topics, False, cluster, random.random() < 0.5)


def _describe_topic_partitions(random: Random, known: Known, version: int) -> DescribeTopicPartitionsRequest:
    topics = [TopicRequest(name) for name in known.some(random)]
    return DescribeTopicPartitionsRequest(topics, random.choice((4, 2000)))


def _list_offsets(random: Random, known: Known, version: int) -> ListOffsetsRequest:
    def partition(index: int) -> ListOffsetsPartition:
        when = random.choice((-1, -2, 0, *((-3,) if version >= 7 else ()), *((-4,) if version >= 8 else ())))
        return ListOffsetsPartition(index, -1, when)

    topics = [
        ListOffsetsTopic(name, [partition(at) for at in random.sample(range(PARTITIONS), 2)])
        for name in known.some(random)
    ]
    return ListOffsetsRequest(-1, random.randrange(2), topics)


def _fetch(random: Random, known: Known, version: int) -> FetchRequest:
    def partition(index: int) -> FetchPartition:
        offset = random.randrange(4)
        return FetchPartition(index, -1, offset, partition_max_bytes=random.choice((1, 100, 1 << 20)))

    topics = [
        FetchTopic(name, known.topics[name], [partition(at) for at in random.sample(range(PARTITIONS), 2)])
        for name in known.some(random)
    ]
    most = random.choice((1, 200, 1 << 20))
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=most, isolation_level=random.randrange(2), topics=topics
    )


def _find_coordinator(random: Random, known: Known, version: int) -> FindCoordinatorRequest:
    kind = random.randrange(2) if version >= 1 else 0
    keys = [f"key-{random.randrange(9)}" for _ in range(random.randrange(1, 4))]
    return FindCoordinatorRequest(keys[0], kind, keys)


def _offset_fetch(random: Random, known: Known, version: int) -> OffsetFetchRequest:
    return fetch_request(known.group, version, {name: [1, 0] for name in known.some(random)})


def _offset_fetch_by_id(random: Random, known: Known, version: int) -> OffsetFetchRequest:
    request = _offset_fetch(random, known, version)
    for group in request.groups:
        for topic in group.topics or ():
            topic.topic_id = known.topics[topic.name]
    return request


def _offset_commit(random: Random, known: Known, version: int) -> OffsetCommitRequest:
    member, generation = known.members["classic"]
    name = random.choice(sorted(known.topics))
    return commit_request(
        "classic", name, random.randrange(99), member, generation, topic_id=known.topics[name]
    )


def _heartbeat(random: Random, known: Known, version: int) -> HeartbeatRequest:
    member, generation = known.members["classic"]
    return HeartbeatRequest("classic", generation, member)


def _consumer_group_heartbeat(random: Random, known: Known, version: int) -> ConsumerGroupHeartbeatRequest:
    member, epoch = known.members["consumer"]
    return ConsumerGroupHeartbeatRequest("consumer", member, epoch)


def _describe_configs(random: Random, known: Known, version: int) -> DescribeConfigsRequest:
    keys = random.choice((None, ["retention.ms", "cleanup.policy"]))
    resources = [DescribeConfigsResource(2, name, keys) for name in known.some(random)]
    return DescribeConfigsRequest(resources, random.random() < 0.5, random.random() < 0.5)


def _describe_cluster(random: Random, known: Known, version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(random.random() < 0.5, 1, version >= 2 and random.random() < 0.5)


REQUESTS: Mapping[ApiKey, Callable[[Random, Known, int], Struct]] = {
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch_by_id,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.INIT_PRODUCER_ID: lambda *_: InitProducerIdRequest(None, 1000),
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda random, *_: DescribeClientQuotasRequest(
        strict=random.random() < 0.5
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda *_: DescribeUserScramCredentialsRequest(None),
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: lambda random, known, _: DescribeProducersRequest(
        [ProducersTopic(name, random.sample(range(PARTITIONS), 2)) for name in known.some(random)]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda *_: DescribeTransactionsRequest([TRANSACTIONAL_ID]),
    ApiKey.LIST_TRANSACTIONS: lambda random, *_: ListTransactionsRequest(random.choice(([], ["Empty"]))),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.LIST_CONFIG_RESOURCES: lambda random, known, version: ListConfigResourcesRequest(
        random.choice(([], [2])) if version else []
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
}
"""By the API; Produce has no second path: Python only refuses requests that are too large."""
