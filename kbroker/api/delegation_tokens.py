"""Clients that may send requests about delegation tokens (KIP-48)."""

from kbroker.api.context import RequestContext
from kbroker.config.listeners import SecurityProtocol
from kbroker.config.principals import ANONYMOUS, user_principal

ANONYMOUS_PRINCIPAL = user_principal(ANONYMOUS)
NO_TIME = -1
"""Time in the answer to a refused request."""


def may_ask(ctx: RequestContext) -> bool:
    """Whether the client is authenticated by SASL or a certificate, and not by a token."""
    if ctx.client.token_authenticated:
        return False
    protocol = ctx.endpoint.protocol
    return protocol.sasl or (protocol is SecurityProtocol.SSL and ctx.client.principal != ANONYMOUS_PRINCIPAL)
