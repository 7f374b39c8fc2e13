"""Every request that was answered is in the histograms of its phases, once, before the process sleeps."""

import time

import pytest

from kbroker.kernels.codes import ApiKey
from kbroker.metrics import layout
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, read_frame
from tests.net.requests import batch, produce_frame

PHASES = (layout.PHASE_QUEUE, layout.PHASE_APPEND, layout.PHASE_RESPOND, layout.PHASE_TOTAL)


def times(node: NetNode, phase: int) -> tuple[int, int]:
    """(number, sum in ns) of a phase of Produce."""
    at = layout.PHASE_SECONDS + (ApiKey.PRODUCE * layout.PHASE_COUNT + phase) * layout.HISTOGRAM_WORDS
    histogram = node.shared.metrics[0, at : at + layout.HISTOGRAM_WORDS]
    return int(histogram[: layout.HISTOGRAM_BUCKETS].sum()), int(histogram[layout.HISTOGRAM_SUM])


@pytest.mark.parametrize("in_flight", [1, 7])
def test_times_of_produce_requests_are_counted_once_each(node_factory: NodeFactory, in_flight: int) -> None:
    node = node_factory({"t": 1})
    links = [node.connect() for _ in range(3)]
    for _ in range(20):
        for link in links:
            link.sendall(produce_frame(batch(count=1), 9) * in_flight)
        for link in links:
            for _ in range(in_flight):
                read_frame(link)
    deadline = time.monotonic() + 10  # an answer leaves before the turn that sent it has ended
    while times(node, layout.PHASE_TOTAL)[0] < 60 * in_flight and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [times(node, phase)[0] for phase in PHASES] == [60 * in_flight] * len(PHASES)
    assert times(node, layout.PHASE_TOTAL)[1] > 0
    for link in links:
        link.close()
