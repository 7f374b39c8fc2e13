"""Shared by the requests about delegation tokens (KIP-48): the clients that may send them, and
changes of an expiry."""

from collections.abc import Awaitable, Callable

from kbroker.api.context import RequestContext
from kbroker.config.listeners import SecurityProtocol
from kbroker.config.principals import ANONYMOUS, user_principal
from kbroker.control.broker import Broker
from kbroker.protocol.errors import ErrorCode

ANONYMOUS_PRINCIPAL = user_principal(ANONYMOUS)
NO_TIME = -1
"""Time in the answer to a refused request."""


def may_ask(ctx: RequestContext) -> bool:
    """Whether the client is authenticated by SASL or a certificate, and not by a token."""
    if ctx.client.token_authenticated:
        return False
    protocol = ctx.endpoint.protocol
    return protocol.sasl or (protocol is SecurityProtocol.SSL and ctx.client.principal != ANONYMOUS_PRINCIPAL)


async def change_expiry(
    ctx: RequestContext,
    change: Callable[[Broker, str, bytes, int], Awaitable[int]],
    hmac: bytes,
    period_ms: int,
) -> tuple[ErrorCode, int]:
    """Renew or expire the client's token; the error code and the new expiry. Raises KafkaError."""
    if not may_ask(ctx):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    return ErrorCode.NONE, await change(ctx.broker, ctx.client.principal, bytes(hmac), period_ms)
