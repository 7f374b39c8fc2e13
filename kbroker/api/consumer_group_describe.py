"""ConsumerGroupDescribe (key 69), v0-1: members, epochs and assignments of consumer groups (KIP-848). v1 type."""

from kbroker.api.context import RequestContext
from kbroker.api.operations import ON_GROUP
from kbroker.api.row import Api
from kbroker.control.groups.service import GroupService, each
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1)


def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """One description per group."""
    service = GroupService.of(ctx.broker)

    def describe(group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(ErrorCode.INVALID_GROUP_ID)
        group = service.read(group_id).describe_consumer_group(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ON_GROUP
        return group

    return ConsumerGroupDescribeResponse(groups=each(request.group_ids, describe, _failed))


def refuse(
    request: ConsumerGroupDescribeRequest, error: KafkaError, version: int
) -> ConsumerGroupDescribeResponse:
    """The request failed as a whole: every group carries the error."""
    return ConsumerGroupDescribeResponse(groups=[_failed(group_id, error) for group_id in request.group_ids])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error.code, group_id=group_id)
