"""DescribeGroups (key 15), v0-6: members and assignment of classic groups.

v1 throttle time; v3 authorized operations (KIP-430); v4 group instance id; v5 flexible; v6
GROUP_ID_NOT_FOUND with a text for unknown groups (KIP-1043), which older versions show as dead.
"""

from kbroker.api.context import RequestContext
from kbroker.api.operations import ON_GROUP
from kbroker.api.row import Api
from kbroker.control.groups.service import each
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

API = Api(ApiKey.DESCRIBE_GROUPS, 0, 6)


def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """One description per group."""
    service = ctx.services.groups

    def describe(group_id: str) -> DescribedGroup:
        group = service.read(group_id).describe(group_id, ctx.version)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ON_GROUP
        return group

    return DescribeGroupsResponse(groups=each(request.groups, describe, _failed))


def refuse(request: DescribeGroupsRequest, error: KafkaError, version: int) -> DescribeGroupsResponse:
    """The request failed as a whole: every group carries the error."""
    return DescribeGroupsResponse(groups=[_failed(group_id, error) for group_id in request.groups])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error.code, group_id=group_id)
