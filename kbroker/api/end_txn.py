"""EndTxn (key 26), v0-5: commit or abort a transaction.

v1 throttle time; v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE (KIP-890); v5 the
producer's next id and epoch (transactions v2). The answer is sent when the outcome is stored; the
markers are written afterwards, as in Kafka.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, then
from kbroker.api.row import Api
from kbroker.control.transactions.metadata import TV_0, TV_2
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

API = Api(ApiKey.END_TXN, 0, 5)
FENCED_FROM = 2
V2_FROM = 5


def handle(ctx: RequestContext, request: EndTxnRequest) -> Answer:
    """Decide and store the outcome."""
    client_version = TV_2 if ctx.version >= V2_FROM else TV_0
    return then(ctx.services.transactions.end(request, client_version), _checked)


def _checked(response: EndTxnResponse) -> EndTxnResponse:
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    return response


def refuse(request: EndTxnRequest, error: KafkaError, version: int) -> EndTxnResponse:
    """The request failed: the transaction is unchanged."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code)
