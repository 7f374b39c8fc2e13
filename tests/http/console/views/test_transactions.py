"""Transactions as the console lists them: open ones first, with their partitions."""

import time
from typing import Any, cast

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.transactions import TRANSACTIONS, transactions
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages import describe_transactions as described
from kbroker.protocol.messages import list_transactions as listed
from tests.http.console.schemas import problems

STATES = (("b", "Empty"), ("d", "Ongoing"), ("A", "CompleteCommit"), ("c", "PrepareCommit"))


class Asked:
    """A request, and the broker's answers. requested: the ids whose description was requested."""

    def __init__(self, search: str | None = None, offset: int = 0, limit: int = 100, error: int = 0) -> None:
        self.values = {"search": search, "offset": offset, "limit": limit}
        self.error = error
        self.refused: set[str] = set()
        self.start_ms = -1
        self.requested: list[list[str]] = []

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def caller(self) -> "Asked":
        return self

    def ask(self, key: int, request: Any) -> Any:
        if key == ApiKey.LIST_TRANSACTIONS:
            rows = [listed.TransactionState(name, 7, state) for name, state in STATES]
            return listed.ListTransactionsResponse(error_code=self.error, transaction_states=rows)
        self.requested.append(request.transactional_ids)
        found = []
        for name in request.transactional_ids:
            row = described.TransactionState(
                error_code=105 if name in self.refused else 0,
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout_ms=60000,
                transaction_start_time_ms=self.start_ms,
                producer_id=7,
                producer_epoch=3,
                topics=[described.TopicData("t", [2, 0])],
            )
            found.append(row)
        return described.DescribeTransactionsResponse(transaction_states=found)

    def answer(self) -> dict[str, Any]:
        return transactions(cast(Request, self))


def names(answer: dict[str, Any]) -> list[str]:
    return [row["transactional_id"] for row in answer["transactions"]]


def test_transactions_that_are_open_or_being_committed_come_first() -> None:
    answer = Asked().answer()
    assert names(answer) == ["c", "d", "A", "b"]
    assert (answer["total"], answer["offset"]) == (4, 0)
    assert problems(answer, TRANSACTIONS) == []


def test_only_transactions_of_the_page_are_described() -> None:
    asked = Asked(offset=1, limit=2)
    assert names(asked.answer()) == ["d", "A"]
    assert asked.requested == [["d", "A"]]
    asked = Asked(offset=9)
    assert (asked.answer()["transactions"], asked.requested) == ([], [])


def test_a_search_takes_any_case() -> None:
    assert names(Asked("a").answer()) == ["A"]
    assert names(Asked("D").answer()) == ["d"]
    assert names(Asked("").answer()) == ["c", "d", "A", "b"]


def test_a_described_transaction_has_its_partitions_in_order() -> None:
    row = Asked("b").answer()["transactions"][0]
    assert row == {
        "transactional_id": "b",
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60000,
        "open_s": None,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 2}],
    }


@pytest.mark.parametrize(("start_ms", "open_s"), [(-1, None), (0, 1000), (999_000, 1), (2_000_000, 0)])
def test_an_open_transaction_has_its_age(
    monkeypatch: pytest.MonkeyPatch, start_ms: int, open_s: int | None
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    asked = Asked("b")
    asked.start_ms = start_ms
    assert asked.answer()["transactions"][0]["open_s"] == open_s


def test_a_transaction_that_ended_meanwhile_has_no_details() -> None:
    asked = Asked("b")
    asked.refused = {"b"}
    assert asked.answer()["transactions"] == [
        {
            "transactional_id": "b",
            "state": "Empty",
            "producer_id": 7,
            "producer_epoch": None,
            "timeout_ms": None,
            "open_s": None,
            "partitions": [],
        }
    ]


def test_a_refused_list_is_refused() -> None:
    with pytest.raises(Refusal, match="transactions: ") as refused:
        Asked(error=31).answer()
    assert refused.value.status == 403
