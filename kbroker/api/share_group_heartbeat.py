"""ShareGroupHeartbeat (key 76), v1: join, take part in and leave a share group (KIP-932)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_caller import caller
from kbroker.api.group_protocol import check_protocol, check_size
from kbroker.api.later import Answer
from kbroker.api.row import Api
from kbroker.api.share_request import check_member_id
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1)


def handle(ctx: RequestContext, request: ShareGroupHeartbeatRequest) -> Answer:
    """Returns the member's epoch and, if it has changed, its assignment."""
    check_protocol(ctx.broker, "share")
    check_member_id(request.member_id)
    check_size(ctx)
    service = ctx.services.groups
    who = caller(ctx)
    return service.ask(request.group_id, lambda now_ms: service.shard.share_heartbeat(who, request, now_ms))


def refuse(
    request: ShareGroupHeartbeatRequest, error: KafkaError, version: int
) -> ShareGroupHeartbeatResponse:
    """The request failed as a whole."""
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.own_words)
