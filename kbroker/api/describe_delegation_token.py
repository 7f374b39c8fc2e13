"""DescribeDelegationToken (key 41), v1-3: delegation tokens of owners (KIP-48).

v2 flexible; v3 who asked for a token (KIP-373). Tokens are not enabled: every request is refused,
as by an Apache Kafka without a secret key for them.
"""

from kbroker.api.context import RequestContext
from kbroker.api.delegation_tokens import refusal
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3)


def handle(ctx: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Why there is none."""
    return DescribeDelegationTokenResponse(refusal(ctx))


def refuse(
    request: DescribeDelegationTokenRequest, error: KafkaError, version: int
) -> DescribeDelegationTokenResponse:
    """The request failed as a whole."""
    return DescribeDelegationTokenResponse(error.code)
