"""DescribeQuorum (key 55), v0-2: the voters of the metadata quorum (KIP-595). One node is its own
quorum.

v1 fetch timestamps (KIP-836); v2 nodes, directory ids, error texts (KIP-853). The "log end offset"
is the version of the topic catalogue, because there is no metadata log.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2)


def handle(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """One voter, no observers; all partitions except __cluster_metadata-0 are unknown."""
    topics = [
        ResponseTopicData(
            topic.topic_name, [_partition(ctx, topic.topic_name, p.partition_index) for p in topic.partitions]
        )
        for topic in request.topics
    ]
    nodes = [
        Node(
            ctx.broker.node_id,
            [Listener(e.listener, e.host, e.port) for e in ctx.broker.nodes.endpoints.values()],
        )
    ]
    known = any(partition.error_code == 0 for topic in paced(topics) for partition in paced(topic.partitions))
    return DescribeQuorumResponse(topics=topics, nodes=nodes if known else [])


def refuse(request: DescribeQuorumRequest, error: KafkaError, version: int) -> DescribeQuorumResponse:
    """The request failed as a whole."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)


def _partition(ctx: RequestContext, name: str, index: int) -> ResponsePartitionData:
    if name != CLUSTER_METADATA or index != 0:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ResponsePartitionData(index, error.code, error.message)
    now_ms, end = ctx.broker.now_ms(), ctx.broker.version
    voter = ReplicaState(
        ctx.broker.node_id, log_end_offset=end, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    return ResponsePartitionData(index, 0, "", ctx.broker.node_id, 1, end, [voter], [])
