"""ExpireDelegationToken (key 40), v1-2: end a delegation token (KIP-48).

v2 flexible. Tokens are not enabled: every request is refused, as by an Apache Kafka without a
secret key for them.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import refusal
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2)


def handle(ctx: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Why there is none."""
    return ExpireDelegationTokenResponse(refusal(ctx), -1)


def refuse(
    request: ExpireDelegationTokenRequest, error: KafkaError, version: int
) -> ExpireDelegationTokenResponse:
    """The request failed as a whole."""
    return ExpireDelegationTokenResponse(error.code)
