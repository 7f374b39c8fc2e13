"""SyncGroup (key 14), v0-5: hand in (leader) and get the assignment of a generation.

v1 throttle time; v2 none; v3 group instance id (KIP-345); v4 flexible; v5 protocol type and name,
mandatory in the request (KIP-559). The answer waits until the leader's assignment is stored.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

API = Api(ApiKey.SYNC_GROUP, 0, 5)
PROTOCOL_MANDATORY_FROM = 5


def handle(ctx: RequestContext, request: SyncGroupRequest) -> Answer:
    """The member's assignment, when the leader's request is stored."""
    if not names_protocol(request, ctx.version):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    service = ctx.services.groups
    return service.ask(request.group_id, lambda now_ms: service.shard.sync(request, now_ms))


def names_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether it names its protocol, where its version must."""
    return version < PROTOCOL_MANDATORY_FROM or None not in (request.protocol_type, request.protocol_name)


def refuse(request: SyncGroupRequest, error: KafkaError, version: int) -> SyncGroupResponse:
    """The request failed as a whole."""
    return SyncGroupResponse(error_code=error.code)
