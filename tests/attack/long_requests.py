"""Requests with hundreds of thousands of entries."""

from collections.abc import Callable

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kbroker.protocol.schema import Struct

COUNT = 300_000


def fetch() -> Struct:
    parts = [FetchPartition(number, partition_max_bytes=1000) for number in range(COUNT)]
    return FetchRequest(
        max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=parts)]
    )


def produce() -> Struct:
    parts = [PartitionProduceData(number, b"x" * 30) for number in range(COUNT)]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=parts)])


def names() -> list[str]:
    return [f"g{number}" for number in range(COUNT)]


def metadata() -> Struct:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names()], False)


def offsets() -> Struct:
    return OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(range(3 * COUNT)))])


def configs() -> Struct:
    return DescribeConfigsRequest([DescribeConfigsResource(2, name, None) for name in names()])


def topics() -> Struct:
    return CreateTopicsRequest([CreatableTopic(name, 1, -1) for name in names()], 30_000, True)


def markers() -> Struct:
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(number, 0, True, [WritableTxnMarkerTopic("none", [0])], 0)
            for number in range(COUNT)
        ]
    )


def marker() -> Struct:
    topics = [WritableTxnMarkerTopic("none", list(range(3 * COUNT)))]
    return WriteTxnMarkersRequest([WritableTxnMarker(5, 0, True, topics, 0)])


REQUESTS: dict[str, tuple[ApiKey, int, Callable[[], Struct]]] = {
    "Metadata": (ApiKey.METADATA, 5, metadata),
    "DescribeGroups": (ApiKey.DESCRIBE_GROUPS, 5, lambda: DescribeGroupsRequest(names())),
    "DeleteGroups": (ApiKey.DELETE_GROUPS, 2, lambda: DeleteGroupsRequest(names())),
    "OffsetFetch": (ApiKey.OFFSET_FETCH, 7, offsets),
    "DescribeConfigs": (ApiKey.DESCRIBE_CONFIGS, 4, configs),
    "CreateTopics": (ApiKey.CREATE_TOPICS, 7, topics),
    "WriteTxnMarkers": (ApiKey.WRITE_TXN_MARKERS, 1, markers),
    "WriteTxnMarkers of one producer": (ApiKey.WRITE_TXN_MARKERS, 1, marker),
    "Fetch": (ApiKey.FETCH, 11, fetch),
    "Produce": (ApiKey.PRODUCE, 8, produce),
}
