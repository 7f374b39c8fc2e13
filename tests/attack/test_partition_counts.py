"""Requests for more partitions than any host has: refused at once, as Apache Kafka refuses them."""

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.attack.peers import Target, target
from tests.callbacks import slowness
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

AT_ONCE_CPU_S = 10  # of all processes of the broker
COUNTS = (20_000, 1_000_000, 2_000_000_000)


def create(peer: Target, *topics: CreatableTopic, dry: bool = False) -> list[tuple[str, int, str | None]]:
    answer = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(list(topics), 30_000, dry))
    return sorted((each.name, each.error_code, each.error_message) for each in answer.topics)


def grow(peer: Target, name: str, count: int, dry: bool) -> int:
    topics = [CreatePartitionsTopic(name, count, None)]
    answer = peer.ask(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics, 30_000, dry))
    return int(answer.results[0].error_code)


def topic(name: str, count: int) -> CreatableTopic:
    return CreatableTopic(name, count, -1)


def assigned(name: str, count: int) -> CreatableTopic:
    return CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(index, [0]) for index in range(count)])


def conversation(peer: Target) -> list[object]:
    """Answers to what asks for too much, never for what is possible: nothing is created but one
    topic.

    No topic grows by more than some: Apache Kafka places all of them first, and its controller
    does not survive 20,000,000.
    """
    reported: list[object] = [create(peer, topic("grows", 1))]
    for count in COUNTS:
        for dry in (True, False):
            reported.append(create(peer, topic("big", count), dry=dry))
    reported.append(create(peer, topic("one", 6000), topic("two", 6000), dry=True))
    reported.append(create(peer, topic("one", 10_000), dry=True))
    reported.append(create(peer, *(topic(f"t{number}", 1) for number in range(5001)), dry=True))
    reported.append(create(peer, topic("good", 1), topic("bad name", 20_000), dry=True))
    reported.append(create(peer, assigned("given", 10_001), dry=True))
    reported.append([grow(peer, "grows", count, dry) for count in (20_000,) for dry in (True, False)])
    reported.append(grow(peer, "nobody", 2_000_000_000, True))
    return reported


@pytest.mark.parametrize("count", COUNTS)
def test_too_many_partitions_are_refused_at_once(broker: KBroker, count: int) -> None:
    peer = target(broker)
    create(peer, topic("grew", 1))
    before_s = broker.cpu_s()
    for dry in (True, False):
        assert create(peer, topic("big", count), dry=dry) == [
            ("big", ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        ]
        assert grow(peer, "grew", count, dry) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.cpu_s() - before_s < AT_ONCE_CPU_S * slowness()


@pytest.mark.kafka
@pytest.mark.long
def test_answers_are_apache_kafkas(broker: KBroker, fresh_kafka: ApacheKafka) -> None:
    assert conversation(target(broker)) == conversation(Target(fresh_kafka.port))
