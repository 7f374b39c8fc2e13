"""Metadata: all topics, none, by id, duplicates, auto-creation, the cache, offline log dirs."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kbroker.config.alter import Alteration
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.config_resource import BROKER
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.schema import ZERO_UUID
from tests.api.in_process import ask, client_request, dispatch_of
from tests.control.changes.created import until_created
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 2), NewTopic("b")]))
        yield one


def metadata(made: World, version: int, request: MetadataRequest) -> Any:
    return asyncio.run(ask(made.broker, ApiKey.METADATA, version, request))


def named(*names: str | None, auto: bool = False) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], auto)


def creating(made: World, version: int, request: MetadataRequest, name: str) -> Any:
    """The answer to a request, after which the topic is created."""

    async def run() -> Any:
        answer = await ask(made.broker, ApiKey.METADATA, version, request)
        assert name not in made.broker.catalogue.topics, "the answer comes first"
        await until_created(made.broker, name)
        return answer

    return asyncio.run(run())


def names(answer: Any) -> list[str | None]:
    return sorted(topic.name for topic in answer.topics)


def test_null_is_all_and_empty_is_none_but_in_v0(made: World) -> None:
    assert names(metadata(made, 0, MetadataRequest([]))) == ["a", "b"]
    assert names(metadata(made, 1, MetadataRequest([]))) == []
    assert names(metadata(made, 1, MetadataRequest(None))) == ["a", "b"]


def test_a_topic_requested_twice_is_answered_once(made: World) -> None:
    answer = metadata(made, 12, named("a", "a", "absent", "absent"))
    assert names(answer) == ["a", "absent"]


def test_topics_are_found_by_id(made: World) -> None:
    topic_id = made.broker.catalogue.topics["a"].topic_id
    request = MetadataRequest([MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"x" * 16, None)])
    found, unknown = metadata(made, 12, request).topics
    assert (found.name, found.error_code) == ("a", 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (
        None,
        b"x" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def test_every_answer_has_topic_ids_from_v10(made: World) -> None:
    topic_ids = [topic.topic_id for topic in metadata(made, 10, MetadataRequest(None)).topics]
    assert topic_ids
    assert ZERO_UUID not in topic_ids


def test_the_broker_is_the_advertised_address_of_the_requests_listener(made: World) -> None:
    made.broker.nodes.endpoints["OUTSIDE"] = Endpoint(
        "OUTSIDE", SecurityProtocol.PLAINTEXT, "example.org", 7777
    )
    from kbroker.protocol.codec import decode_exact, encode
    from kbroker.protocol.messages.metadata import MetadataResponse

    body = encode(MetadataRequest([]), 1)
    for listener, address in (("PLAINTEXT", ("127.0.0.1", 9092)), ("OUTSIDE", ("example.org", 7777))):
        client = msgspec.structs.replace(client_request(ApiKey.METADATA, 1, body), listener=listener)
        frame = dispatch_of(made.broker)(client)
        assert isinstance(frame, bytes)
        (node,) = decode_exact(MetadataResponse, 1, frame, 8).brokers
        assert (node.host, node.port) == address


def test_a_missing_topic_is_created_and_known_from_the_next_request_on(made: World) -> None:
    (topic,) = creating(made, 12, named("fresh", auto=True), "fresh").topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert "fresh" in made.network.topics
    (topic,) = metadata(made, 12, named("fresh", auto=True)).topics
    assert topic.error_code == 0
    assert [partition.leader_id for partition in topic.partitions] == [1]


def test_clients_before_v4_always_allow_creation(made: World) -> None:
    (topic,) = creating(made, 1, named("fresh"), "fresh").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(made, 1, named("fresh")).topics[0].error_code == 0


def test_nothing_is_created_unless_both_sides_allow_it(made: World) -> None:
    (topic,) = metadata(made, 12, named("fresh", auto=False)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made.settings["auto.create.topics.enable"] = "false"
    made.broker.close()
    made.start()
    (topic,) = metadata(made, 12, named("fresh", auto=True)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("auto", [True, False])
def test_a_bad_name_is_never_created(made: World, auto: bool) -> None:
    (topic,) = metadata(made, 12, named("bad name", auto=auto)).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_many_clients_that_create_the_same_topic_get_the_same(made: World) -> None:
    async def many() -> list[Any]:
        request = named("fresh", auto=True)
        await asyncio.gather(*(ask(made.broker, ApiKey.METADATA, 12, request) for _ in range(10)))
        await until_created(made.broker, "fresh")
        return await asyncio.gather(*(ask(made.broker, ApiKey.METADATA, 12, request) for _ in range(10)))

    answers = asyncio.run(many())
    assert {answer.topics[0].error_code for answer in answers} == {0}
    assert len({answer.topics[0].topic_id for answer in answers}) == 1


def test_cached_answers_end_with_the_next_change(made: World) -> None:
    assert names(metadata(made, 12, MetadataRequest(None))) == ["a", "b"]
    assert names(metadata(made, 12, MetadataRequest(None))) == ["a", "b"]
    asyncio.run(create_topics(made.broker, [NewTopic("c")]))
    assert names(metadata(made, 12, MetadataRequest(None))) == ["a", "b", "c"]
    asyncio.run(alter(made.broker, BROKER, "", [Alteration("log.retention.ms", 0, "1")], False))
    assert names(metadata(made, 12, MetadataRequest(None))) == ["a", "b", "c"]


def test_a_partition_on_a_failed_directory_has_no_leader(made: World) -> None:
    metadata(made, 12, named("a"))
    partition = made.broker.catalogue.topics["a"].partitions[1]
    made.broker.dir_errors.fail(partition.folder.rpartition("/")[0], errno.EIO)
    made.shared.slots[partition.slot, Slot.STATE] = SlotState.OFFLINE
    partitions = {each.partition_index: each for each in metadata(made, 12, named("a")).topics[0].partitions}
    assert partitions[0].leader_id == 1
    assert (partitions[1].leader_id, partitions[1].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (partitions[1].isr_nodes, partitions[1].offline_replicas) == ([], [1])


def test_leader_epochs_never_go_back_over_restarts(made: World) -> None:
    before = metadata(made, 12, named("a")).topics[0].partitions[0].leader_epoch
    made.reboot()
    assert metadata(made, 12, named("a")).topics[0].partitions[0].leader_epoch > before


def test_operations_are_answered_only_on_request(made: World) -> None:
    assert metadata(made, 8, named("a")).topics[0].topic_authorized_operations == -(2**31)
    request = MetadataRequest([MetadataRequestTopic(name="a")], False, True, True)
    answer = metadata(made, 8, request)
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096
