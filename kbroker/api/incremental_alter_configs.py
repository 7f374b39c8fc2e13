"""IncrementalAlterConfigs (key 44), v0-1: set, delete, append to or subtract from single configs (KIP-339).

v1 flexible. What is dynamic takes effect before the answer leaves. Levels of loggers are changed here too
(KIP-412): those of the control process, until it restarts.
"""

from collections import Counter

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.config.alter import Alteration
from kbroker.control import loggers
from kbroker.control.config_change import alter
from kbroker.control.config_resource import BROKER_LOGGER, NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)


async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource; each has its own result."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = []
    for resource in request.resources:
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                why = "Each resource must appear at most once."
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)
            await _alter(ctx, resource, request.validate_only)
            error = None
        except KafkaError as refused:
            error = refused
        answers.append(_response(resource, error))
    return IncrementalAlterConfigsResponse(responses=answers)


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError, version: int
) -> IncrementalAlterConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    responses = [_response(resource, error) for resource in request.resources]
    return IncrementalAlterConfigsResponse(responses=responses)


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


async def _alter(ctx: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    kind = resource.resource_type
    if kind not in NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    alterations = [
        Alteration(config.name, config.config_operation, config.value) for config in resource.configs
    ]
    if kind == BROKER_LOGGER:
        _alter_loggers(ctx, resource.resource_name, alterations, validate_only)
    else:
        await alter(ctx.broker, kind, resource.resource_name, alterations, validate_only)


def _alter_loggers(
    ctx: RequestContext, name: str, alterations: list[Alteration], validate_only: bool
) -> None:
    if name != str(ctx.broker.node_id):
        why = f"Unexpected broker id, expected {ctx.broker.node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    for alteration in alterations:
        loggers.check(alteration.name, alteration.op, alteration.value)
    if not validate_only:
        for alteration in alterations:
            loggers.apply(alteration.name, alteration.value if alteration.op == loggers.SET else None)
