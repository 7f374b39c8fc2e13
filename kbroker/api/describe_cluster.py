"""DescribeCluster (key 60), v0-2: the brokers, without topics (KIP-700).

v1 endpoint type (KIP-919); v2 fenced brokers (KIP-1073). A broker's listener refuses requests for
controllers.
"""

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.operations import NOT_REQUESTED, ON_CLUSTER
from kbroker.api.row import REPEATED, Api
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, fast_paths=(REPEATED,))
BROKERS, CONTROLLERS = 1, 2


def handle(ctx: RequestContext, request: DescribeClusterRequest) -> CachedAnswer | DescribeClusterResponse:
    """The nodes: one for each replica site, or a single one."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    broker = ctx.broker
    return cached_answers(
        ctx,
        DescribeClusterResponse(
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            brokers=[DescribeClusterBroker(*node, broker.rack) for node in ctx.nodes()],
            cluster_authorized_operations=ON_CLUSTER
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED,
        ),
    )


def refuse(request: DescribeClusterRequest, error: KafkaError, version: int) -> DescribeClusterResponse:
    """The request failed as a whole."""
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)
