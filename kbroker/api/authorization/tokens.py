"""Guards of the APIs about delegation tokens: a client may see its own tokens; tokens of others
need a permission (KIP-48, KIP-373)."""

from typing import Any

from kbroker.api.authorization.guard import Serve, may, visible
from kbroker.api.context import RequestContext
from kbroker.api.create_delegation_token import not_requested, owner_of
from kbroker.api.delegation_tokens import may_ask
from kbroker.config import acls
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kbroker.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
)


def guard_create_token(ctx: RequestContext, request: CreateDelegationTokenRequest, serve: Serve) -> Any:
    """CREATE_TOKENS on the token's owner, if it is not the sender."""
    owner = owner_of(ctx, request)
    own = owner == ctx.client.principal
    if may_ask(ctx) and not own and not may(ctx, acls.CREATE_TOKENS, acls.USER, owner):
        return not_requested(ctx, request, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return serve(ctx, request)


def guard_describe_tokens(ctx: RequestContext, request: DescribeDelegationTokenRequest, serve: Serve) -> Any:
    """DESCRIBE on each token, or DESCRIBE_TOKENS on its owner; others' tokens are left out."""
    response = serve(ctx, request)
    response.tokens = visible(response.tokens, lambda token: _may_see(ctx, token))
    return response


def _may_see(ctx: RequestContext, token: DescribedDelegationToken) -> bool:
    known = ctx.broker.tokens.get(token.token_id)
    if known is None:
        return False
    return (
        known.is_shown_to(ctx.client.principal)
        or may(ctx, acls.DESCRIBE, acls.DELEGATION_TOKEN, token.token_id)
        or may(ctx, acls.DESCRIBE_TOKENS, acls.USER, known.owner)
    )
