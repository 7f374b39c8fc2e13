"""ConsumerGroupHeartbeat (key 68), v0-1: join, take part in and leave a consumer group (KIP-848).

v1 the client makes its member id (KIP-1082), regular expressions. Offered with the feature
group.version 1.
"""

from kbroker.api.context import RequestContext
from kbroker.api.group_caller import caller
from kbroker.api.group_protocol import check_protocol, check_size
from kbroker.api.later import Answer
from kbroker.api.row import COMMIT_CACHE, Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.protocol.slices import has_yielded

API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, fast_paths=(COMMIT_CACHE,))


def handle(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer:
    """Returns the member's epoch and, if it has changed, its assignment."""
    check_protocol(ctx.broker, "consumer")
    check_size(ctx)
    service = ctx.services.groups
    who = caller(ctx)
    response: Answer = service.ask(
        request.group_id,
        lambda now_ms: service.shard.consumer_heartbeat(who, request, now_ms),
        by_records=True,
    )
    if isinstance(response, ConsumerGroupHeartbeatResponse) and not has_yielded():
        # nothing else of the group is pending, and nothing has changed meanwhile
        service.commit_cache.cache_consumer_heartbeat(ctx.client, request, response)
    return response


def refuse(
    request: ConsumerGroupHeartbeatRequest, error: KafkaError, version: int
) -> ConsumerGroupHeartbeatResponse:
    """The request failed as a whole."""
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.own_words)
