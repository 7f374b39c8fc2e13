"""StreamsGroupDescribe (key 89), v0: topology, members and tasks of streams groups (KIP-1071)."""

from kbroker.api.context import RequestContext
from kbroker.api.operations import ON_GROUP
from kbroker.api.row import Api
from kbroker.control.groups.service import GroupService, each
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

API = Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0)


def handle(ctx: RequestContext, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    """One description per group."""
    service = GroupService.of(ctx.broker)

    def describe(group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(ErrorCode.INVALID_GROUP_ID)
        group = service.read(group_id).describe_streams_group(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ON_GROUP
        return group

    return StreamsGroupDescribeResponse(groups=each(request.group_ids, describe, _failed))


def refuse(
    request: StreamsGroupDescribeRequest, error: KafkaError, version: int
) -> StreamsGroupDescribeResponse:
    """The request failed as a whole: every group carries the error."""
    return StreamsGroupDescribeResponse(groups=[_failed(group_id, error) for group_id in request.group_ids])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error.code, group_id=group_id)
