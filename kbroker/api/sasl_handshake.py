"""SaslHandshake (key 17), v0-1: choose the mechanism of a login (KIP-43).

v0 bare tokens follow; v1 SaslAuthenticate requests do (KIP-152). On SASL listeners the network
processes answer it, see kbroker/net/security/logins.py; requests that arrive here are superfluous:
on a PLAINTEXT listener or by a client that is logged in. Another request than the login that must
follow is closed upon; Apache Kafka answers ILLEGAL_SASL_STATE in the form of that request first.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = Api(ApiKey.SASL_HANDSHAKE, 0, 1)


def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Always refused: no login is expected here."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


def refuse(request: SaslHandshakeRequest, error: KafkaError, version: int) -> SaslHandshakeResponse:
    """The request failed as a whole."""
    return SaslHandshakeResponse(error.code)
