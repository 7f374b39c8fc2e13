"""Every request that was answered is in the histograms of its phases, once, and their sums are the
total's."""

import socket
import time

import pytest

from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.kernels.codes import ApiKey
from kbroker.metrics import layout
from kbroker.metrics.labels import OTHER_STAGES, PHASES, STAGES
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, read_frame
from tests.net.requests import batch, fetch_frame, produce, produce_frame

Times = dict[str, tuple[int, int]]


def times(node: NetNode, api: int) -> Times:
    """(number, sum in ns) of each phase of an API."""
    found = {}
    for phase, name in enumerate(PHASES):
        at = layout.PHASE_SECONDS + (api * layout.PHASE_COUNT + phase) * layout.HISTOGRAM_WORDS
        histogram = node.shared.metrics[0, at : at + layout.HISTOGRAM_WORDS]
        found[name] = (
            int(histogram[: layout.HISTOGRAM_BUCKETS].sum()),
            int(histogram[layout.HISTOGRAM_SUM]),
        )
    return found


def all_counted(node: NetNode, api: int, requests: int) -> Times:
    """The phases, once so many requests are counted: an answer leaves before the turn that sent it
    has ended."""
    deadline = time.monotonic() + 60
    while times(node, api)["total"][0] < requests and time.monotonic() < deadline:
        time.sleep(0.001)
    found = times(node, api)
    stages = STAGES.get({ApiKey.PRODUCE: "Produce", ApiKey.FETCH: "Fetch"}.get(api, ""), OTHER_STAGES)
    assert {phase: count for phase, (count, _) in found.items() if count} == dict.fromkeys(stages, requests)
    total = found["total"][1]
    assert sum(found[phase][1] for phase in stages if phase != "total") == pytest.approx(total, abs=1000)
    assert total > 0
    return found


@pytest.mark.parametrize("in_flight", [1, 7])
def test_every_produce_request_is_in_each_of_its_phases(node_factory: NodeFactory, in_flight: int) -> None:
    node = node_factory({"t": 1})
    links = [node.connect() for _ in range(3)]
    for _ in range(20):
        for link in links:
            link.sendall(produce_frame(batch(count=1), 9) * in_flight)
        for link in links:
            for _ in range(in_flight):
                read_frame(link)
    all_counted(node, ApiKey.PRODUCE, 60 * in_flight)
    for link in links:
        link.close()


def test_the_sync_of_durable_acks_is_apart_from_their_append(node_factory: NodeFactory) -> None:
    """Each request was written before its sync began, and answered after its end: whatever the
    machine does, the phase has all of the sync's time."""
    delay_s, requests = 0.03, 4
    node = node_factory({"t": 1})
    node.shared.slots[0, Slot.FLAGS] |= SlotFlag.DURABLE
    syncs: list[int] = []

    def slow_fdatasync() -> None:
        began_ns = time.monotonic_ns()
        time.sleep(delay_s)
        syncs.append(time.monotonic_ns() - began_ns)

    node.worker.fdatasync = slow_fdatasync
    with node.connect() as link:
        for _ in range(requests):
            produce(link, batch(b"x" * 100))
    found = all_counted(node, ApiKey.PRODUCE, requests)
    assert len(syncs) == requests
    assert sum(syncs) >= requests * delay_s * 1e9
    assert found["flush"][1] >= sum(syncs) - 1000  # histograms round their sums
    assert found["append"][1] + found["flush"][1] <= found["total"][1] + 1000


def test_every_fetch_is_in_each_of_its_phases(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    with node.connect() as link:
        produce(link, batch(b"x" * 100))
        for _ in range(20):
            link.sendall(fetch_frame(0))
            read_frame(link)
    all_counted(node, ApiKey.FETCH, 20)


def test_a_fetch_that_waits_for_records_spends_its_time_in_the_purgatory(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    with node.connect() as link:
        link.sendall(fetch_frame(0, max_wait_ms=1000))
        read_frame(link)
    found = all_counted(node, ApiKey.FETCH, 1)
    assert found["purgatory"][1] > 0.5e9
    assert found["local"][1] < 0.5e9


def test_an_answer_that_its_client_takes_late_spends_its_time_in_sending(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={"socket.send.buffer.bytes": "4096"})
    with node.connect() as link:
        for _ in range(20):
            produce(link, batch(b"y" * 300_000))
        link.sendall(fetch_frame(0, max_bytes=1 << 25, partition_max_bytes=1 << 25))
        link.recv(1, socket.MSG_PEEK)  # the answer has begun to arrive
        time.sleep(0.2)
        read_frame(link)
    found = all_counted(node, ApiKey.FETCH, 1)
    assert found["send"][1] > 0.15e9
