"""UnregisterBroker (key 64), v0: forget a broker that is gone for good (KIP-500). Here no broker is
ever gone.

This host and its replica sites are all brokers there are, and they run: they cannot be
unregistered.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

API = Api(ApiKey.UNREGISTER_BROKER, 0, 0)


def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Always refused; unknown and running brokers get different error codes."""
    node = request.broker_id
    if node in {site.node_id for site in ctx.broker.sites}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker ID {node} is running and cannot be unregistered")
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node} is not currently registered")


def refuse(request: UnregisterBrokerRequest, error: KafkaError, version: int) -> UnregisterBrokerResponse:
    """Every answer."""
    return UnregisterBrokerResponse(0, error.code, error.message)
