"""Network processes answer ListOffsets for both ends of logs from shared memory; control answers
all other requests."""

import socket
import struct

import pytest

from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask

LIST_OFFSETS = 2
VERSIONS = range(1, 12)
EPOCH = 7
Spec = dict[str, list[tuple[int, int, int]]]
"""topic -> (partition, leader epoch, timestamp)"""


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    """Topic t: partition n has log start 10 + n, high watermark 100 + n and last stable offset 50 +
    n; u has one partition."""

    def refuse(request: ClientRequest) -> bytes:
        return struct.pack(">ii", 4, request.correlation_id)

    made: NetNode = node_factory({"t": 3, "u": 1}, answer=refuse)
    for slot in range(4):
        made.worker.publish(slot, 100 + slot, 0, 50 + slot)
        made.shared.slots[slot, Slot.LEADER_EPOCH] = EPOCH
        made.shared.slots[slot, Slot.LOG_START] = 10 + slot
        made.shared.slots[slot, Slot.START_EPOCH] = slot - 1
    return made


def frame(version: int, spec: Spec, replica_id: int = -1, isolation: int = 0) -> bytes:
    topics = [
        ListOffsetsTopic(name, [ListOffsetsPartition(*each) for each in parts])
        for name, parts in spec.items()
    ]
    request = ListOffsetsRequest(replica_id, isolation, topics, 30_000)
    return encode_request(LIST_OFFSETS, version, 42, "test", request)


def answered(link: socket.socket, version: int, spec: Spec, **how: int) -> dict[str, list[tuple[int, ...]]]:
    """topic -> (partition, error, timestamp, offset, leader epoch); nothing when control was
    asked."""
    answer = ask(link, frame(version, spec, **how))
    correlation_id, start = parse_response(answer, LIST_OFFSETS, version) if len(answer) > 4 else (42, 0)
    assert correlation_id == 42
    if not start:
        return {}
    found = decode_exact(ListOffsetsResponse, version, answer, start)
    assert found.throttle_time_ms == 0
    return {
        topic.name: [
            (p.partition_index, p.error_code, p.timestamp, p.offset, p.leader_epoch) for p in topic.partitions
        ]
        for topic in found.topics
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_are_returned_in_the_order_of_the_request(node: NetNode, version: int) -> None:
    link = node.connect()
    epoch = EPOCH if version >= 4 else -1
    requested: Spec = {"u": [(0, -1, -1)], "t": [(2, epoch, -1), (0, -1, -1), (1, -1, -1)]}
    expected = {"u": [(0, 103)], "t": [(2, 102), (0, 100), (1, 101)]}
    for isolation in (0, 1) if version >= 2 else (0,):
        assert answered(link, version, requested, isolation=isolation) == {
            topic: [(index, 0, -1, offset - 50 * isolation, epoch) for index, offset in parts]
            for topic, parts in expected.items()
        }
    node.worker.publish(0, 5000, 0)
    assert answered(link, version, {"t": [(0, -1, -1)]})["t"][0][3] == 5000
    assert not node.control.requests


@pytest.mark.parametrize("version", VERSIONS)
def test_beginnings_are_returned_with_their_epoch(node: NetNode, version: int) -> None:
    link = node.connect()
    epochs = (-1, 0, 1) if version >= 4 else (-1, -1, -1)
    requested: Spec = {"t": [(0, -1, -2), (1, -1, -2), (2, -1, -4 if version >= 8 else -2)]}
    for isolation in (0, 1) if version >= 2 else (0,):
        assert answered(link, version, requested, isolation=isolation) == {
            "t": [(index, 0, -1, 10 + index, epochs[index]) for index in range(3)]
        }
    assert not node.control.requests
    if version < 8:
        assert answered(link, version, {"t": [(0, -1, -4)]}) == {}
        assert len(node.control.requests) == 1


@pytest.mark.parametrize(
    ("spec", "how"),
    [
        ({"t": [(0, -1, -5)]}, {}),
        ({"t": [(0, -1, 1000)]}, {}),
        ({"t": [(0, -1, -1), (1, -1, -3)]}, {}),
        ({"t": [(3, -1, -1)]}, {}),
        ({"t": [(-1, -1, -1)]}, {}),
        ({"t": [(0, -1, -1), (1, -1, -1), (0, -1, -1)]}, {}),
        ({"t": [(0, EPOCH - 1, -1)]}, {}),
        ({"t": [(0, EPOCH + 1, -1)]}, {}),
        ({"t": [(0, -1, -1)], "absent": [(0, -1, -1)]}, {}),
        ({"": [(0, -1, -1)]}, {}),
        ({"t": []}, {}),
        ({}, {}),
        ({"t": [(0, -1, -1)]}, {"replica_id": 1}),
        ({"t": [(0, -1, -1)]}, {"replica_id": -2}),
        ({"t": [(0, -1, -1)]}, {"isolation": 2}),
    ],
)
def test_unusual_requests_are_left_to_control(node: NetNode, spec: Spec, how: dict[str, int]) -> None:
    link = node.connect()
    for version in (4, 6, 11):
        assert answered(link, version, spec, **how) == {}
    assert len(node.control.requests) == 3


def test_a_topic_named_twice_is_controls(node: NetNode) -> None:
    once = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)]) for _ in range(2)]
    request = encode_request(LIST_OFFSETS, 6, 1, "test", ListOffsetsRequest(-1, 0, once))
    assert len(ask(node.connect(), request)) == 4
    assert len(node.control.requests) == 1


@pytest.mark.parametrize("state", [SlotState.RECOVERING, SlotState.OFFLINE, SlotState.DELETED])
def test_a_log_that_is_not_open_is_controls(node: NetNode, state: int) -> None:
    node.shared.slots[1, Slot.STATE] = state
    assert answered(node.connect(), 11, {"t": [(0, -1, -1), (1, -1, -1)]}) == {}


@pytest.mark.parametrize("epoch_start", [102, Slot.NOT_LED])
def test_an_end_that_may_be_below_a_reported_one_goes_to_control(node: NetNode, epoch_start: int) -> None:
    """The high watermark of a new leader, or of a follower, as long as it has not reached the
    epoch's start."""
    link = node.connect()
    node.shared.slots[1, Slot.EPOCH_START] = epoch_start
    for timestamp in (-1, 1000, -3):
        assert answered(link, 11, {"t": [(1, -1, timestamp)]}) == {}
    assert answered(link, 11, {"t": [(1, -1, -2), (0, -1, -1)]})["t"][0][3] == 11
    node.shared.slots[1, Slot.EPOCH_START] = 101
    assert answered(link, 11, {"t": [(1, -1, -1)]})["t"][0][3] == 101


def test_a_slot_that_another_partition_has_taken_is_controls(node: NetNode) -> None:
    node.shared.slots[1, Slot.GENERATION] += 1
    assert answered(node.connect(), 11, {"t": [(1, -1, -1)]}) == {}


@pytest.mark.parametrize("version", [1, 5, 6, 11])
def test_a_request_that_ends_too_early_is_controls(node: NetNode, version: int) -> None:
    whole = frame(version, {"t": [(0, -1, -1), (2, -1, -1)]})[4:]
    requested = 0
    for end in range(len(whole) - 1, 14, -1):
        answer = ask(node.connect(), struct.pack(">i", end) + whole[:end])
        assert len(answer) == 4, f"answered {end} of {len(whole)} bytes"
        requested += 1
    assert len(node.control.requests) == requested


def test_answers_are_counted(node: NetNode) -> None:
    link = node.connect()
    for _ in range(3):
        answered(link, 8, {"t": [(0, -1, -1), (1, -1, -1)]})
    counted = node.shared.metrics[0]
    assert counted[ml.REQUESTS + LIST_OFFSETS * ml.VERSION_COUNT + 8] == 3
    assert counted[ml.ERRORS + LIST_OFFSETS * ml.ERROR_COUNT + 1] == 6
