"""Answers to administrators stay cached until their contents change, by whatever request."""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages import alter_client_quotas as quotas
from kbroker.protocol.messages import describe_producers
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from kbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.schema import Struct
from tests.api.in_process import client_request, dispatch_of, send
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import World, world

SUBSCRIPTION = ("metrics", "org.apache.kafka.")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 2)]))
        yield one


def configs(kind: int, name: str) -> tuple[ApiKey, int, Struct]:
    return ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])


def altering(kind: int, name: str, key: str, value: str) -> tuple[ApiKey, int, Struct]:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource], False)


NEW_TOPIC = ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("b", 1, 1, [], [])], 1000)
TOPICS = ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([], 2000)
RESOURCES = ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest([])
QUOTAS = ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest([], False)
NEW_QUOTA = (
    ApiKey.ALTER_CLIENT_QUOTAS,
    1,
    quotas.AlterClientQuotasRequest(
        [
            quotas.RequestEntryData(
                [quotas.RequestEntityData("user", "u")], [quotas.OpData("request_percentage", 9.0, False)]
            )
        ],
        False,
    ),
)
USERS = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(None)
NEW_USER = (
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    0,
    AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("u", 1, 4096, b"salt", b"x" * 32)]),
)
CHANGES = [
    (configs(TOPIC, "a"), altering(TOPIC, "a", "retention.ms", "5")),
    (configs(TOPIC, "a"), altering(BROKER, "", "log.retention.ms", "5")),
    (configs(BROKER, "1"), altering(BROKER, "1", "log.retention.ms", "5")),
    (configs(BROKER, ""), altering(BROKER, "", "log.retention.ms", "5")),
    (configs(GROUP, "g"), altering(GROUP, "g", "consumer.session.timeout.ms", "50000")),
    (configs(CLIENT_METRICS, "s"), altering(CLIENT_METRICS, "s", *SUBSCRIPTION)),
    (TOPICS, NEW_TOPIC),
    (RESOURCES, NEW_TOPIC),
    (RESOURCES, altering(GROUP, "g", "consumer.session.timeout.ms", "50000")),
    (QUOTAS, NEW_QUOTA),
    (USERS, NEW_USER),
]


@pytest.mark.parametrize(("question", "change"), CHANGES)
def test_an_answer_is_cached_until_its_content_has_changed(
    made: World, question: tuple[ApiKey, int, Struct], change: tuple[ApiKey, int, Struct]
) -> None:
    before = asyncio.run(send(made.broker, *question))
    assert isinstance(before, CachedAnswer)
    assert before.terms == asyncio.run(send(made.broker, *question)).terms  # type: ignore[union-attr]
    asyncio.run(send(made.broker, *change))
    after = asyncio.run(send(made.broker, *question))
    assert isinstance(after, CachedAnswer)
    assert after != before
    assert after.terms != before.terms


def test_answers_without_change_notices_and_refusals_are_not_cached(made: World) -> None:
    cluster = ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()
    assert isinstance(asyncio.run(send(made.broker, *cluster)), CachedAnswer)
    for question in (configs(BROKER_LOGGER, "1"), configs(TOPIC, "absent")):
        assert not isinstance(asyncio.run(send(made.broker, *question)), CachedAnswer)


def test_answers_about_named_topics_can_be_taken_apart_pages_can_not(made: World) -> None:
    asyncio.run(create_topics(made.broker, [NewTopic("b", 3)]))
    topic_id = made.broker.catalogue.topics["a"].topic_id
    named, by_id = MetadataRequestTopic(name="b"), MetadataRequestTopic(topic_id, None)

    def keys(api: ApiKey, version: int, request: Struct) -> list[bytes] | None:
        answer = asyncio.run(send(made.broker, api, version, request))
        assert isinstance(answer, CachedAnswer)
        if answer.topic_split is None:
            return None
        sizes = sum(part.size for part in answer.topic_split.parts)
        assert (
            8
            < answer.topic_split.array
            < answer.topic_split.first
            < answer.topic_split.first + sizes
            < len(answer)
        )
        assert answer.codes == answer.topic_split.codes + sum(part.codes for part in answer.topic_split.parts)
        return [part.key for part in answer.topic_split.parts]

    def described(*names: str, limit: int = 5, cursor: RequestCursor | None = None) -> Struct:
        return DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)

    for _ in range(2):  # the second one from control's cache
        assert keys(ApiKey.METADATA, 12, MetadataRequest([named], False)) == [b"b"]
        assert keys(ApiKey.METADATA, 12, MetadataRequest([by_id], False)) == [topic_id]
        assert keys(ApiKey.METADATA, 12, MetadataRequest(None, False)) is None
    describe = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    assert keys(describe, 0, described("b", "a")) == [b"a", b"b"]
    assert keys(describe, 0, described("b", "a", limit=4)) is None
    assert keys(describe, 0, described("b", "a", cursor=RequestCursor("a", 0))) is None
    assert keys(describe, 0, described()) is None


def test_settings_are_cached_by_override_and_request(made: World) -> None:
    asyncio.run(create_topics(made.broker, [NewTopic("c", 1), NewTopic("d", configs={"retention.ms": "7"})]))

    def listed(name: str, **options: bool) -> bytes:
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, None)], **options)
        frame = asyncio.run(send(made.broker, ApiKey.DESCRIBE_CONFIGS, 4, request))
        assert frame is not None
        return bytes(frame[8:]).replace(b"\x02" + name.encode(), b"\x02?", 1)

    assert listed("a") == listed("c") != listed("d")
    assert (
        len({listed("a"), listed("a", include_synonyms=True), listed("a", include_documentation=True)}) == 3
    )


FROM_LOGS = [
    (
        ApiKey.LIST_OFFSETS,
        8,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic("a", [ListOffsetsPartition(1, -1, 5)])]),
    ),
    (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("a", [1])]),
    ),
]


@pytest.mark.parametrize("question", FROM_LOGS)
def test_an_answer_from_a_log_is_cached_for_the_version_of_its_slot(
    made: World, question: tuple[ApiKey, int, Struct]
) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[1].slot
    for version in (4, 6):
        made.shared.slots[slot, Slot.SEQUENCE] = version
        answer = asyncio.run(send(made.broker, *question))
        assert isinstance(answer, CachedAnswer)
        assert struct.unpack("<2q", answer.terms[-16:]) == (slot, version)


@pytest.mark.parametrize("question", FROM_LOGS)
def test_an_answer_from_a_log_is_not_cached_if_topics_change_meanwhile(
    made: World, question: tuple[ApiKey, int, Struct]
) -> None:
    api, version, request = question

    async def changed_meanwhile() -> object:
        found = dispatch_of(made.broker)(client_request(api, version, encode(request, version)))
        made.broker.cached_answers.topics_changed()
        return await answer_of(found)

    answer = asyncio.run(changed_meanwhile())
    assert isinstance(answer, bytes)
    assert not isinstance(answer, CachedAnswer)


def test_producers_that_are_read_while_their_slot_is_written_are_cached_for_no_version(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[1].slot
    made.shared.slots[slot, Slot.SEQUENCE] = 5
    answer = asyncio.run(send(made.broker, *FROM_LOGS[1]))
    assert isinstance(answer, CachedAnswer)
    assert struct.unpack("<2q", answer.terms[-16:]) == (slot, 4)  # it never comes back
