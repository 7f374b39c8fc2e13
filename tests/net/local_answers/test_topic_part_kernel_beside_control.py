"""Random requests about topics, sent to a network process and to control, while topics change."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.schema import Struct
from tests.api.in_process import send
from tests.control.fakes import World, world
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask

INTERNAL = "__consumer_offsets"
NAMES = [f"topic-{number}" for number in range(10)] + ["t", "T.1", INTERNAL]
NEVER = ["absent", "bad name"]
TURNS = 30
QUESTIONS = 100


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    settings = {"auto.create.topics.enable": "false", "max.request.partition.size.limit": "9"}
    with world(tmp_path, settings) as one:
        asyncio.run(create_topics(one.broker, [NewTopic(name, 2) for name in NAMES]))
        yield one


class Asker:
    """Makes questions, and changes what their answers are."""

    def __init__(self, seed: int, made: World) -> None:
        self.random = Random(seed)
        self.made = made
        self.version = 12
        self.options = False, False, False

    def metadata(self) -> tuple[ApiKey, int, Struct]:
        random = self.random
        version = self.version
        names: list[str | None] = [*random.sample(NAMES, random.randrange(1, 5))]
        if random.random() < 0.1:
            names.append(random.choice([*names, *NEVER]))
        topics = [MetadataRequestTopic(name=name) for name in names]
        if version >= 12 and random.random() < 0.4:
            topics = [MetadataRequestTopic(self.topic_id(name), None) for name in names if name]
            if random.random() < 0.1:
                topics.append(MetadataRequestTopic(name=random.choice(NAMES)))
        if random.random() < 0.05:
            topics[0].topic_id = random.randbytes(16)
        return ApiKey.METADATA, version, MetadataRequest(topics, *self.options)

    def description(self) -> tuple[ApiKey, int, Struct]:
        random = self.random
        names = random.sample(NAMES, random.randrange(1, 6))
        if random.random() < 0.1:
            names.append(random.choice([*names, *NEVER]))
        cursor = RequestCursor(random.choice(names), random.randrange(3)) if random.random() < 0.1 else None
        limit = random.choice((1, 8, 2000, 2000, 2000))
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
        return ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request

    def topic_id(self, name: str) -> bytes:
        topic = self.made.broker.catalogue.get(name)
        return b"\7" * 16 if topic is None else topic.topic_id

    def change(self) -> None:
        """One change of one topic, or a restart of control, which is a new leader epoch for all;
        other clients."""
        name = self.random.choice(NAMES)
        self.version = self.random.choice((0, 1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 12, 12, 13))
        auto, cluster, operations = (self.random.random() < 0.5 for _ in range(3))
        self.options = auto, cluster and 8 <= self.version <= 10, operations
        changes: list[Callable[[], None]] = [
            lambda: self._send(
                ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
            ),
            self._create,
            lambda: self._grow(name),
            lambda: self._configure(name),
            self._restart,
        ]
        self.random.choice(changes)()

    def _create(self) -> None:
        """All that are missing."""
        missing = [name for name in NAMES if self.made.broker.catalogue.get(name) is None]
        new = [NewTopic(name, self.random.randrange(1, 4)) for name in missing]
        asyncio.run(create_topics(self.made.broker, new))

    def _grow(self, name: str) -> None:
        topic = self.made.broker.catalogue.get(name)
        if topic is not None:
            grown = CreatePartitionsTopic(name, len(topic.partitions) + 1, None)
            self._send(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest([grown], 1000))

    def _configure(self, name: str) -> None:
        config = AlterableConfig("retention.ms", 0, str(self.random.randrange(1000)))
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, name, [config])])
        self._send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)

    def _restart(self) -> None:
        self.made.broker.close()
        self.made.start()

    def _send(self, api: ApiKey, version: int, request: Struct) -> None:
        assert asyncio.run(send(self.made.broker, api, version, request))


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_control_whatever_changes(
    made: World, node_factory: NodeFactory, seed: int
) -> None:
    def answer(request: ClientRequest) -> bytes | None:
        return asyncio.run(send(made.broker, ApiKey(request.api_key), request.api_version, request.body))

    node: NetNode = node_factory({"t": 1}, answer=answer)
    link, asker, requested = node.connect(), Asker(seed, made), 0
    for turn in range(TURNS):
        if turn:
            asker.change()
        node.shared.cached_answers[:] = made.shared.cached_answers
        for _ in range(QUESTIONS):
            api, version, request = asker.random.choice((asker.metadata, asker.description))()
            expected = asyncio.run(send(made.broker, api, version, encode(request, version)))
            assert expected is not None
            assert ask(link, encode_request(api, version, 7, "c", request)) == expected[4:], (turn, request)
            requested += 1
    assert len(node.control.requests) < requested * 0.8
