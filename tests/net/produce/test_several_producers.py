"""A Produce request with batches of two transactional producers is refused, as by Kafka
(ReplicaManager.handleProduceAppend)."""

import pytest

from kbroker.net.network_tables import EVENTS
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.net.conftest import NodeFactory
from tests.net.doubles import ask
from tests.net.requests import PRODUCE, TOPIC_ID, batch, read_produce

PRODUCER, OTHER = (77, 3), (78, 3)
TEXT = "Transactional records contained more than one producer ID"
TOO_MANY = [(100 + number, None) for number in range(EVENTS // 2)]
"""Partitions that no topic has, more than the kernels take: Python refuses the request."""


def of(producer: tuple[int, int], transactional: bool = True) -> bytes:
    return batch(producer=(*producer, 0), transactional=transactional)


def frame(
    version: int, *batches: tuple[int, bytes | None], acks: int = -1, name: str | None = "payments"
) -> bytes:
    """A request with these batches, each with its partition."""
    parts = [PartitionProduceData(*each) for each in batches]
    request = ProduceRequest(name, acks, 10_000, [TopicProduceData("t", TOPIC_ID, parts)])
    return encode_request(PRODUCE, version, 1, "test", request)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("other", [OTHER, (77, 4)])
@pytest.mark.parametrize("more", [[], TOO_MANY], ids=["few", "many"])
def test_batches_of_two_transactional_producers_refuse_the_request(
    node_factory: NodeFactory, version: int, other: tuple[int, int], more: list[tuple[int, None]]
) -> None:
    node = node_factory({"t": 2})
    request = frame(version, (0, of(PRODUCER)), (1, of(other)), (9, of(PRODUCER)), *more)
    found = read_produce(ask(node.connect(), request), version).responses[0].partition_responses
    refused = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1, TEXT if version >= 8 else None)
    assert [
        (part.error_code, part.base_offset, part.log_start_offset, part.error_message) for part in found
    ] == [refused] * (3 + len(more))
    assert node.worker.batches == []


@pytest.mark.parametrize("more", [[], TOO_MANY], ids=["few", "many"])
def test_they_end_the_connection_without_acks(
    node_factory: NodeFactory, more: list[tuple[int, None]]
) -> None:
    node = node_factory({"t": 2})
    assert ask(node.connect(), frame(9, (0, of(PRODUCER)), (1, of(OTHER)), *more, acks=0)) == b""
    assert node.worker.batches == []


@pytest.mark.parametrize(
    ("partition", "other", "code"),
    [
        (1, of(PRODUCER), ErrorCode.NONE),
        (9, of(OTHER), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, of(OTHER) + of(OTHER), ErrorCode.INVALID_RECORD),
        (1, of(OTHER, transactional=False), ErrorCode.NONE),
        (1, of((-1, -1)), ErrorCode.NONE),
    ],
    ids=["same producer", "no such partition", "two batches", "no transaction", "no producer"],
)
def test_a_batch_that_is_refused_before_or_in_no_transaction_is_of_no_other_producer(
    node_factory: NodeFactory, partition: int, other: bytes, code: ErrorCode
) -> None:
    node = node_factory({"t": 2})
    request = frame(9, (0, of(PRODUCER)), (partition, other))
    good, bad = read_produce(ask(node.connect(), request), 9).responses[0].partition_responses
    assert (good.error_code, good.base_offset, bad.error_code) == (0, 0, code)


@pytest.mark.parametrize(
    ("partition", "other"),
    [
        (1, of(PRODUCER)),
        (9, of(OTHER)),
        (1, of(OTHER) + of(OTHER)),
        (1, of(OTHER, transactional=False)),
        (1, of((-1, -1))),
        (1, of(OTHER)[:-1]),
        (1, of(OTHER) + bytes(8) + b"\0\0\0\1"),
        (1, of(OTHER) + bytes(8) + b"\0\0\0\x50" + bytes(4) + b"\3"),
    ],
    ids=["producer", "unknown", "two", "no_transaction", "no_producer", "cut_off", "short", "part"],
)
def test_the_same_batches_are_of_no_other_producer_in_a_request_of_too_many_partitions(
    node_factory: NodeFactory, partition: int, other: bytes
) -> None:
    node = node_factory({"t": 2})
    request = frame(9, (0, of(PRODUCER)), (partition, other), *TOO_MANY)
    good, bad, *_ = read_produce(ask(node.connect(), request), 9).responses[0].partition_responses
    there = ErrorCode.INVALID_REQUEST
    assert good.error_code == there
    assert bad.error_code == (there if partition == 1 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert node.worker.batches == []


def test_a_part_of_a_batch_after_it_changes_no_producer(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 2})
    request = frame(9, (0, of(PRODUCER)), (1, of(OTHER) + of(OTHER)[:20]), *TOO_MANY)
    found = read_produce(ask(node.connect(), request), 9).responses[0].partition_responses
    assert {part.error_code for part in found} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("more", [[], TOO_MANY], ids=["few", "many"])
@pytest.mark.parametrize(
    ("batch_of", "name", "code", "text"),
    [
        (of(PRODUCER), None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None),
        (
            of(PRODUCER, transactional=False)[: rb.MAGIC] + b"\5" + bytes(60),
            "payments",
            ErrorCode.CORRUPT_MESSAGE,
            "Invalid magic found in record: 5",
        ),
    ],
    ids=["no transactional id", "damage"],
)
def test_a_refusal_as_a_whole_does_not_depend_on_the_number_of_partitions(
    node_factory: NodeFactory,
    batch_of: bytes,
    name: str | None,
    code: ErrorCode,
    text: str | None,
    more: list[tuple[int, None]],
) -> None:
    node = node_factory({"t": 2})
    request = frame(9, (0, batch_of), (9, None), *more, name=name)
    found = read_produce(ask(node.connect(), request), 9).responses[0].partition_responses
    assert [(part.error_code, part.error_message) for part in found] == [(code, text)] * (2 + len(more))
