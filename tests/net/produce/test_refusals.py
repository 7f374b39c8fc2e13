"""Messages of refused batches, and of requests that are refused as a whole."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.net.produce.record_checks import ValidationResult
from kbroker.net.produce.refusals import Refusals, damage_text, transactional_producers
from kbroker.net.rows import AnswerBy, Request, Result
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import build_batch

VERSION = 9
HEADER_BYTES = 9  # of the framed answer: size, correlation id, tagged fields


def produce(*batches: bytes) -> ProduceRequest:
    parts = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData("t", partition_data=parts)])


def batch(transactional: bool = False) -> bytes:
    producer = (7, 0, 0) if transactional else (-1, -1, -1)
    return build_batch([(b"k", b"v", (), 1)], producer=producer, transactional=transactional)


def damaged(position: int, *values: int) -> bytes:
    found = bytearray(batch())
    found[position : position + len(values)] = bytes(values)
    return bytes(found)


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([batch()], None),
        ([b"", b"short"], None),
        (
            [batch(), damaged(rb.LENGTH, 0, 0, 0, 3)],
            "Record size 3 is less than the minimum record overhead (14)",
        ),
        ([damaged(rb.MAGIC, 5)], "Invalid magic found in record: 5"),
        ([damaged(rb.MAGIC, 0xFF)], "Invalid magic found in record: -1"),
        ([batch(transactional=True), damaged(rb.MAGIC, 5)], None),
        (
            [
                batch(transactional=True)[: rb.MAGIC] + b"\1" + batch(transactional=True)[rb.MAGIC + 1 :],
                damaged(rb.MAGIC, 5),
            ],
            "Invalid magic found in record: 5",
        ),
    ],
)
def test_damage_is_named_unless_a_transactional_batch_is_before_it(
    batches: list[bytes], text: str | None
) -> None:
    assert damage_text(produce(*batches)) == text


def test_a_producer_is_its_id_and_epoch() -> None:
    def of(*producer: int, transactional: bool = True) -> bytes:
        return build_batch([(b"k", b"v", (), 1)], producer=producer, transactional=transactional)

    def count(*batches: bytes) -> int:
        return len(transactional_producers(produce(*batches)))

    assert count(of(7, 0, 0), of(7, 0, 5), of(8, 0, 0, transactional=False), b"", b"short") == 1
    assert count(of(7, 0, 0), of(7, 1, 0)) == 2
    assert count(of(7, 0, 0), of(8, 0, 0)) == 2


def test_an_answer_has_the_message_of_each_refused_batch_once() -> None:
    frame = encode_request(ApiKey.PRODUCE, VERSION, 5, "client", produce(batch(), batch()))[4:]
    requests, results = Request.table(1), Result.table(2)
    requests[0, Request.FRAME_BYTES], requests[0, Request.RESULT] = len(frame), 1
    requests[0, Request.ACKS] = 1
    results[1, Result.NEXT], results[0, Result.NEXT] = 0, -1
    results[0, Result.ERROR] = ErrorCode.INVALID_RECORD
    tables: Any = SimpleNamespace(requests=requests, results=results, arena_bytes=memoryview(frame))
    refusals = Refusals(tables)
    refusals.add(0, ValidationResult(ErrorCode.INVALID_RECORD, "one is wrong", record_errors=((3, "why"),)))
    assert requests[0, Request.ANSWER] == AnswerBy.PYTHON
    for message, why in (("one is wrong", [(3, "why")]), (None, [])):
        answer = bytes(refusals.answer(0, 0, lambda: False))
        response, _ = decode(ProduceResponse, VERSION, answer, HEADER_BYTES)
        good, refused = response.responses[0].partition_responses
        assert (good.error_code, good.error_message) == (0, None)
        assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_RECORD, message)
        assert [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors] == why


@pytest.mark.parametrize("how", ["gone later", "gone before", "acks=0"])
def test_the_message_of_a_request_without_answer_is_in_no_other_answer(how: str) -> None:
    """Its result row is another request's later."""
    frame = encode_request(ApiKey.PRODUCE, VERSION, 5, "client", produce(batch()))[4:]
    requests, results = Request.table(1), Result.table(1)
    results[0, Result.NEXT] = -1
    requests[0, Request.FRAME_BYTES], requests[0, Request.RECEIVED_NS] = len(frame), 10
    requests[0, Request.ACKS] = how != "acks=0"
    requests[0, Request.CONNECTION] = -1 if how == "gone before" else 0
    tables: Any = SimpleNamespace(requests=requests, results=results, arena_bytes=memoryview(frame))
    refusals = Refusals(tables)
    refusals.add(0, ValidationResult(ErrorCode.INVALID_RECORD, "one is wrong", record_errors=((3, "why"),)))
    requests[0, Request.ACKS], requests[0, Request.CONNECTION] = 1, 0
    requests[0, Request.RECEIVED_NS] = 11
    results[0, Result.ERROR] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = bytes(refusals.answer(0, 0, lambda: False))
    (part,) = decode(ProduceResponse, VERSION, answer, HEADER_BYTES)[0].responses[0].partition_responses
    assert (part.error_code, part.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    assert part.record_errors == []


def test_a_gone_connection_ends_its_answer() -> None:
    frame = encode_request(ApiKey.PRODUCE, VERSION, 5, "client", produce(batch()))[4:]
    requests, results = Request.table(1), Result.table(1)
    requests[0, Request.FRAME_BYTES] = len(frame)
    tables: Any = SimpleNamespace(requests=requests, results=results, arena_bytes=memoryview(frame))
    assert Refusals(tables).answer(0, 0, lambda: True) == b""
