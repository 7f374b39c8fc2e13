"""SaslAuthenticate (key 36), v0-2: a token of a login (KIP-152).

v1 life of the session in the answer (KIP-368); v2 flexible. On SASL listeners the network processes
answer it, see kbroker/net/security/logins.py; requests that arrive here are superfluous.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = Api(ApiKey.SASL_AUTHENTICATE, 0, 2)


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """No login is in progress."""
    why = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, why)


def refuse(request: SaslAuthenticateRequest, error: KafkaError, version: int) -> SaslAuthenticateResponse:
    """The request failed as a whole."""
    return SaslAuthenticateResponse(error.code, error.message)
