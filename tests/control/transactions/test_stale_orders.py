"""What comes too late or too early in a transaction's life changes nothing: timeouts, markers,
limits."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kbroker.control.transactions.end_transaction import EndTransactions
from kbroker.control.transactions.init_producer import InitProducer
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.partitions import NO_PARTITIONS, TransactionPartitions
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.control.transactions.state import TransactionState
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest

ONGOING = TransactionMetadata(
    "t", 5, 100, producer_epoch=3, state=TransactionState.ONGOING, start_ms=1000,
    partitions=TransactionPartitions.of({("topic", 0)}),
)  # fmt: skip
PREPARED = replace(ONGOING, state=TransactionState.PREPARE_COMMIT)
ORDER = MarkerOrder("t", 5, 3, 0, True, PREPARED.partitions, 0)


class Table:
    """The table of one transactional id; changes are written down."""

    def __init__(self, known: TransactionMetadata | None) -> None:
        self.known = known
        self.changes: list[TransactionMetadata] = []
        self.changing = False
        self.settings = SimpleNamespace(max_timeout_ms=900)
        self.view = SimpleNamespace(transaction_version=lambda: 2)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self.known

    def is_changing(self, transactional_id: str) -> bool:
        return self.changing

    def change(self, target: TransactionMetadata, *_: object) -> None:
        self.changes.append(target)


def ends_of(known: TransactionMetadata | None) -> tuple[EndTransactions, Table]:
    table: Any = Table(known)
    return EndTransactions(table), table


@pytest.mark.parametrize(("now_ms", "over"), [(1099, False), (1100, False), (1101, True)])
def test_a_transaction_may_last_as_long_as_its_timeout(now_ms: int, over: bool) -> None:
    ends, table = ends_of(ONGOING)
    assert ends.is_timed_out(ONGOING, now_ms) is over
    ends.abort_timed_out("t", 5, None, now_ms)
    assert [each.state for each in table.changes] == [TransactionState.PREPARE_ABORT] * over


def test_no_timeout_aborts_what_is_decided_or_is_just_being_changed_or_is_anothers() -> None:
    ends, table = ends_of(PREPARED)
    ends.abort_timed_out("t", 5, None, 10_000)
    table.known = ONGOING
    ends.abort_timed_out("t", 6, None, 10_000)
    table.changing = True
    ends.abort_timed_out("t", 5, None, 10_000)
    assert table.changes == []


@pytest.mark.parametrize(
    "stale",
    [{"producer_id": 6}, {"producer_epoch": 2}, {"producer_epoch": 4}, {"commit": False}],
)
def test_markers_of_another_transaction_complete_nothing(stale: dict[str, Any]) -> None:
    ends, table = ends_of(PREPARED)
    order = replace(ORDER, **stale)
    assert ends.complete(order, 2000).response == ErrorCode.NONE
    assert table.changes == []
    ends.complete(ORDER, 2000)
    assert [each.state for each in table.changes] == [TransactionState.COMPLETE_COMMIT]


@pytest.mark.parametrize("known", [None, ONGOING, replace(PREPARED, state=TransactionState.COMPLETE_COMMIT)])
def test_markers_complete_only_what_is_prepared(known: TransactionMetadata | None) -> None:
    ends, table = ends_of(known)
    ends.complete(ORDER, 2000)
    assert table.changes == []


@pytest.mark.parametrize(("timeout_ms", "taken"), [(0, False), (1, True), (900, True), (901, False)])
def test_a_timeout_is_above_0_and_no_more_than_the_brokers_maximum(timeout_ms: int, taken: bool) -> None:
    table: Any = Table(None)
    request = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )
    init = InitProducer(table, EndTransactions(table))
    if taken:
        init.check(request)
    else:
        with pytest.raises(KafkaError) as refused:
            init.check(request)
        assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transaction_begins_with_its_first_partition_and_not_with_later_ones() -> None:
    more = ONGOING.with_partitions(TransactionPartitions.of({("topic", 1)}), 0, 5000)
    assert (more.start_ms, more.last_update_ms) == (1000, 5000)
    assert more.partitions == {("topic", 0), ("topic", 1)}
    over = replace(ONGOING, state=TransactionState.COMPLETE_ABORT, partitions=NO_PARTITIONS)
    assert over.with_partitions(TransactionPartitions.of({("topic", 1)}), 0, 5000).start_ms == 5000
