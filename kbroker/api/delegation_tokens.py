"""Why no delegation token can be had: kbroker has none, like an Apache Kafka without a secret key
for them (KIP-48)."""

from kbroker.api.context import RequestContext
from kbroker.protocol.errors import ErrorCode


def refusal(ctx: RequestContext) -> ErrorCode:
    """The error of a token request: it must come over an authenticated connection to be considered
    at all."""
    if not ctx.endpoint.protocol.sasl:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
