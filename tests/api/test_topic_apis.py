"""CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions: the answers to clients."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import check_growth
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages import create_partitions as cp
from kbroker.protocol.messages import create_topics as ct
from kbroker.protocol.messages import delete_topics as dt
from kbroker.protocol.messages import describe_topic_partitions as dtp
from kbroker.protocol.schema import ZERO_UUID
from tests.api.in_process import ask
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path, {"num.partitions": "3"}) as one:
        yield one


def create(
    made: World, *topics: ct.CreatableTopic, version: int = 7, validate: bool = False
) -> dict[str, Any]:
    request = ct.CreateTopicsRequest(list(topics), 1000, validate)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.CREATE_TOPICS, version, request))
    return {topic.name: topic for topic in answer.topics}


def delete(
    made: World, version: int, *names: str, ids: tuple[bytes, ...] = ()
) -> list[tuple[str | None, int]]:
    states = [dt.DeleteTopicState(name) for name in names] + [dt.DeleteTopicState(None, each) for each in ids]
    request = dt.DeleteTopicsRequest(list(names) if version < 6 else [], states if version >= 6 else [], 1000)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DELETE_TOPICS, version, request))
    return [(result.name, result.error_code) for result in answer.responses]


@pytest.mark.parametrize("version", range(4, 8))
def test_minus_one_is_the_brokers_default(made: World, version: int) -> None:
    assert create(made, ct.CreatableTopic("a", -1, -1), version=version)["a"].error_code == 0
    assert len(made.broker.catalogue.topics["a"].partitions) == 3


def test_one_node_grants_one_replica_and_the_answer_has_a_warning(made: World) -> None:
    config = ct.CreatableTopicConfig("min.insync.replicas", "2")
    answer = create(made, ct.CreatableTopic("a", 2, 3, configs=[config]))["a"]
    assert (answer.error_code, answer.replication_factor) == (0, 1)
    assert "has 1 replica a partition, not 3" in answer.error_message
    assert "min.insync.replicas=2 counts as 1" in answer.error_message
    assert [len(p.replicas) for p in made.broker.catalogue.topics["a"].partitions] == [1, 1]
    assert create(made, ct.CreatableTopic("b", 1, 1))["b"].error_message is None


def test_more_replicas_than_nodes_are_refused_without_the_clamp(tmp_path: Path) -> None:
    with world(tmp_path, {"kbroker.clamp.replication.factor": "false"}) as made:
        answer = create(made, ct.CreatableTopic("a", 1, 3))["a"]
        assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 1 broker(s) are registered" in answer.error_message


def test_more_than_three_replicas_are_refused_with_the_clamp(made: World) -> None:
    answers = create(made, ct.CreatableTopic("a", 1, 4), ct.CreatableTopic("b", 1, 3), validate=True)
    assert answers["a"].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "replication factor of 4 cannot be reached" in answers["a"].error_message
    assert answers["b"].error_code == 0


def test_a_default_of_more_than_three_replicas_is_clamped(tmp_path: Path) -> None:
    with world(tmp_path, {"default.replication.factor": "5"}) as one:
        assert create(one, ct.CreatableTopic("a", 1, -1))["a"].replication_factor == 1


def test_replicas_on_unknown_brokers_are_refused_with_the_clamp(made: World) -> None:
    assignment = ct.CreatableReplicaAssignment(0, [1, 2, 3])
    answer = create(made, ct.CreatableTopic("a", -1, -1, assignments=[assignment]))["a"]
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_that_exists_is_not_made_again(made: World) -> None:
    first = create(made, ct.CreatableTopic("a", 1, 1))["a"]
    assert create(made, ct.CreatableTopic("a", 1, 1))["a"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert made.broker.catalogue.topics["a"].topic_id == first.topic_id != ZERO_UUID


def test_the_answer_has_configs_partitions_and_replicas(made: World) -> None:
    config = ct.CreatableTopicConfig("retention.ms", "5")
    answer = create(made, ct.CreatableTopic("a", 2, 1, configs=[config]))["a"]
    assert (answer.num_partitions, answer.replication_factor) == (2, 1)
    configs = {each.name: each for each in answer.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert configs["cleanup.policy"].config_source == 5
    assert list(configs) == sorted(configs)


def test_a_topic_named_twice_is_not_made(made: World) -> None:
    answers = create(
        made, ct.CreatableTopic("a", 1, 1), ct.CreatableTopic("a", 1, 1), ct.CreatableTopic("b", 1, 1)
    )
    assert (answers["a"].error_code, answers["b"].error_code) == (ErrorCode.INVALID_REQUEST, 0)
    assert list(made.broker.catalogue.topics) == ["b"]


def test_every_process_knows_the_topic_when_the_answer_leaves(made: World) -> None:
    create(made, ct.CreatableTopic("a", 1, 1))
    assert "a" in made.network.topics
    assert made.broker.is_online(made.broker.catalogue.topics["a"].partitions[0])


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(made: World, version: int) -> None:
    create(made, ct.CreatableTopic("a", 1, 1))
    assert delete(made, version, "a", "b") == [("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a", 0)]
    assert not made.network.topics


def test_a_topic_that_is_being_created_is_deleted_then(made: World) -> None:
    """The answer "unknown topic" would be wrong as soon as the topic exists."""

    async def all_at_once() -> tuple[Any, ...]:
        creation = ct.CreateTopicsRequest([ct.CreatableTopic("a", 1, 1)], 1000)
        deletion = dt.DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000)
        return await asyncio.gather(
            ask(made.broker, ApiKey.CREATE_TOPICS, 4, creation),
            ask(made.broker, ApiKey.DELETE_TOPICS, 5, deletion),
            ask(made.broker, ApiKey.CREATE_TOPICS, 4, creation),
            ask(made.broker, ApiKey.DELETE_TOPICS, 5, deletion),
            ask(made.broker, ApiKey.DELETE_TOPICS, 5, deletion),
        )

    first, gone, again, gone_again, unknown = asyncio.run(all_at_once())
    assert [first.topics[0].error_code, again.topics[0].error_code] == [0, 0]
    assert [gone.responses[0].error_code, gone_again.responses[0].error_code] == [0, 0]
    assert unknown.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not made.broker.catalogue.topics


def test_topics_are_deleted_by_id(made: World) -> None:
    topic_id = create(made, ct.CreatableTopic("a", 1, 1))["a"].topic_id
    assert delete(made, 6, ids=(topic_id, b"x" * 16)) == [(None, ErrorCode.UNKNOWN_TOPIC_ID), ("a", 0)]


def test_names_and_ids_given_twice_delete_nothing(made: World) -> None:
    topic_id = create(made, ct.CreatableTopic("a", 1, 1))["a"].topic_id
    assert delete(made, 6, "a", "a") == [("a", ErrorCode.INVALID_REQUEST)]
    assert delete(made, 6, ids=(topic_id, topic_id)) == [(None, ErrorCode.INVALID_REQUEST)]
    assert delete(made, 6, "a", ids=(topic_id,)) == [("a", ErrorCode.INVALID_REQUEST)]
    assert "a" in made.broker.catalogue.topics


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_may_be_turned_off(tmp_path: Path, version: int, code: ErrorCode) -> None:
    with world(tmp_path / "w", {"delete.topic.enable": "false"}) as made:
        create(made, ct.CreatableTopic("a", 1, 1))
        assert delete(made, version, "a") == [("a", code)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_changes_of_topics_without_time_are_refused_but_for_names_that_are_repeated(
    made: World, timeout_ms: int
) -> None:
    """As by Apache Kafka's controller, which sees no repeated names."""
    create(made, ct.CreatableTopic("a", 1, 1))
    late, repeated = (ErrorCode.REQUEST_TIMED_OUT, None), (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for names, result in ((["b", "c", "c"], late), (["c", "c"], repeated)):
        count = len(names) if result is late else 1
        topics = [ct.CreatableTopic(name, 1, 1) for name in names]
        grown = [cp.CreatePartitionsTopic(name, 2, None) for name in ["a" if n == "b" else n for n in names]]
        gone = [dt.DeleteTopicState("a" if name == "b" else name) for name in names]
        answers: Any = [
            asyncio.run(ask(made.broker, api, version, request))
            for api, version, request in (
                (ApiKey.CREATE_TOPICS, 7, ct.CreateTopicsRequest(topics, timeout_ms)),
                (ApiKey.CREATE_PARTITIONS, 3, cp.CreatePartitionsRequest(grown, timeout_ms)),
                (ApiKey.DELETE_TOPICS, 6, dt.DeleteTopicsRequest([], gone, timeout_ms)),
            )
        ]
        found = [answers[0].topics, answers[1].results, answers[2].responses]
        assert [{(each.error_code, each.error_message) for each in some} for some in found] == [{result}] * 3
        assert [len(some) for some in found] == [count, 2 if result is late else 1, count]
    assert [len(topic.partitions) for topic in made.broker.catalogue.topics.values()] == [1]


def test_each_topic_grows_independently(made: World) -> None:
    create(made, ct.CreatableTopic("a", 1, 1), ct.CreatableTopic("b", 2, 1))
    specs = [cp.CreatePartitionsTopic(name, count, None) for name, count in (("a", 3), ("b", 2), ("c", 1))]
    answer: Any = asyncio.run(
        ask(made.broker, ApiKey.CREATE_PARTITIONS, 3, cp.CreatePartitionsRequest(specs, 1000, False))
    )
    assert {result.name: result.error_code for result in answer.results} == {
        "a": 0,
        "b": ErrorCode.INVALID_PARTITIONS,
        "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(made.network.topics["a"].partitions) == 3


def test_growth_spends_the_quota_before_its_replicas_are_checked(made: World) -> None:
    """As in Kafka, which before that checks only how many assignments there are."""
    create(made, ct.CreatableTopic("a", 1, 1))
    counted: list[int] = []
    for replicas in ([], [7], [1, 1]):
        with pytest.raises(KafkaError) as refused:
            check_growth(made.broker, "a", 3, [replicas] * 2, counted.append)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert counted == [2, 2, 2]
    with pytest.raises(KafkaError, match="but only 1 assignment"):
        check_growth(made.broker, "a", 3, [[7]], counted.append)
    assert counted == [2, 2, 2]


def page(made: World, limit: int, cursor: Any = None) -> Any:
    at = None if cursor is None else dtp.RequestCursor(cursor.topic_name, cursor.partition_index)
    request = dtp.DescribeTopicPartitionsRequest([], limit, at)
    return asyncio.run(ask(made.broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request))


@pytest.mark.parametrize("limit", range(-1, 9))
def test_pages_by_cursor_show_every_partition_once(made: World, limit: int) -> None:
    create(made, ct.CreatableTopic("b", 3, 1), ct.CreatableTopic("a", 2, 1), ct.CreatableTopic("c", 1, 1))
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(10):
        answer = page(made, limit, cursor)
        shown = [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]
        assert len(shown) <= max(limit, 1)
        seen += shown
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]


def test_the_brokers_own_limit_holds_as_well(tmp_path: Path) -> None:
    with world(tmp_path / "w", {"max.request.partition.size.limit": "2"}) as made:
        create(made, ct.CreatableTopic("a", 5, 1))
        assert len(page(made, 2000).topics[0].partitions) == 2


def test_topics_without_a_name_are_described_as_by_kafka(made: World) -> None:
    """It takes an empty name for the cursor's; without a cursor the request fails as a whole."""
    nameless = [dtp.TopicRequest("absent"), dtp.TopicRequest("")]
    request = dtp.DescribeTopicPartitionsRequest(nameless, 10)
    answer = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    absent, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    for name, codes in (("absent", [absent]), ("", [invalid, absent])):
        request.cursor = dtp.RequestCursor(name, 0)
        answer = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request))
        assert [topic.error_code for topic in answer.topics] == codes
