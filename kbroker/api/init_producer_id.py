"""InitProducerId (key 22), v0-5: an id for an idempotent or transactional producer.

v2 flexible; v3 id and epoch of a producer that continues (KIP-360); v4 PRODUCER_FENCED; v5
transaction verification (KIP-890). v6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and not
advertised.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, running, then
from kbroker.api.row import Api, FastPath
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = Api(
    ApiKey.INIT_PRODUCER_ID,
    0,
    5,
    fast_paths=(FastPath("net/local_answers/producer_id_kernel.py", "new ids of idempotent producers"),),
)
NONE = -1


def handle(ctx: RequestContext, request: InitProducerIdRequest) -> Answer:
    """A new id with epoch 0; with a transactional id the transaction coordinator decides."""
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        taken = ctx.broker.producer_ids.take_allocated()
        return _fresh(ctx) if taken is None else InitProducerIdResponse(producer_id=taken, producer_epoch=0)
    transactions = ctx.broker.transactions
    if transactions is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "There is no transaction coordinator")
    return then(transactions.init_producer_id(request), _checked)


def _checked(response: InitProducerIdResponse) -> InitProducerIdResponse:
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    return response


def refuse(request: InitProducerIdRequest, error: KafkaError, version: int) -> InitProducerIdResponse:
    """The request failed as a whole."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < 4:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


@running
async def _fresh(ctx: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await ctx.broker.producer_ids.take(), producer_epoch=0)
