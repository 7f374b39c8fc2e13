"""DeleteGroups (key 42), v0-2: delete empty groups of any type with their offsets. v1 throttle
time; v2 flexible."""

from functools import partial

from kbroker.api.context import RequestContext
from kbroker.api.later import results_of, running
from kbroker.api.row import Api
from kbroker.api.share_offsets import empty_share_group
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kbroker.protocol.slices import distinct

API = Api(ApiKey.DELETE_GROUPS, 0, 2)


@running
async def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group; each has its own result. A group that is named twice is deleted once."""
    service = ctx.services.groups

    async def delete(group_id: str) -> DeletableGroupResult:
        """States of a share group are deleted first, as in Kafka: if that fails, the group is still
        there to be deleted again; and afterwards those that a last fetch has made."""
        result: DeletableGroupResult
        try:
            if not isinstance(service.read(group_id).table.groups.get(group_id), ShareGroup):
                result = await service.run(group_id, lambda _: service.shard.delete(group_id))
                return result
            states = ctx.services.shares.partitions
            async with empty_share_group(service, group_id):
                await states.delete_group(group_id)
                result = await service.run(group_id, lambda _: service.shard.delete(group_id))
                if result.error_code == ErrorCode.NONE:
                    await states.delete_group(group_id)
        except KafkaError as error:
            return _failed(group_id, error)
        return result

    names = distinct(request.groups_names)
    return DeleteGroupsResponse(
        results=await results_of(_refusal(ctx, name) or partial(delete, name) for name in names)
    )


def refuse(request: DeleteGroupsRequest, error: KafkaError, version: int) -> DeleteGroupsResponse:
    """The request failed as a whole: every group carries the error."""
    return DeleteGroupsResponse(results=[_failed(name, error) for name in request.groups_names])


def _refusal(ctx: RequestContext, group_id: str) -> DeletableGroupResult | None:
    """The result of a group that does not exist; it takes no task, because there is no bound to the
    names of such groups. None of others."""
    try:
        if not ctx.services.groups.is_absent(group_id):
            return None
    except KafkaError as error:
        return _failed(group_id, error)
    return DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND)


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code)
