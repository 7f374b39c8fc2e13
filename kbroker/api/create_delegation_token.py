"""CreateDelegationToken (key 38), v1-3: ask for a delegation token (KIP-48).

v2 flexible; v3 a token for somebody else (KIP-373). Tokens are not enabled: every request is
refused, as by an Apache Kafka without a secret key for them.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import refusal
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3)


def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Why there is none."""
    owner = (request.owner_principal_type, request.owner_principal_name)
    requester = ("User", ctx.client.principal.partition(":")[2])
    if not owner[1]:
        owner = requester
    return CreateDelegationTokenResponse(
        refusal(ctx), owner[0] or "", owner[1] or "", *requester, -1, -1, -1, "", b""
    )


def refuse(
    request: CreateDelegationTokenRequest, error: KafkaError, version: int
) -> CreateDelegationTokenResponse:
    """The request failed as a whole."""
    return CreateDelegationTokenResponse(error.code)
