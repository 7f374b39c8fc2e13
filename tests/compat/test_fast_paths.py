"""Compiled fast paths and Python answer the same requests with the same bytes, in every version.

Bytes after a message are legal. A request with many of them is larger than compiled code takes, so
Python serves it: the same question, asked both ways.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from random import Random
from typing import Any

import psutil
import pytest

from kbroker.api.error_counts import error_codes
from kbroker.api.registry import APIS
from kbroker.api.row import COMMIT_CACHE
from kbroker.net.receive_kernel import MAX_FETCH
from kbroker.net.rows import ForwardedApi
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.compat.fast_path_requests import PARTITIONS, REQUESTS, TRANSACTIONAL_ID, Known
from tests.compat.group_requests import commit_request, join_request, sync_request
from tests.compat.raw import SocketPeer, receive
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, pytest.mark.short]

PADDING = bytes(max(ForwardedApi.FRAME_BYTES, MAX_FETCH))
QUESTIONS = 8
MISSED = 2
"""Of these, after which a network process on a busy machine has more time for an answer."""
LARGEST_TIMESTAMP = -3
TOPICS = ("a", "b", "c")
FAST = {key: api for key, api in APIS.items() if api.fast_paths and key != ApiKey.PRODUCE}


@pytest.fixture(scope="module")
def known(broker: KBroker) -> Known:
    peer = SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    topics = [CreatableTopic(name, PARTITIONS, 1) for name in TOPICS]
    assert _done(peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 10_000)))
    found = Known({name: peer.topic_id(name) for name in TOPICS}, "offsets")
    batch = build_batch([(b"k", b"v" * 40, (), time.time_ns() // 1_000_000)] * 2)
    for _ in range(2):
        parts = [PartitionProduceData(index, batch) for index in range(PARTITIONS)]
        request = ProduceRequest(
            None, -1, 10_000, [TopicProduceData(name, bytes(16), parts) for name in TOPICS]
        )
        assert _done(peer.ask(ApiKey.PRODUCE, 9, request))
    for kind, name in enumerate(("offsets", TRANSACTIONAL_ID)):
        eventually(partial(_coordinated, peer, name, kind))
    for name in TOPICS:
        eventually(partial(_committed, peer, name))
    transactional = InitProducerIdRequest(TRANSACTIONAL_ID, 60_000)
    eventually(lambda: _done(peer.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional)))
    joined: Any = peer.ask(ApiKey.JOIN_GROUP, 3, join_request("classic", session_ms=60_000))
    found.members["classic"] = joined.member_id, joined.generation_id
    given = {joined.member_id: b""}
    assert _done(
        peer.ask(ApiKey.SYNC_GROUP, 3, sync_request("classic", joined.generation_id, joined.member_id, given))
    )
    beat = ConsumerGroupHeartbeatRequest(
        "consumer", "m" * 22, 0, None, None, 60_000, list(TOPICS), None, None, []
    )
    member: Any = peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat)
    found.members["consumer"] = member.member_id, member.member_epoch
    return found


class Link:
    """One connection. answers are frames without their size."""

    def __init__(self, broker: KBroker) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])))

    def send(self, frame: bytes, padding: bytes = b"") -> None:
        (size,) = struct.unpack(">i", frame[:4])
        self.socket.sendall(struct.pack(">i", size + len(padding)) + frame[4:] + padding)

    def answer(self, timeout_s: float = 60) -> bytes | None:
        """None when there is none in time."""
        self.socket.settimeout(timeout_s)
        try:
            head = receive(self.socket, 4)
        except TimeoutError:
            return None
        self.socket.settimeout(60)
        assert head is not None, "the connection was closed"
        return receive(self.socket, struct.unpack(">i", head)[0])

    def ask(self, frame: bytes, padding: bytes = b"") -> bytes | None:
        self.send(frame, padding)
        return self.answer()


def test_the_generator_knows_every_api_with_a_fast_path() -> None:
    assert REQUESTS.keys() == FAST.keys()


@pytest.mark.parametrize("key", sorted(FAST), ids=lambda key: FAST[key].name)
def test_both_paths_answer_with_the_same_bytes(broker: KBroker, known: Known, key: ApiKey) -> None:
    api = FAST[key]
    first = api.min_version if api.accepted_from is None else api.accepted_from
    with _link(broker) as link:
        for version in range(first, api.max_version + 1):
            _compare(broker, link, key, version, _requests(key, version, known))


def _requests(key: ApiKey, version: int, known: Known) -> list[Struct]:
    random = Random(version)
    return [REQUESTS[key](random, known, version) for _ in range(QUESTIONS)]


def _compare(broker: KBroker, link: Link, key: ApiKey, version: int, requests: list[Struct]) -> None:
    level = _level(key, version)
    frames = [encode_request(key, version, number, "c", each) for number, each in enumerate(requests)]
    by_python = [level(link.ask(frame, PADDING)) for frame in frames]
    for frame in 2 * frames:  # compiled code learns from what control answers, or Python twice
        link.ask(frame)
    fast = 0
    for number, frame in enumerate(frames):
        if COMMIT_CACHE in APIS[key].fast_paths:
            found: bytes | None = link.ask(frame)  # the cache is in control
            fast += 1
        else:
            patience_s = 0.2 if number - fast < MISSED else 2.0
            with _control_stopped(broker):
                link.send(frame)
                found = link.answer(patience_s)
            fast += found is not None
            found = link.answer() if found is None else found
        assert level(found) == by_python[number], (version, requests[number])
    assert fast >= QUESTIONS // 2, f"only {fast} answers of version {version} are compiled code's"


def _level(key: ApiKey, version: int) -> Callable[[bytes | None], bytes]:
    """The answer's bytes; of a new producer id its digits do not count."""

    def level(frame: bytes | None) -> bytes:
        assert frame is not None
        if key != ApiKey.INIT_PRODUCER_ID:
            return frame
        _, start = parse_response(frame, key, version)
        answer: Any = decode_exact(APIS[key].response, version, frame, start)
        assert answer.producer_id >= 0
        return frame.replace(struct.pack(">q", answer.producer_id), bytes(8))

    return level


@contextmanager
def _link(broker: KBroker) -> Iterator[Link]:
    link = Link(broker)
    with closing(link.socket):
        yield link


@contextmanager
def _control_stopped(broker: KBroker) -> Iterator[None]:
    """Control is stopped: what is answered now is the network process's own answer."""
    children = psutil.Process(broker.pid).children(recursive=True)
    control = next(each for each in children if "control" in " ".join(each.cmdline()))
    control.suspend()
    try:
        yield
    finally:
        control.resume()


def _coordinated(peer: SocketPeer, name: str, kind: int) -> bool:
    return _done(peer.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(name, kind)))


def _committed(peer: SocketPeer, topic: str) -> bool:
    commit = commit_request("offsets", topic, 3, partitions=(0, 1))
    return _done(peer.ask(ApiKey.OFFSET_COMMIT, 8, commit))


def _done(answer: Struct | None) -> bool:
    """Whether the answer has no error anywhere."""
    assert answer is not None
    return not any(error_codes(answer))


def test_repeated_questions_about_a_log_show_every_acknowledged_batch(broker: KBroker, known: Known) -> None:
    """Answers from a log are cached until it changes: the producers of a partition, its largest
    timestamp, and the first record from a time on."""
    peer, name = SocketPeer(int(broker.bootstrap.rpartition(":")[2])), "a"
    began = time.time_ns() // 1_000_000 + 60_000
    initial: Any = peer.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1000))
    offset = -1
    for number in range(20):
        batch = build_batch([(b"k", b"v", (), began + number)], producer=(initial.producer_id, 0, number))
        data = [TopicProduceData(name, bytes(16), [PartitionProduceData(0, batch)])]
        produced: Any = peer.ask(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 10_000, data))
        assert _done(produced)
        offset = produced.responses[0].partition_responses[0].base_offset
        for _ in range(3):  # the later ones from the cache
            producers = DescribeProducersRequest([TopicRequest(name, [0])])
            described: Any = peer.ask(ApiKey.DESCRIBE_PRODUCERS, 0, producers)
            (state,) = described.topics[0].partitions[0].active_producers
            assert (state.producer_id, state.last_sequence) == (initial.producer_id, number)
            for timestamp in (LARGEST_TIMESTAMP, began + number):
                parts = [ListOffsetsPartition(0, -1, timestamp)]
                request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, parts)])
                listed: Any = peer.ask(ApiKey.LIST_OFFSETS, 8, request)
                found = listed.topics[0].partitions[0]
                assert (found.offset, found.timestamp) == (offset, began + number)
