"""FindCoordinator (key 10), v0-6: which node coordinates a group, a transactional id or a share
group.

v1 key type; v2 error text; v3 flexible; v4 many keys (KIP-699); v5 transaction errors (KIP-890); v6
share groups (KIP-932). Creates the internal topic if it is missing. Unlike in Kafka, the first
answer waits for the topic instead of returning COORDINATOR_NOT_AVAILABLE.
"""

import base64
import binascii
from collections.abc import Mapping

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, running
from kbroker.api.row import REPEATED, Api, FastPath
from kbroker.config.setting import INT_MAX
from kbroker.config.whole_numbers import whole_number
from kbroker.control.coordinator.machine import Coordinator
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.find_coordinator import (
    Coordinator as FoundCoordinator,
)
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MANY_KEYS_FROM = 4
SHARE_FROM = 6
API = Api(
    ApiKey.FIND_COORDINATOR,
    0,
    6,
    fast_paths=(
        FastPath("net/local_answers/coordinator_kernel.py", "new groups and transactional ids"),
        REPEATED,
    ),
)
GROUP, TRANSACTION, SHARE = 0, 1, 2
NAMES: Mapping[int, str] = {GROUP: "group", TRANSACTION: "transaction", SHARE: "share"}
NO_NODE = (-1, "", -1)


def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> Answer:
    """This node, once the coordinator's topic exists."""
    if request.key_type not in NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    coordinator = ctx.broker.coordinators.get(request.key_type)
    keys = request.coordinator_keys if ctx.version >= MANY_KEYS_FROM else [request.key]
    if (
        coordinator is None
        or coordinator.is_ready
        or all(_refusal(ctx, request.key_type, key) for key in keys)
    ):
        return cached_answers(ctx, _answer(ctx, request, None))
    return _made_ready(ctx, request, coordinator)


@running
async def _made_ready(
    ctx: RequestContext, request: FindCoordinatorRequest, coordinator: Coordinator
) -> FindCoordinatorResponse:
    try:
        await coordinator.ready()
    except KafkaError:
        return _answer(ctx, request, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return _answer(ctx, request, None)


def _answer(
    ctx: RequestContext, request: FindCoordinatorRequest, unavailable: KafkaError | None
) -> FindCoordinatorResponse:
    if ctx.version >= MANY_KEYS_FROM:
        coordinators = []
        for key in request.coordinator_keys:
            error = _refusal(ctx, request.key_type, key) or unavailable
            node = NO_NODE if error else _node(ctx)
            coordinators.append(FoundCoordinator(key, *node, error.code if error else ErrorCode.NONE, ""))
        return FindCoordinatorResponse(coordinators=coordinators)
    if error := _refusal(ctx, request.key_type, request.key) or unavailable:
        raise error
    node_id, host, port = _node(ctx)
    return FindCoordinatorResponse(error_message="NONE", node_id=node_id, host=host, port=port)


def refuse(request: FindCoordinatorRequest, error: KafkaError, version: int) -> FindCoordinatorResponse:
    """The request failed as a whole."""
    node_id, host, port = NO_NODE
    if version >= MANY_KEYS_FROM:
        coordinators = [
            FoundCoordinator(key, *NO_NODE, error.code, error.message) for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=coordinators)
    return FindCoordinatorResponse(
        error_code=error.code, error_message=error.message, node_id=node_id, host=host, port=port
    )


def _node(ctx: RequestContext) -> tuple[int, str, int]:
    return ctx.nodes()[0]


def _refusal(ctx: RequestContext, key_type: int, key: str) -> KafkaError | None:
    if key_type == SHARE and (ctx.version < SHARE_FROM or not is_share_key(key)):
        return KafkaError(ErrorCode.INVALID_REQUEST)
    if key_type not in ctx.broker.coordinators:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"There is no {NAMES[key_type]} coordinator")
    return None


def is_share_key(key: str) -> bool:
    """Whether the key has the form "group:topic id:partition" of share coordinators
    (SharePartitionKey)."""
    parts = key.split(":")
    if len(parts) < 3 or not parts[0] or whole_number(parts[-1], INT_MAX) is None:
        return False
    try:
        return len(base64.urlsafe_b64decode(parts[-2] + "==")) == 16
    except (binascii.Error, ValueError):
        return False
