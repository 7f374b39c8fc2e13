"""DescribeTransactions (key 65), v0: state of transactional ids (KIP-664)."""

from functools import partial

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.control.transactions.service import TransactionService
from kbroker.ipc.cached_answers import CachedAnswer, word_of
from kbroker.ipc.layout import AnswerVersion
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kbroker.protocol.slices import Table

API = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, fast_paths=(REPEATED,))


def handle(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> CachedAnswer | DescribeTransactionsResponse:
    """A state or error per id. The answer is cacheable until one of the ids changes."""
    service = ctx.services.transactions
    ids = request.transactional_ids
    known: Table[str, TransactionState] = Table()  # an id that is named again gets the same state
    states = [known.setdefault(each, partial(_describe, service, each)) for each in ids]
    known.clear()
    response = DescribeTransactionsResponse(transaction_states=states)
    return cached_answers(ctx, response, word_of(ids[0]) if len(ids) == 1 else AnswerVersion.TRANSACTIONS)


def refuse(
    request: DescribeTransactionsRequest, error: KafkaError, version: int
) -> DescribeTransactionsResponse:
    """The request failed as a whole: every id carries the error."""
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error.code, each) for each in request.transactional_ids]
    )


def _describe(service: TransactionService, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    try:
        return service.read(transactional_id).describe(transactional_id)
    except KafkaError as error:
        return TransactionState(error.code, transactional_id)
