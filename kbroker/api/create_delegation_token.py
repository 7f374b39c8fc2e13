"""CreateDelegationToken (key 38), v1-3: create a delegation token, with which others log in as its
owner (KIP-48).

v2 flexible; v3 a token for another user (KIP-373). The token is in force for logins from the answer
on. Its HMAC is the password.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import ANONYMOUS_PRINCIPAL, NO_TIME, may_ask
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.config.principals import USER, parts_of, user_principal
from kbroker.control.changes.token_change import create_token
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3)


@running
async def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Create a token; returns it or an error."""
    if not may_ask(ctx):
        return not_requested(ctx, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if ctx.broker.tokens.enabled and any(one.principal_type != USER for one in paced(request.renewers)):
        return not_requested(ctx, request, ErrorCode.INVALID_PRINCIPAL_TYPE)
    broker, owner, requester = ctx.broker, owner_of(ctx, request), ctx.client.principal
    answer = CreateDelegationTokenResponse(ErrorCode.NONE, *parts_of(owner), *parts_of(requester))
    try:
        renewers = tuple(user_principal(one.principal_name) for one in paced(request.renewers))
        token = await create_token(broker, owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    answer.issue_timestamp_ms = token.issued_ms
    answer.expiry_timestamp_ms = token.expiry_ms
    answer.max_timestamp_ms = token.max_ms
    answer.token_id = token.token_id
    answer.hmac = broker.tokens.hmac_of(token.token_id)
    return answer


def refuse(
    request: CreateDelegationTokenRequest, error: KafkaError, version: int
) -> CreateDelegationTokenResponse:
    """The request failed as a whole."""
    no_owner = parts_of(ANONYMOUS_PRINCIPAL)
    return CreateDelegationTokenResponse(error.code, *no_owner, *no_owner, NO_TIME, NO_TIME, NO_TIME)


def owner_of(ctx: RequestContext, request: CreateDelegationTokenRequest) -> str:
    """The owner of the new token: the client, if the request names no owner. Raises KafkaError."""
    if not request.owner_principal_name:
        return ctx.client.principal
    if request.owner_principal_type is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "principalType cannot be null")
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def not_requested(
    ctx: RequestContext, request: CreateDelegationTokenRequest, error: ErrorCode
) -> CreateDelegationTokenResponse:
    """Refuse a request before a token is created. Raises KafkaError."""
    owner, requester = parts_of(owner_of(ctx, request)), parts_of(ctx.client.principal)
    return CreateDelegationTokenResponse(error, *owner, *requester, NO_TIME, NO_TIME, NO_TIME)
