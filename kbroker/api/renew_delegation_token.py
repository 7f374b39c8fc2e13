"""RenewDelegationToken (key 39), v1-2: extend the expiry of a delegation token (KIP-48).

v2 flexible. Allowed to the token's owner and its renewers.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import change_expiry
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.changes.token_change import renew_token
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2)


@running
async def handle(ctx: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Renew the token; returns its new expiry."""
    result = await change_expiry(ctx, renew_token, request.hmac, request.renew_period_ms)
    return RenewDelegationTokenResponse(*result)


def refuse(
    request: RenewDelegationTokenRequest, error: KafkaError, version: int
) -> RenewDelegationTokenResponse:
    """The request failed as a whole."""
    return RenewDelegationTokenResponse(error.code)
