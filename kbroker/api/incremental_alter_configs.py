"""IncrementalAlterConfigs (key 44), v0-1: set, delete, append to or subtract from single configs
(KIP-339).

v1 flexible. Dynamic settings take effect before the answer is sent. Also changes levels of loggers
(KIP-412): those of the control process, until it restarts.
"""

from collections.abc import Awaitable

from kbroker.api.alter_each import alter_each, refuse_each
from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.config.alter import Alteration, AlterError, checked
from kbroker.config.setting import java_int
from kbroker.control.changes import loggers
from kbroker.control.changes.config_change import alter
from kbroker.control.metadata.config_resource import BROKER_LOGGER, NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kbroker.protocol.slices import emptying, paced

API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)


@running
async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource; each has its own result."""

    def alter_one(resource: AlterConfigsResource) -> Awaitable[None]:
        return _alter(ctx, resource, request.validate_only)

    return IncrementalAlterConfigsResponse(
        responses=await alter_each(request.resources, alter_one, AlterConfigsResourceResponse)
    )


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError, version: int
) -> IncrementalAlterConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    return IncrementalAlterConfigsResponse(
        responses=refuse_each(request.resources, AlterConfigsResourceResponse, error)
    )


async def _alter(ctx: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    kind = resource.resource_type
    if kind not in NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    alterations = [
        Alteration(config.name, config.config_operation, config.value) for config in resource.configs
    ]
    with emptying(alterations):
        if kind == BROKER_LOGGER:
            _alter_loggers(ctx, resource.resource_name, alterations, validate_only)
        else:
            await alter(ctx.broker, kind, resource.resource_name, alterations, validate_only)


def _alter_loggers(
    ctx: RequestContext, name: str, alterations: list[Alteration], validate_only: bool
) -> None:
    try:
        every = checked(alterations)  # no logger is named twice
    except AlterError as error:
        raise KafkaError(ErrorCode(error.code), error.message) from None
    _check_node(ctx.broker.node_id, name)
    known = loggers.levels()
    for alteration in paced(every):
        loggers.check(known, alteration.name, alteration.op, alteration.value)
    if not validate_only:
        for alteration in paced(every):
            loggers.apply(alteration.name, alteration.value if alteration.op == loggers.SET else None)


def _check_node(node_id: int, name: str) -> None:
    """Check that the name is this broker's node id. Raises KafkaError with Kafka's texts."""
    try:
        number = java_int(name)
    except ValueError:
        why = f"Node id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    if number != node_id:
        why = f"Unexpected node id. Expected {node_id}, but received {number}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
