"""JoinGroup (key 11), v0-9: join a classic group, or its rebalance.

v1 rebalance timeout (v0 uses the session timeout); v2 throttle time; v3 none; v4 MEMBER_ID_REQUIRED
(KIP-394); v5 group instance id (KIP-345); v6 flexible; v7 protocol type in the answer; v8 reason
(KIP-800); v9 skip_assignment (KIP-814). The answer waits for the end of the group's join phase.
"""

from functools import partial

from kbroker.api.context import RequestContext
from kbroker.api.group_caller import caller
from kbroker.api.group_protocol import check_join_size
from kbroker.api.later import Answer, then
from kbroker.api.row import Api
from kbroker.control.groups.member_answers import as_written
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

API = Api(ApiKey.JOIN_GROUP, 0, 9)


def handle(ctx: RequestContext, request: JoinGroupRequest) -> Answer:
    """The group's answer, at the end of the join phase."""
    check_join_size(ctx, request)
    if ctx.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    service = ctx.services.groups
    who = caller(ctx)
    answer = service.ask(request.group_id, lambda now_ms: service.shard.join(who, request, now_ms))
    return then(answer, partial(as_written, ctx.version))


def refuse(request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    """The request failed as a whole. As in Kafka, the answer does not repeat the member id."""
    return as_written(version, JoinGroupResponse(error_code=error.code))
