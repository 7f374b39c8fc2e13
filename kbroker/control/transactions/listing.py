"""DescribeTransactions and ListTransactions: what is known of transactional ids, without changing
it."""

from collections.abc import Iterable

from kbroker.config.client_pattern import ClientPattern, InvalidPattern, compile_pattern
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.state import BY_NAME, TransactionState
from kbroker.control.transactions.table import TransactionTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_transactions import TopicData
from kbroker.protocol.messages.describe_transactions import TransactionState as Described
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kbroker.protocol.messages.list_transactions import TransactionState as Listed
from kbroker.protocol.slices import Names, distinct, paced, yield_slice


def describe(table: TransactionTable, transactional_id: str) -> Described:
    """One id; the answer carries INVALID_REQUEST for an empty one, TRANSACTIONAL_ID_NOT_FOUND for
    an unknown one."""
    if not transactional_id:
        return Described(ErrorCode.INVALID_REQUEST, transactional_id)
    known = table.get(transactional_id)
    if known is None:
        return Described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    by_topic = known.partitions.by_topic
    return Described(
        ErrorCode.NONE,
        transactional_id,
        known.state.shown_as,
        known.timeout_ms,
        known.start_ms,
        known.producer_id,
        known.producer_epoch,
        [TopicData(topic, list(by_topic[topic])) for topic in sorted(by_topic)],
    )


def list_transactions(
    table: TransactionTable, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Ids that pass every filter; an empty filter lets all pass. Raises
    INVALID_REGULAR_EXPRESSION."""
    pattern = _pattern(request.transactional_id_pattern)
    states = {BY_NAME[name] for name in request.state_filters if name in BY_NAME}
    producer_ids = Names(request.producer_id_filters)

    def passes(known: TransactionMetadata) -> bool:
        if known.state is TransactionState.DEAD or (producer_ids and known.producer_id not in producer_ids):
            return False
        if request.state_filters and known.state not in states:
            return False
        if request.duration_filter >= 0 and now_ms - known.start_ms <= request.duration_filter:
            return False
        if pattern is None:
            return True
        yield_slice()  # each id may take milliseconds
        return pattern.matches(known.transactional_id)

    return ListTransactionsResponse(
        unknown_state_filters=_unknown(request.state_filters),
        transaction_states=[
            Listed(known.transactional_id, known.producer_id, known.state.shown_as)
            for known in paced(table.all())
            if passes(known)
        ],
    )


def _unknown(names: Iterable[str]) -> list[str]:
    return [name for name in distinct(names) if name not in BY_NAME]


def _pattern(text: str | None) -> ClientPattern | None:
    """The ids that a client asks for (KIP-1152). Raises INVALID_REGULAR_EXPRESSION."""
    if not text:
        return None
    try:
        return compile_pattern(text)
    except InvalidPattern as error:
        why = f"Transaction ID pattern `{text}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, why) from error
