"""StreamsGroupDescribe (key 89), v0: topology, members and tasks of streams groups (KIP-1071)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.modern_group_describe import describe_each, refuse_each
from kbroker.api.row import Api
from kbroker.control.groups.shard import GroupShard
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

API = Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0)


def handle(ctx: RequestContext, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    """One description per group."""
    check_protocol(ctx.broker, "streams")
    groups = describe_each(ctx, request, DescribedGroup, GroupShard.describe_streams_group)
    return StreamsGroupDescribeResponse(groups=groups)


def refuse(
    request: StreamsGroupDescribeRequest, error: KafkaError, version: int
) -> StreamsGroupDescribeResponse:
    """The request failed as a whole: every group carries the error."""
    return StreamsGroupDescribeResponse(groups=refuse_each(request, DescribedGroup, error))
