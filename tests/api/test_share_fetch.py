"""ShareFetches of very many topics."""

import pytest

from kbroker.api.share_fetch import _acknowledgements, _partitions
from kbroker.protocol import slices
from kbroker.protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic
from kbroker.protocol.slices import Work


def test_the_partitions_of_a_long_request_are_collected_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of 400,000 topics took 22 ms, in one callback."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    batches = [AcknowledgementBatch(0, 1, [1])]
    topics = [FetchTopic(number.to_bytes(16), [FetchPartition(3, batches)]) for number in range(1000)]
    for collect in (lambda: list(_partitions(topics)), lambda: list(_acknowledgements(topics))):
        work = Work(collect)
        found = work.run_slice()
        while not work.done:
            found = work.run_slice()
        assert found == [(number.to_bytes(16), 3) for number in range(1000)]
        assert work.slices > len(topics) // slices.CHECK_EVERY
