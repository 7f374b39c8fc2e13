"""Heartbeat (key 12), v0-4: a member of a classic group is alive; the answer reports a rebalance.

v1 throttle time; v2 none; v3 group instance id (KIP-345); v4 flexible.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer
from kbroker.api.row import COMMIT_CACHE, Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API = Api(ApiKey.HEARTBEAT, 0, 4, fast_paths=(COMMIT_CACHE,))


def handle(ctx: RequestContext, request: HeartbeatRequest) -> Answer:
    """While the group is loading, every heartbeat is accepted, as in Kafka."""
    service = ctx.services.groups
    try:
        response: Answer = service.ask_concurrently(
            request.group_id, lambda _: service.shard.heartbeat(request)
        )
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
    if isinstance(response, HeartbeatResponse):  # nothing else of the group is pending
        service.commit_cache.cache_heartbeat(ctx.client, request, response)
    return response


def refuse(request: HeartbeatRequest, error: KafkaError, version: int) -> HeartbeatResponse:
    """The request failed as a whole."""
    return HeartbeatResponse(error_code=error.code)
