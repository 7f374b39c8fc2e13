"""AlterConfigs (key 33), v0-2: the configs of a resource become those of the request, all others go back to default.

v2 flexible. Old form; clients should use IncrementalAlterConfigs.
"""

from collections import Counter

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.config_change import replace
from kbroker.control.config_resource import BROKER_LOGGER, NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API = Api(ApiKey.ALTER_CONFIGS, 0, 2)


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change each resource; each has its own result."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = []
    for resource in request.resources:
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                why = "Each resource must appear at most once."
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)
            await _replace(ctx, resource, request.validate_only)
            error = None
        except KafkaError as refused:
            error = refused
        answers.append(_response(resource, error))
    return AlterConfigsResponse(responses=answers)


def refuse(request: AlterConfigsRequest, error: KafkaError, version: int) -> AlterConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    return AlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


async def _replace(ctx: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    kind = resource.resource_type
    if kind not in NAMES or kind == BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    pairs = [(config.name, config.value) for config in resource.configs]
    await replace(ctx.broker, kind, resource.resource_name, pairs, validate_only)
