"""DescribeTransactions (key 65), v0: state of transactional ids (KIP-664)."""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.api.standing import standing
from kbroker.control.transactions.service import TransactionService
from kbroker.ipc.standing import StandingAnswer, word_of
from kbroker.ipc.standing_layout import Standing
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

API = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)


def handle(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> StandingAnswer | DescribeTransactionsResponse:
    """One state, or error, per id. The answer stands until the id, or one of several, changes."""
    service = TransactionService.of(ctx.broker)
    ids = request.transactional_ids
    response = DescribeTransactionsResponse(transaction_states=[_describe(service, each) for each in ids])
    return standing(ctx, response, word_of(ids[0]) if len(ids) == 1 else Standing.TRANSACTIONS)


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
