"""ExpireDelegationToken (key 40), v1-2: set an earlier expiry of a delegation token (KIP-48).

v2 flexible. The token's owner and its renewers may; a negative period ends it at once. Connections
that have logged in by it stay open.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import NO_TIME, may_ask
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.changes.token_change import expire_token
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2)


@running
async def handle(ctx: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Set the expiry; returns its timestamp."""
    if not may_ask(ctx):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    hmac = bytes(request.hmac)
    expiry_ms = await expire_token(ctx.broker, ctx.client.principal, hmac, request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(ErrorCode.NONE, expiry_ms)


def refuse(
    request: ExpireDelegationTokenRequest, error: KafkaError, version: int
) -> ExpireDelegationTokenResponse:
    """The request failed as a whole."""
    return ExpireDelegationTokenResponse(error.code)
