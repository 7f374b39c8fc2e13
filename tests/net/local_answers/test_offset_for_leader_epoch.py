"""Ends of leaders' present epochs are told from shared memory; older ones, and whatever is unusual, are control's."""

import socket
import struct

import pytest

from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask

OFFSET_FOR_LEADER_EPOCH = 23
VERSIONS = range(2, 5)
Asked = dict[str, list[tuple[int, int, int]]]
"""topic -> (partition, epoch of the leader known, epoch asked for)"""


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    """Topics t and u; slot n has leader epoch 5 + n, log end 100 + n and a high watermark below that."""

    def refuse(request: ClientRequest) -> bytes:
        return struct.pack(">ii", 4, request.correlation_id)

    made: NetNode = node_factory({"t": 3, "u": 1}, answer=refuse)
    for slot in range(4):
        made.worker.publish(slot, 100 + slot, 0)
        made.shared.slots[slot, Slot.HIGH_WATERMARK] = 90
        made.shared.slots[slot, Slot.LEADER_EPOCH] = 5 + slot
    return made


def frame(version: int, asked: Asked) -> bytes:
    topics = [
        OffsetForLeaderTopic(name, [OffsetForLeaderPartition(*each) for each in parts])
        for name, parts in asked.items()
    ]
    request = OffsetForLeaderEpochRequest(-1, topics)
    return encode_request(OFFSET_FOR_LEADER_EPOCH, version, 42, "test", request)


def told(link: socket.socket, version: int, asked: Asked) -> dict[str, list[tuple[int, ...]]]:
    """topic -> (partition, error, epoch, end offset); nothing when control was asked."""
    answer = ask(link, frame(version, asked))
    if len(answer) == 4:
        return {}
    correlation_id, start = parse_response(answer, OFFSET_FOR_LEADER_EPOCH, version)
    found = decode_exact(OffsetForLeaderEpochResponse, version, answer, start)
    assert (correlation_id, found.throttle_time_ms) == (42, 0)
    return {
        topic.topic: [(p.partition, p.error_code, p.leader_epoch, p.end_offset) for p in topic.partitions]
        for topic in found.topics
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_present_epochs_end_where_the_log_does(node: NetNode, version: int) -> None:
    link = node.connect()
    asked: Asked = {"u": [(0, -1, 8)], "t": [(2, 7, 7), (0, -1, 5), (1, 6, 6), (0, 5, 5)]}
    assert told(link, version, asked) == {
        "u": [(0, 0, 8, 103)],
        "t": [(2, 0, 7, 102), (0, 0, 5, 100), (1, 0, 6, 101), (0, 0, 5, 100)],
    }
    node.worker.publish(0, 5000, 0)
    assert told(link, version, {"t": [(0, -1, 5)]}) == {"t": [(0, 0, 5, 5000)]}
    assert not node.control.requests


@pytest.mark.parametrize(
    "asked",
    [
        {"t": [(0, -1, 5), (1, -1, 5)]},
        {"t": [(0, -1, 6)]},
        {"t": [(0, -1, -1)]},
        {"t": [(0, 4, 5)]},
        {"t": [(0, 6, 5)]},
        {"t": [(3, -1, 5)]},
        {"t": [(-1, -1, 5)]},
        {"t": [(0, -1, 5)], "absent": [(0, -1, 5)]},
        {"t": []},
        {"": [(0, -1, 5)]},
        {},
    ],
)
def test_what_is_older_or_unusual_is_controls(node: NetNode, asked: Asked) -> None:
    link = node.connect()
    for version in VERSIONS:
        assert told(link, version, asked) == {}
    assert len(node.control.requests) == 3


@pytest.mark.parametrize("state", [SlotState.RECOVERING, SlotState.OFFLINE, SlotState.DELETED])
def test_a_log_that_is_not_open_is_controls(node: NetNode, state: int) -> None:
    node.shared.slots[1, Slot.STATE] = state
    assert told(node.connect(), 4, {"t": [(0, -1, 5), (1, -1, 6)]}) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_too_early_is_controls(node: NetNode, version: int) -> None:
    whole = frame(version, {"t": [(0, -1, 5), (2, -1, 7)]})[4:]
    for end in range(len(whole) - 1, 14, -1):
        answer = ask(node.connect(), struct.pack(">i", end) + whole[:end])
        assert len(answer) == 4, f"answered {end} of {len(whole)} bytes"


def test_answers_are_counted(node: NetNode) -> None:
    link = node.connect()
    for _ in range(3):
        told(link, 4, {"t": [(0, -1, 5), (1, -1, 6)]})
    counted = node.shared.metrics[0]
    assert counted[ml.REQUESTS + OFFSET_FOR_LEADER_EPOCH * ml.VERSION_COUNT + 4] == 3
    assert counted[ml.ERRORS + OFFSET_FOR_LEADER_EPOCH * ml.ERROR_COUNT + 1] == 6
