"""AlterConfigs (key 33), v0-2: replace the configs of a resource; configs that are not in the
request get their default.

v2 flexible. Deprecated; clients should use IncrementalAlterConfigs.
"""

from collections.abc import Awaitable

from kbroker.api.alter_each import alter_each, refuse_each
from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.changes.config_change import replace
from kbroker.control.metadata.config_resource import BROKER_LOGGER, NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kbroker.protocol.slices import emptying

API = Api(ApiKey.ALTER_CONFIGS, 0, 2)


@running
async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change each resource; each has its own result."""

    def alter_one(resource: AlterConfigsResource) -> Awaitable[None]:
        return _replace(ctx, resource, request.validate_only)

    return AlterConfigsResponse(
        responses=await alter_each(request.resources, alter_one, AlterConfigsResourceResponse)
    )


def refuse(request: AlterConfigsRequest, error: KafkaError, version: int) -> AlterConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    return AlterConfigsResponse(responses=refuse_each(request.resources, AlterConfigsResourceResponse, error))


async def _replace(ctx: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    kind = resource.resource_type
    if kind not in NAMES or kind == BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    pairs = [(config.name, config.value) for config in resource.configs]
    with emptying(pairs):
        await replace(ctx.broker, kind, resource.resource_name, pairs, validate_only)
