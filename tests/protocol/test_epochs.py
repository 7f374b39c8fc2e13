"""Epochs count up, and go round after the last as Java's do."""

import pytest

from kbroker.protocol.epochs import MAX_EPOCH, next_epoch


@pytest.mark.parametrize(
    ("epoch", "after"), [(-1, 0), (0, 1), (MAX_EPOCH - 1, MAX_EPOCH), (MAX_EPOCH, -MAX_EPOCH - 1)]
)
def test_the_epoch_after_one_fits_an_int32(epoch: int, after: int) -> None:
    assert next_epoch(epoch) == after
