"""Requests for any combination of topics are answered from parts, byte for byte as control would
answer them."""

import struct
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.api.cached_answers import cached_by_topic
from kbroker.api.config_results import ConfigResults
from kbroker.api.context import RequestContext
from kbroker.ipc.cached_answers import AnswerVersions, CachedAnswer
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.net.rows import AnswerTable
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, encode_response, flexible
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kbroker.protocol.schema import Struct
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask, read_frame

CORRELATION_ID = 7
ROOM = 100
HEADER_BYTES = 4 + 11  # of a request from "c", without tags


class Scene:
    """A network process, and a control that knows a number of each topic. requests: their
    number."""

    def __init__(self, node_factory: NodeFactory) -> None:
        self.numbers: dict[str, int] = {}
        self.padding = 0
        self.node: NetNode = node_factory({"t": 1}, answer=self._answer)
        self.words = AnswerVersions(self.node.shared.cached_answers)
        self.link = self.node.connect()

    @property
    def requests(self) -> int:
        return len(self.node.control.requests)

    def response(self, api: int, version: int, body: bytes) -> Struct:
        """What is said when parts are not to be seen."""
        if api == ApiKey.METADATA:
            requested = decode_exact(MetadataRequest, version, body)
            names = [topic.name for topic in requested.topics or ()]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(1, "host", 9092, None)],
                cluster_id="cluster",
                topics=[self._topic(name or "") for name in names],
            )
        described = decode_exact(DescribeTopicPartitionsRequest, version, body)
        return DescribeTopicPartitionsResponse(
            topics=[self._described(name) for name in sorted(topic.name for topic in described.topics)]
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        parts = [MetadataResponsePartition(0, 0, 1, self.numbers.get(name, 0), [1] * self.padding, [1], [])]
        return MetadataResponseTopic(0, name, bytes(16), False, parts)

    def _described(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        parts = [DescribeTopicPartitionsResponsePartition(0, 0, 1, self.numbers.get(name, 0))]
        return DescribeTopicPartitionsResponseTopic(0, name, bytes(16), False, parts)

    def _answer(self, request: ClientRequest) -> bytes:
        services: Any = SimpleNamespace(broker=SimpleNamespace(cached_answers=self.words))
        response: Any = self.response(request.api_key, request.api_version, request.body)
        made = cached_by_topic(
            RequestContext(services, cast(ConfigResults, None), request),
            response,
            lambda topic: topic.name.encode(),
            ROOM,
        )
        assert isinstance(made, CachedAnswer)
        return made

    def check(self, api: int, version: int, request: Struct) -> int:
        """Ask, and compare with what is so now; bytes of the answer."""
        frame = encode_request(api, version, CORRELATION_ID, "c", request)
        body = frame[HEADER_BYTES + flexible(api, version) :]
        expected = encode_response(api, version, CORRELATION_ID, self.response(api, version, body))
        assert ask(self.link, frame) == expected[4:]
        return len(expected)

    def metadata(self, *names: str, version: int = 12) -> int:
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        return self.check(ApiKey.METADATA, version, request)

    def describe(self, *names: str) -> None:
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], 2000)
        self.check(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)


@pytest.fixture
def scene(node_factory: NodeFactory) -> Scene:
    return Scene(node_factory)


@pytest.mark.parametrize("version", range(14))
def test_parts_of_two_answers_make_a_third_one(scene: Scene, version: int) -> None:
    scene.numbers = {"a": 1, "b": 2, "c": 3, "d": 4}
    scene.metadata("a", "b", version=version)
    scene.metadata("c", version=version)
    assert scene.requests == 2
    for names in (["a"], ["b", "c"], ["c", "b", "a"], ["c", "a"]):
        scene.metadata(*names, version=version)
    assert scene.requests == 2
    scene.metadata("a", "d", version=version)
    scene.metadata("d", "c", version=version)
    assert scene.requests == 3


def test_described_topics_come_sorted_whatever_their_order_in_the_request(scene: Scene) -> None:
    names = [f"t{number}" for number in range(40)] + ["t", "T", "t1-", "é", "\U0001f600"]
    for name in names:
        scene.describe(name)
    requested, random = scene.requests, Random(3)
    for count in (2, 3, 10, 45):
        for _ in range(30):
            scene.describe(*random.sample(names, count))
    scene.describe(*sorted(names))
    scene.describe(*sorted(names, reverse=True))
    assert scene.requests == requested


def test_more_partitions_than_fit_on_a_page_are_controls(scene: Scene) -> None:
    names = [f"t{number:03}" for number in range(ROOM + 1)]
    for name in names:
        scene.describe(name)
    requested = scene.requests
    scene.describe(*names[:-1])
    assert scene.requests == requested
    scene.describe(*names)
    assert scene.requests == requested + 1


def test_after_a_change_no_part_is_seen_again(scene: Scene) -> None:
    scene.numbers = {"a": 1, "b": 1}
    for number in range(2, 6):
        scene.metadata("a")
        scene.metadata("b")
        requested = scene.requests
        scene.metadata("b", "a")
        assert scene.requests == requested
        scene.numbers = {"a": number, "b": number}
        scene.words.topics_changed()
        scene.metadata("a", "b")  # both again
        scene.metadata("b", "a")
        assert scene.requests == requested + 1
        scene.words.topics_changed()
        scene.metadata("b")
        scene.metadata("a", "b")  # of a there is none that stands
        assert scene.requests == requested + 3


def test_a_part_that_grows_or_shrinks_is_cached_again(scene: Scene) -> None:
    for turn, scene.padding in enumerate((3, 50, 2, 700, 0, 51), 1):
        scene.words.topics_changed()
        scene.metadata("a", "b")
        scene.metadata("b")
        scene.metadata("b", "a")
        assert scene.requests == turn


def test_nothing_is_composed_while_a_log_dir_has_failed(scene: Scene) -> None:
    scene.metadata("a", "b")
    scene.node.shared.log_dir_errors[-1] = 5
    scene.metadata("b", "a")
    assert scene.requests == 2


def test_options_and_version_are_part_of_the_question(scene: Scene) -> None:
    scene.metadata("a", "b")
    topics = [MetadataRequestTopic(name="b"), MetadataRequestTopic(name="a")]
    for requested, request in enumerate(
        (MetadataRequest(topics, False), MetadataRequest(topics, True, False, True)), 2
    ):
        scene.check(ApiKey.METADATA, 12, request)
        assert scene.requests == requested
    scene.metadata("b", "a", version=11)
    assert scene.requests == 4


@pytest.mark.parametrize("version", [1, 4, 8, 9, 12])
def test_a_topic_requested_twice_and_a_malformed_request_are_left_to_control(
    scene: Scene, version: int
) -> None:
    scene.metadata("a", version=version)
    scene.metadata("b", version=version)
    scene.node.control.answer = lambda request: struct.pack(">ii", 4, request.correlation_id)

    def frame(*names: str | None) -> bytes:
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        return encode_request(ApiKey.METADATA, version, CORRELATION_ID, "c", request)

    assert len(ask(scene.link, frame("b", "a"))) > 4
    for names in (("a", "b", "a"), ("a", "absent"), ("a", ""), *([("a", None)] if version >= 10 else [])):
        assert len(ask(scene.link, frame(*names))) == 4
    whole = frame("b", "a")[4:]
    for end in range(len(whole) - 1, 14, -1):
        assert len(ask(scene.node.connect(), struct.pack(">i", end) + whole[:end])) == 4


def test_answers_of_parts_are_counted(scene: Scene) -> None:
    sizes = [scene.metadata(*names, version=13) for names in ("a", "b", "c", "bc", "abc")]
    counted = scene.node.shared.metrics[0]
    assert counted[ml.REQUESTS + ApiKey.METADATA * ml.VERSION_COUNT + 13] == 5
    # control counts the codes of the first three; one at the top, then each topic's and each
    # partition's
    assert counted[ml.ERRORS + ApiKey.METADATA * ml.ERROR_COUNT + 1] == 5 + 7
    assert counted[ml.RESPONSE_BYTES + ApiKey.METADATA] == sum(sizes)


def test_memory_is_bounded_and_every_answer_right(scene: Scene) -> None:
    """More topics, and more bytes, than there is room for: all are forgotten, and cached again."""
    random = Random(1)
    for scene.padding, count in (
        (0, AnswerTable.MAX_PARTS * 5 // 4),
        (2_000, AnswerTable.MAX_POOL_BYTES // 6_000),
    ):
        scene.words.topics_changed()
        names = [f"name-{number}" for number in range(count)]
        for name in names:
            scene.numbers[name] = random.randrange(1000)
        for _ in range(2):
            for start in range(0, count, 5):
                scene.metadata(*names[start : start + 5])
            for _ in range(300):
                start = random.randrange(count - 5)
                scene.metadata(*random.sample(names[start : start + 5], 3))


def test_answers_that_the_socket_does_not_take_arrive_complete_and_in_order(scene: Scene) -> None:
    scene.padding = 2_000
    names = [f"name-{number}" for number in range(20)]
    for name in names:
        scene.metadata(name)
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    frames = [encode_request(ApiKey.METADATA, 12, number, "c", request) for number in range(100)]
    scene.link.sendall(b"".join(frames))
    reported = scene.response(ApiKey.METADATA, 12, frames[0][HEADER_BYTES + 1 :])
    for number in range(len(frames)):
        assert read_frame(scene.link) == encode_response(ApiKey.METADATA, 12, number, reported)[4:]
    assert scene.requests == len(names)
