"""ExpireDelegationToken (key 40), v1-2: set an earlier expiry of a delegation token (KIP-48).

v2 flexible. The token's owner and its renewers may; a negative period ends it at once. Connections
that have logged in by it stay open.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import change_expiry
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.changes.token_change import expire_token
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2)


@running
async def handle(ctx: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Set the expiry; returns its timestamp."""
    result = await change_expiry(ctx, expire_token, request.hmac, request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(*result)


def refuse(
    request: ExpireDelegationTokenRequest, error: KafkaError, version: int
) -> ExpireDelegationTokenResponse:
    """The request failed as a whole."""
    return ExpireDelegationTokenResponse(error.code)
