"""The transactions of a log during its cleaning: a marker goes when no record of its transaction
is left."""

import pytest

from kbroker.cleaner.transactions import CleanedTransactions
from kbroker.log.transaction_index import AbortedTransaction
from kbroker.protocol.records import ControlType

FIRST = AbortedTransaction(7, 10, 19, 20)
SECOND = AbortedTransaction(7, 30, 39, 40)
OTHER = AbortedTransaction(8, 12, 25, 26)


def test_records_of_a_transaction_are_aborted_from_its_first_offset_to_its_marker() -> None:
    found = CleanedTransactions([FIRST])
    assert not found.is_aborted(7, True, 9)
    assert found.is_aborted(7, True, 10)
    assert found.is_aborted(7, True, 12)
    found.may_discard_marker(7, ControlType.ABORT, 19)
    assert not found.is_aborted(7, True, 20)


def test_only_transactional_records_of_the_producer_are_aborted() -> None:
    found = CleanedTransactions([FIRST])
    assert not found.is_aborted(8, True, 11)
    assert not found.is_aborted(7, False, 11)


def test_transactions_of_several_producers_and_of_one_later_are_distinguished() -> None:
    found = CleanedTransactions([SECOND, OTHER, FIRST, FIRST])
    assert found.is_aborted(7, True, 11)
    assert not found.is_aborted(8, True, 11)
    assert found.is_aborted(8, True, 12)
    assert not found.may_discard_marker(7, ControlType.ABORT, 19)
    assert not found.is_aborted(7, True, 24)
    assert not found.may_discard_marker(8, ControlType.ABORT, 25)
    assert found.is_aborted(7, True, 31)
    assert not found.may_discard_marker(7, ControlType.ABORT, 39)
    assert found.take_kept() == [FIRST, OTHER, SECOND]
    assert found.take_kept() == []


def test_an_abort_marker_goes_when_its_transaction_has_no_record() -> None:
    found = CleanedTransactions([FIRST, SECOND])
    assert found.may_discard_marker(7, ControlType.ABORT, 19)
    assert found.take_kept() == []
    assert found.is_aborted(7, True, 30)
    assert not found.may_discard_marker(7, ControlType.ABORT, 39)
    assert found.take_kept() == [SECOND]


def test_the_records_of_one_transaction_do_not_keep_the_marker_of_the_next() -> None:
    found = CleanedTransactions([FIRST, SECOND])
    assert found.is_aborted(7, True, 11)
    assert not found.may_discard_marker(7, ControlType.ABORT, 19)
    assert found.may_discard_marker(7, ControlType.ABORT, 39)
    assert found.take_kept() == [FIRST]


def test_an_abort_marker_without_an_entry_of_the_index_goes() -> None:
    found = CleanedTransactions([])
    found.is_aborted(7, True, 11)
    assert found.may_discard_marker(7, ControlType.ABORT, 19)


def test_a_commit_marker_stays_while_its_transaction_has_a_record() -> None:
    found = CleanedTransactions([])
    assert found.may_discard_marker(7, ControlType.COMMIT, 9)
    found.is_aborted(7, False, 10)
    assert found.may_discard_marker(7, ControlType.COMMIT, 11)
    found.is_aborted(7, True, 12)
    assert found.may_discard_marker(8, ControlType.COMMIT, 13)
    assert not found.may_discard_marker(7, ControlType.COMMIT, 14)
    assert found.may_discard_marker(7, ControlType.COMMIT, 15)


@pytest.mark.parametrize(("type_", "goes"), [(None, True), (2, False)])
def test_an_emptied_batch_goes_and_an_unknown_control_record_stays(type_: int | None, goes: bool) -> None:
    assert CleanedTransactions([]).may_discard_marker(7, type_, 9) is goes


@pytest.mark.parametrize("type_", [None, ControlType.COMMIT])
def test_a_control_batch_begins_the_transactions_up_to_its_offset(type_: int | None) -> None:
    found = CleanedTransactions([FIRST])
    found.may_discard_marker(8, type_, 10)
    assert found.is_aborted(7, True, 9)
