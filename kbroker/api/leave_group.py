"""LeaveGroup (key 13), v0-5: members leave a classic group, or are removed by an administrator.

v1 throttle time; v2 none; v3 many members, by instance id too (KIP-345); v4 flexible; v5 reason
(KIP-800).
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, then
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

API = Api(ApiKey.LEAVE_GROUP, 0, 5)
BATCHED_FROM = 3


def handle(ctx: RequestContext, request: LeaveGroupRequest) -> Answer:
    """A code per member; below v3 the one member's code is the answer's."""
    batched = ctx.version >= BATCHED_FROM
    if not batched:
        request.members = [MemberIdentity(request.member_id)]
    service = ctx.services.groups
    answer = service.ask(request.group_id, lambda now_ms: service.shard.leave(request, now_ms))
    return answer if batched else then(answer, _of_one)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    if response.error_code == ErrorCode.NONE and response.members:
        response.error_code = response.members[0].error_code
    response.members = []
    return response


def refuse(request: LeaveGroupRequest, error: KafkaError, version: int) -> LeaveGroupResponse:
    """The request failed as a whole."""
    return LeaveGroupResponse(error_code=error.code)
