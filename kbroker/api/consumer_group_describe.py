"""ConsumerGroupDescribe (key 69), v0-1: members, epochs and assignments of consumer groups
(KIP-848). v1 type."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.modern_group_describe import describe_each, refuse_each
from kbroker.api.row import Api
from kbroker.control.groups.shard import GroupShard
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1)


def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """One description per group."""
    check_protocol(ctx.broker, "consumer")
    groups = describe_each(ctx, request, DescribedGroup, GroupShard.describe_consumer_group)
    return ConsumerGroupDescribeResponse(groups=groups)


def refuse(
    request: ConsumerGroupDescribeRequest, error: KafkaError, version: int
) -> ConsumerGroupDescribeResponse:
    """The request failed as a whole: every group carries the error."""
    return ConsumerGroupDescribeResponse(groups=refuse_each(request, DescribedGroup, error))
