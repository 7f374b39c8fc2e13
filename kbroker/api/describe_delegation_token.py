"""DescribeDelegationToken (key 41), v1-3: delegation tokens of owners, with their HMACs (KIP-48).

v2 flexible; v3 the requester of a token (KIP-373). A null list of owners means all, an empty one
none. With an authorizer a client sees the tokens that it owns, may renew, has requested or may
describe.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import may_ask
from kbroker.api.row import Api
from kbroker.config.principals import parts_of
from kbroker.control.metadata.delegation_tokens import DelegationToken, DelegationTokens
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3)


def handle(ctx: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """The tokens of the owners."""
    tokens = ctx.broker.tokens
    if not may_ask(ctx):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.enabled:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in paced(request.owners)}
    found = [
        _described(tokens, token) for token in paced(list(tokens)) if owners is None or token.owner in owners
    ]
    return DescribeDelegationTokenResponse(ErrorCode.NONE, found)


def refuse(
    request: DescribeDelegationTokenRequest, error: KafkaError, version: int
) -> DescribeDelegationTokenResponse:
    """The request failed as a whole."""
    return DescribeDelegationTokenResponse(error.code)


def _described(tokens: DelegationTokens, token: DelegationToken) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *parts_of(token.owner),
        *parts_of(token.requester),
        token.issued_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        tokens.hmac_of(token.token_id),
        [DescribedDelegationTokenRenewer(*parts_of(renewer)) for renewer in token.renewers],
    )
