"""SaslHandshake (key 17), v0-1: which mechanism a client logs in by (KIP-43).

v0 bare tokens follow; v1 SaslAuthenticate requests do (KIP-152). On SASL listeners the network
processes answer it, see kbroker/net/security/logins.py; what comes here was sent without need, to a
PLAINTEXT listener or by a client that is logged in.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = Api(ApiKey.SASL_HANDSHAKE, 0, 1)


def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """There is nothing to shake forwards."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


def refuse(request: SaslHandshakeRequest, error: KafkaError, version: int) -> SaslHandshakeResponse:
    """The request failed as a whole."""
    return SaslHandshakeResponse(error.code)
