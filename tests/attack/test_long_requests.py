"""One request with hundreds of thousands of entries: answered, while everybody else is served, and
forgotten after."""

import time

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.attack.long_requests import REQUESTS
from tests.attack.others import Others
from tests.attack.peers import Target, port_of
from tests.callbacks import slowness
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

NEARLY_ALL_WAIT_S, MAX_WAIT_S = 0.5, 2.0
"""Of any other client, on a busy host: in one piece each of these takes seconds there. In the best
of ROUNDS at most, because what a busy host does to one of them it does not do to all."""
ROUNDS = 4
GROWTH_MB = 250
"""What one request may leave behind: objects of others that live on pin pieces of the memory it has
used."""
MORE_MB = 130
"""What the same request may add to that."""


def memory_mb(broker: KBroker) -> float:
    found = [child.memory_info().rss for title, child in broker.children().items() if "io" not in title]
    return sum(found) / (1 << 20)


@pytest.mark.parametrize("name", REQUESTS)
def test_others_do_not_wait_for_a_long_request(broker: KBroker, name: str) -> None:
    api, version, make = REQUESTS[name]
    request = make()
    target = Target(port_of(broker))
    frame = encode_request(api, version, 7, "long", request)
    before = memory_mb(broker)
    left = 0.0
    rounds = []
    for number in range(ROUNDS):
        with Others(target.port) as others:
            answer = target.send(frame)
        assert answer is not None, "the connection was closed"
        rounds.append(others.waits)
        if number == 0:
            assert grows_by_less_than(GROWTH_MB, broker, before)
            left = memory_mb(broker)
        elif served_soon(rounds):
            break
    longest = [f"{len(waits)} waits, the longest {waits[-9:]}" for waits in rounds]
    assert served_soon(rounds), longest
    assert grows_by_less_than(MORE_MB, broker, left)


def served_soon(rounds: list[list[float]]) -> bool:
    """rounds: sorted seconds that others waited."""
    nearly_all = min(waits[len(waits) * 99 // 100] for waits in rounds)
    slower = slowness()
    return (
        nearly_all < NEARLY_ALL_WAIT_S * slower and min(waits[-1] for waits in rounds) < MAX_WAIT_S * slower
    )


def grows_by_less_than(limit_mb: float, broker: KBroker, before: float) -> bool:
    """Once processes have given memory back: within seconds, on a quiet machine."""
    deadline = time.monotonic() + 60
    while memory_mb(broker) - before >= limit_mb:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_a_repeated_request_is_answered_once(broker: KBroker) -> None:
    target = Target(port_of(broker))
    node = target.ask(ApiKey.METADATA, 5, MetadataRequest([], False)).controller_id
    resources = [DescribeConfigsResource(4, str(node), None) for _ in range(60_000)]
    answer = target.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources, True, True))
    assert [(each.error_code, each.resource_name) for each in answer.results] == [(0, str(node))]
    assert len(answer.results[0].configs) > 100


@pytest.mark.parametrize("count", [40_000, 65_535, 100_000])
def test_a_produce_with_many_partitions_is_answered(broker: KBroker, count: int) -> None:
    assert set(produced(Target(port_of(broker)), count)) == {3}


@pytest.mark.kafka
def test_produce_is_answered_as_by_apache_kafka(broker: KBroker, fresh_kafka: ApacheKafka) -> None:
    assert produced(Target(port_of(broker)), 65_535) == produced(Target(fresh_kafka.port), 65_535)


def produced(target: Target, count: int) -> list[int]:
    parts = [PartitionProduceData(number, None) for number in range(count)]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData("no-topic", partition_data=parts)]
    )
    answer = target.ask(ApiKey.PRODUCE, 8, request)
    return [int(part.error_code) for part in answer.responses[0].partition_responses]
