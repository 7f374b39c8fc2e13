"""UnregisterBroker (key 64), v0: remove the registration of a dead broker (KIP-500). Always refused
here.

The nodes are this host and its replica sites. They run, so they cannot be unregistered.
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
    if node in {site.node_id for site in ctx.broker.nodes.sites}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker ID {node} is running and cannot be unregistered")
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node} is not currently registered")


def refuse(request: UnregisterBrokerRequest, error: KafkaError, version: int) -> UnregisterBrokerResponse:
    """The answer with this error."""
    return UnregisterBrokerResponse(0, error.code, error.message)
