"""The table of transactional ids, and the ids whose change is not in the log yet."""

from typing import Any

import pytest

from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.table import TransactionTable
from kbroker.protocol import slices
from kbroker.protocol.errors import ErrorCode, KafkaError


class View:
    def transaction_version(self) -> int:
        return 2


@pytest.fixture
def table() -> TransactionTable:
    nothing: Any = None
    view: Any = View()
    return TransactionTable(nothing, nothing, view)


def refusal(table: TransactionTable, producer_id: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        table.required("x", producer_id)
    return refused.value.code


def test_only_open_transactions_are_ongoing(table: TransactionTable) -> None:
    table.put(TransactionMetadata("x", 7, 1000, state=TransactionState.ONGOING))
    table.put(TransactionMetadata("y", 8, 1000))
    assert [known.transactional_id for known in table.ongoing()] == ["x"]
    table.put(TransactionMetadata("x", 7, 1000, state=TransactionState.PREPARE_COMMIT))
    assert not list(table.ongoing())
    assert (table.count, sorted(table.ids())) == (2, ["x", "y"])


def test_a_transaction_that_ends_while_all_are_examined_is_left_out(table: TransactionTable) -> None:
    """Very many are examined in slices: between two, transactions end and ids are dropped."""
    for name in ("a", "b", "c", "d"):
        table.put(TransactionMetadata(name, 7, 1000, state=TransactionState.ONGOING))
    found = table.ongoing()
    assert next(found).transactional_id == "a"
    table.put(TransactionMetadata("b", 7, 1000, state=TransactionState.PREPARE_COMMIT))
    table.drop("c")
    changed = TransactionMetadata("d", 7, 2000, state=TransactionState.ONGOING)
    table.put(changed)
    assert list(found) == [changed]


def test_an_id_is_concurrent_while_a_change_is_pending_whichever_producer_asks(
    table: TransactionTable,
) -> None:
    """Its producer id may be the one that is being changed."""
    known = TransactionMetadata("x", 7, 1000)
    assert refusal(table, 7) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    table.put(known)
    assert table.required("x", 7) is known
    assert refusal(table, 8) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    outcome = table.change(known, lambda code: code)
    assert refusal(table, 7) is refusal(table, 8) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert outcome.then is not None
    outcome.then(ErrorCode.NONE)
    assert table.required("x", 7) is known


def test_a_change_counts_once_it_is_in_the_log(table: TransactionTable) -> None:
    changed: list[str] = []
    table.on_change = changed.append
    ended: list[str] = []
    target = TransactionMetadata("x", 7, 1000)
    for code, expected in ((ErrorCode.NOT_COORDINATOR, None), (ErrorCode.NONE, target)):
        outcome = table.change(target, lambda code: code, lambda: ended.append("x"))
        assert table.get("x") is None
        assert not outcome.response.done
        assert outcome.then is not None
        outcome.then(code)
        assert table.get("x") is expected
        assert outcome.response.value is code
        assert not table.is_changing("x")
    assert changed == ended == ["x"]


def test_a_dropped_id_has_no_pending_change(table: TransactionTable) -> None:
    known = TransactionMetadata("x", 7, 1000, state=TransactionState.ONGOING)
    table.put(known)
    table.change(known, lambda code: code)
    changed: list[str] = []
    table.on_change = changed.append
    table.drop("x")
    assert not table.is_changing("x")
    assert not list(table.ongoing())
    assert table.get("x") is None
    assert changed == ["x"]


def test_very_many_ids_are_in_small_dicts(table: TransactionTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """To resize one dict of a million ids took control 40 ms."""
    monkeypatch.setattr(slices, "UNDIVIDED", 64)
    names = [f"id-{number}" for number in range(1_000)]
    for number, name in enumerate(names):
        table.put(TransactionMetadata(name, number, 1000))
    for name in names[900:]:
        table.drop(name)
    assert max(map(len, table._known.all)) <= 64
    assert table.count == 900
    assert sorted(table.ids()) == sorted(names[:900])
    assert sorted(known.producer_id for known in table.all()) == list(range(900))
    assert [table.required(name, number) for number, name in enumerate(names[:900])]
    assert table.get(names[950]) is None
