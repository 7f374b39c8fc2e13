"""AddOffsetsToTxn (key 25), v0-4: add the offsets of a group to a transaction.

v1 throttle time; v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE (KIP-890). The group's
partition of the offsets topic joins the transaction.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.transactions.metadata import TV_0
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4)
FENCED_FROM = 2


@running
async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the group's partition to the transaction."""
    groups = ctx.services.groups.runtime
    if not groups.is_ready:
        await groups.ready()
    where = (groups.topic, groups.partition_for(request.group_id))
    code = await ctx.services.transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, frozenset((where,)), TV_0
    )
    if code:
        raise KafkaError(code)
    return AddOffsetsToTxnResponse()


def refuse(request: AddOffsetsToTxnRequest, error: KafkaError, version: int) -> AddOffsetsToTxnResponse:
    """The request failed: nothing was added."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
