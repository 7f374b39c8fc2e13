"""The state of a transactional id: epochs at their bounds, repeated requests, fencing."""

import pytest
from msgspec.structs import replace

from kbroker.control.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TV_0,
    TV_2,
    TransactionMetadata,
    is_epoch_exhausted,
)
from kbroker.control.transactions.partitions import NO_PARTITIONS, TransactionPartitions
from kbroker.control.transactions.state import TransactionState
from kbroker.protocol.epochs import MAX_PRODUCER_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError


def known(epoch: int, last: int = NO_PRODUCER_EPOCH) -> TransactionMetadata:
    return TransactionMetadata("id", 5, 60_000, producer_epoch=epoch, last_producer_epoch=last)


@pytest.mark.parametrize(
    ("epoch", "used_up"), [(-1, False), (0, False), (32_765, False), (32_766, True), (32_767, True)]
)
def test_the_largest_epoch_is_kept_for_the_coordinator(epoch: int, used_up: bool) -> None:
    assert is_epoch_exhausted(epoch) is used_up
    assert known(epoch).epoch_exhausted is used_up


def test_a_request_that_is_repeated_again_and_again_gets_the_same_epochs() -> None:
    first = known(3).bumped(3, 60_000, 7)
    assert (first.producer_epoch, first.last_producer_epoch) == (4, 3)
    again = first.bumped(3, 60_000, 8)
    assert (again.producer_epoch, again.last_producer_epoch) == (4, 3)
    more = again.bumped(3, 60_000, 9)
    assert (more.producer_epoch, more.last_producer_epoch) == (4, 3)


def test_a_new_producer_leaves_no_epoch_to_repeat() -> None:
    begun = known(3, 2).bumped(None, 60_000, 7)
    assert (begun.producer_epoch, begun.last_producer_epoch) == (4, NO_PRODUCER_EPOCH)


@pytest.mark.parametrize("expected", [0, 1, 4])
def test_another_epoch_is_fenced(expected: int) -> None:
    with pytest.raises(KafkaError) as refused:
        known(3, 2).bumped(expected, 60_000, 7)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("epoch", "fenced"), [(0, 1), (32_765, 32_766), (32_766, 32_767), (32_767, 32_767)])
def test_fencing_raises_the_epoch_up_to_the_largest_and_forgets_the_last_one(epoch: int, fenced: int) -> None:
    found = known(epoch, max(epoch - 1, 0)).fenced()
    assert (found.producer_epoch, found.last_producer_epoch) == (fenced, NO_PRODUCER_EPOCH)
    assert found.producer_epoch <= MAX_PRODUCER_EPOCH


A0, B1 = ("a", 0), ("b", 1)
OPEN = replace(
    known(3),
    prev_producer_id=4,
    state=TransactionState.ONGOING,
    partitions=TransactionPartitions.of((A0,)),
    start_ms=7,
    last_update_ms=8,
    client_version=TV_2,
)


def test_an_id_without_an_epoch_accepts_any_epoch_and_begins_at_zero() -> None:
    begun = known(NO_PRODUCER_EPOCH).bumped(9, 60_000, 7)
    assert (begun.producer_epoch, begun.last_producer_epoch) == (0, NO_PRODUCER_EPOCH)


def test_a_producer_that_begins_leaves_nothing_of_the_transaction_before() -> None:
    for begun in (OPEN.bumped(None, 30_000, 9), OPEN.rotated(6, False, 30_000, 9)):
        assert (begun.state, begun.partitions) == (TransactionState.EMPTY, frozenset())
        assert (begun.start_ms, begun.last_update_ms, begun.timeout_ms) == (NO_TIMESTAMP, 9, 30_000)
        assert begun.prev_producer_id == 5


@pytest.mark.parametrize(("remember", "last"), [(True, 3), (False, NO_PRODUCER_EPOCH)])
def test_a_new_producer_id_begins_at_epoch_zero(remember: bool, last: int) -> None:
    begun = OPEN.rotated(6, remember, 60_000, 9)
    assert (begun.producer_id, begun.producer_epoch, begun.last_producer_epoch) == (6, 0, last)


def test_partitions_join_those_that_have_joined_before() -> None:
    joined = OPEN.with_partitions(TransactionPartitions.of((B1,)), TV_0, 9)
    assert joined == replace(
        OPEN,
        prev_producer_id=5,
        partitions=TransactionPartitions.of((A0, B1)),
        last_update_ms=9,
        client_version=TV_0,
    )


@pytest.mark.parametrize(
    "over", [TransactionState.EMPTY, TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT]
)
def test_the_first_partition_begins_the_transaction(over: TransactionState) -> None:
    begun = replace(OPEN, state=over, partitions=NO_PARTITIONS).with_partitions(
        TransactionPartitions.of((B1,)), TV_2, 9
    )
    assert (begun.state, begun.start_ms, begun.partitions) == (TransactionState.ONGOING, 9, frozenset((B1,)))


@pytest.mark.parametrize(("version", "epochs"), [(TV_0, (3, NO_PRODUCER_EPOCH)), (TV_2, (4, 3))])
@pytest.mark.parametrize(("empty", "start_ms"), [(False, 7), (True, 9)])
def test_the_end_is_prepared_with_the_epoch_of_its_version(
    version: int, epochs: tuple[int, int], empty: bool, start_ms: int
) -> None:
    ending = OPEN.prepared(TransactionState.PREPARE_ABORT, version, 6, empty, 9)
    assert ending == replace(
        OPEN,
        prev_producer_id=5,
        next_producer_id=6,
        producer_epoch=epochs[0],
        last_producer_epoch=epochs[1],
        state=TransactionState.PREPARE_ABORT,
        start_ms=start_ms,
        last_update_ms=9,
        client_version=version,
    )


def test_the_epoch_of_an_end_is_never_above_the_largest() -> None:
    ending = replace(OPEN, producer_epoch=MAX_PRODUCER_EPOCH).prepared(
        TransactionState.PREPARE_ABORT, TV_2, 6, False, 9
    )
    assert (ending.producer_epoch, ending.last_producer_epoch) == (MAX_PRODUCER_EPOCH, MAX_PRODUCER_EPOCH)


@pytest.mark.parametrize(
    ("version", "successor", "producer"),
    [(TV_2, 6, (6, 0)), (TV_2, NO_PRODUCER_ID, (5, 3)), (TV_0, 6, (5, 3))],
)
@pytest.mark.parametrize(
    ("prepared", "complete"),
    [
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
        (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
    ],
)
def test_a_complete_transaction_has_the_next_producer_id_if_there_is_one(
    version: int,
    successor: int,
    producer: tuple[int, int],
    prepared: TransactionState,
    complete: TransactionState,
) -> None:
    done = replace(OPEN, state=prepared, client_version=version, next_producer_id=successor).completed(9)
    assert (done.producer_id, done.producer_epoch, done.state) == (*producer, complete)
    assert (done.prev_producer_id, done.next_producer_id) == (5, NO_PRODUCER_ID)
    assert (done.partitions, done.start_ms, done.last_update_ms) == (frozenset(), 7, 9)
