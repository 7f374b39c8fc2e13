"""The state of a transactional id: epochs at their bounds, repeated requests, fencing."""

import pytest

from kbroker.control.transactions.metadata import (
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    is_epoch_exhausted,
)
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
    assert found.producer_epoch <= MAX_EPOCH
