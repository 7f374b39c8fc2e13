"""ShareGroupDescribe (key 77), v1: members and assignments of share groups (KIP-932)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.modern_group_describe import describe_each, refuse_each
from kbroker.api.row import Api
from kbroker.control.groups.shard import GroupShard
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

API = Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1)


def handle(ctx: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """One description per group."""
    check_protocol(ctx.broker, "share")
    groups = describe_each(ctx, request, DescribedGroup, GroupShard.describe_share_group)
    return ShareGroupDescribeResponse(groups=groups)


def refuse(request: ShareGroupDescribeRequest, error: KafkaError, version: int) -> ShareGroupDescribeResponse:
    """The request failed as a whole: every group carries the error."""
    return ShareGroupDescribeResponse(groups=refuse_each(request, DescribedGroup, error))
