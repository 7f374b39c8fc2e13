"""A Produce request with batches of two transactional producers is refused, as by Kafka
(ReplicaManager.handleProduceAppend)."""

import pytest

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.net.conftest import NodeFactory
from tests.net.doubles import ask
from tests.net.requests import PRODUCE, TOPIC_ID, batch, read_produce

PRODUCER, OTHER = (77, 3), (78, 3)


def of(producer: tuple[int, int], transactional: bool = True) -> bytes:
    return batch(producer=(*producer, 0), transactional=transactional)


def frame(version: int, *batches: tuple[int, bytes], acks: int = -1) -> bytes:
    """A request with these batches, each with its partition."""
    parts = [PartitionProduceData(*each) for each in batches]
    request = ProduceRequest("payments", acks, 10_000, [TopicProduceData("t", TOPIC_ID, parts)])
    return encode_request(PRODUCE, version, 1, "test", request)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("other", [OTHER, (77, 4)])
def test_batches_of_two_transactional_producers_refuse_the_request(
    node_factory: NodeFactory, version: int, other: tuple[int, int]
) -> None:
    node = node_factory({"t": 2})
    request = frame(version, (0, of(PRODUCER)), (1, of(other)), (9, of(PRODUCER)))
    found = read_produce(ask(node.connect(), request), version).responses[0].partition_responses
    text = "Transactional records contained more than one producer ID" if version >= 8 else None
    refused = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1, text)
    assert [
        (part.error_code, part.base_offset, part.log_start_offset, part.error_message) for part in found
    ] == [refused] * 3
    assert node.worker.batches == []


def test_they_end_the_connection_without_acks(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 2})
    assert ask(node.connect(), frame(9, (0, of(PRODUCER)), (1, of(OTHER)), acks=0)) == b""
    assert node.worker.batches == []


@pytest.mark.parametrize(
    ("partition", "other", "code"),
    [
        (1, of(PRODUCER), ErrorCode.NONE),
        (9, of(OTHER), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, of(OTHER) + of(OTHER), ErrorCode.INVALID_RECORD),
        (1, of(OTHER, transactional=False), ErrorCode.NONE),
    ],
    ids=["same producer", "no such partition", "two batches", "no transaction"],
)
def test_a_batch_that_is_refused_before_or_in_no_transaction_is_of_no_other_producer(
    node_factory: NodeFactory, partition: int, other: bytes, code: ErrorCode
) -> None:
    node = node_factory({"t": 2})
    request = frame(9, (0, of(PRODUCER)), (partition, other))
    good, bad = read_produce(ask(node.connect(), request), 9).responses[0].partition_responses
    assert (good.error_code, good.base_offset, bad.error_code) == (0, 0, code)
