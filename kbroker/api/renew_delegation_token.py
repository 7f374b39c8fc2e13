"""RenewDelegationToken (key 39), v1-2: give a delegation token more time (KIP-48).

v2 flexible. Tokens are not enabled: every request is refused, as by an Apache Kafka without a
secret key for them.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import refusal
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2)


def handle(ctx: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Why there is none."""
    return RenewDelegationTokenResponse(refusal(ctx), -1)


def refuse(
    request: RenewDelegationTokenRequest, error: KafkaError, version: int
) -> RenewDelegationTokenResponse:
    """The request failed as a whole."""
    return RenewDelegationTokenResponse(error.code)
