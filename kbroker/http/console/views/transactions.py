"""Transactions and their partitions."""

import time
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.refusal import check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many, maybe
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest

TRANSACTION = fields(
    transactional_id=TEXT,
    state=TEXT,
    producer_id=INT,
    producer_epoch=maybe(INT),
    timeout_ms=maybe(INT),
    open_s=maybe(INT),
    partitions=many(fields(topic=TEXT, partition=INT)),
)
TRANSACTIONS = page_of("transactions", TRANSACTION)


def transactions(request: Request) -> dict[str, Any]:
    """A page of transactional ids with their state."""
    answer = request.caller.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(duration_filter=-1))
    check(answer.error_code, "transactions")
    pattern = (request["search"] or "").lower()
    found = [row for row in answer.transaction_states if pattern in row.transactional_id.lower()]
    found.sort(
        key=lambda row: (row.transaction_state not in ("Ongoing", "PrepareCommit"), row.transactional_id)
    )
    shown = page("transactions", found, request)
    ids = [row.transactional_id for row in shown["transactions"]]
    described = {row.transactional_id: row for row in _described(request, ids)}
    shown["transactions"] = [_row(row, described.get(row.transactional_id)) for row in shown["transactions"]]
    return shown


def _described(request: Request, ids: list[str]) -> list[Any]:
    if not ids:
        return []
    answer = request.caller.ask(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(ids))
    return [row for row in answer.transaction_states if row.error_code == 0]


def _row(listed: Any, described: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "transactional_id": listed.transactional_id,
        "state": listed.transaction_state,
        "producer_id": listed.producer_id,
        "producer_epoch": None,
        "timeout_ms": None,
        "open_s": None,
        "partitions": [],
    }
    if described is None:
        return row
    began = described.transaction_start_time_ms
    return row | {
        "state": described.transaction_state,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.transaction_timeout_ms,
        "open_s": max(0, round(time.time() - began / 1000)) if began >= 0 else None,
        "partitions": [
            {"topic": topic.topic, "partition": number}
            for topic in described.topics
            for number in sorted(topic.partitions)
        ],
    }
