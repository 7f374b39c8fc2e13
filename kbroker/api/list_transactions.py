"""ListTransactions (key 66), v0-2: transactional ids, by state, producer id, duration (v1) and id
pattern (v2).

KIP-664, KIP-994, KIP-1152.
"""

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.layout import AnswerVersion
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

API = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, fast_paths=(REPEATED,))


def handle(ctx: RequestContext, request: ListTransactionsRequest) -> CachedAnswer | ListTransactionsResponse:
    """Every id that passes the filters. Without a filter by duration the answer is cacheable until
    an id changes."""
    shard = ctx.services.transactions.read_all()
    response = shard.list_transactions(request, ctx.broker.now_ms())
    return (
        response
        if request.duration_filter >= 0
        else cached_answers(ctx, response, AnswerVersion.TRANSACTIONS)
    )


def refuse(request: ListTransactionsRequest, error: KafkaError, version: int) -> ListTransactionsResponse:
    """The request failed as a whole."""
    return ListTransactionsResponse(error_code=error.code)
