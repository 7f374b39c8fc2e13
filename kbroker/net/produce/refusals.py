"""Answers to Produce with error messages: the text of each refused batch, and of a request that is
refused as a whole.

Runs in: network. Owner: ProduceChecks.
"""

import struct
from collections.abc import Callable

from kbroker.kernels.batch_header import MIN_LEGACY_RECORD
from kbroker.net.network_tables import NetworkTables
from kbroker.net.produce.compressed_kernel import ZSTD
from kbroker.net.produce.record_checks import ValidationResult
from kbroker.net.rows import AnswerBy, ProduceVersion, Request, Result
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_long_response, encode_response, parse_request
from kbroker.protocol.long_frame import Frame
from kbroker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kbroker.protocol.slices import is_sliced, paced

SEVERAL_PRODUCERS = "Transactional records contained more than one producer ID"


class Refusals:
    """The messages of refused results until their request is answered."""

    def __init__(self, tables: NetworkTables) -> None:
        self._tables = tables
        self._validations: dict[int, tuple[int, ValidationResult]] = {}
        """Result -> (Request.RECEIVED_NS, reason). The time distinguishes requests: one whose
        client has gone is never answered, and its row is reused."""

    def add(self, result: int, validation: ValidationResult) -> None:
        """The answer to the result's request, if there will be one, has this message."""
        number = int(self._tables.results[result, Result.REQUEST])
        request = self._tables.requests[number].tolist()
        if request[Request.ACKS] == 0 or request[Request.CONNECTION] < 0:
            return
        self._validations[result] = request[Request.RECEIVED_NS], validation
        self._tables.requests[number, Request.ANSWER] = AnswerBy.PYTHON

    def answer(self, number: int, throttle_ms: int, gone: Callable[[], bool]) -> Frame:
        """The framed answer to a complete request. In slices it ends early, with no answer, once
        the connection is gone: the request's rows and its frame may have been reused."""
        request = self._tables.requests[number].tolist()
        start, size = request[Request.FRAME], request[Request.FRAME_BYTES]
        frame = self._tables.arena_bytes[start : start + size]
        header, body = parse_request(frame)
        produce, _ = decode(ProduceRequest, header.api_version, frame, body)
        response = ProduceResponse(throttle_time_ms=throttle_ms)
        result = request[Request.RESULT]
        whole = damage_text(produce) or self._several_producers(result, produce)
        for topic in produce.topic_data:
            shown = TopicProduceResponse(topic.name, topic.topic_id)
            for part in topic.partition_data:
                if gone():
                    return b""
                validation = self._validation(result, request[Request.RECEIVED_NS])
                shown.partition_responses.append(self._partition(result, part.index, validation, whole))
                result = int(self._tables.results[result, Result.NEXT])
            if shown.partition_responses:  # Kafka lists no topic without partitions
                response.responses.append(shown)
        encoded = encode_long_response if is_sliced() else encode_response
        return encoded(header.api_key, header.api_version, header.correlation_id, response)

    def _several_producers(self, result: int, produce: ProduceRequest) -> str | None:
        """Kafka's text if the whole request was refused for that."""
        results = self._tables.results
        while result >= 0:
            if results[result, Result.ERROR] != ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                return None
            result = int(results[result, Result.NEXT])
        return SEVERAL_PRODUCERS if len(transactional_producers(produce)) > 1 else None

    def _validation(self, result: int, received_ns: int) -> ValidationResult:
        of_ns, validation = self._validations.pop(result, (received_ns, ValidationResult()))
        return validation if of_ns == received_ns else ValidationResult()

    def _partition(
        self, result: int, index: int, validation: ValidationResult, whole: str | None
    ) -> PartitionProduceResponse:
        words = self._tables.results[result].tolist()
        return PartitionProduceResponse(
            index,
            words[Result.ERROR],
            words[Result.BASE_OFFSET],
            words[Result.APPEND_TIME],
            words[Result.LOG_START],
            [BatchIndexAndErrorMessage(at, text) for at, text in validation.record_errors],
            validation.message or whole,
        )


def transactional_producers(request: ProduceRequest) -> set[bytes]:
    """The producer ids, each with its epoch, of the transactional batches."""
    batches = (
        part.records or b"" for topic in paced(request.topic_data) for part in paced(topic.partition_data)
    )
    return {_producer(data) for data in batches if _is_transactional(data) and _whole_batch(data) > 0}


def producer_of_only_batch(data: bytes | memoryview, version: int) -> bytes | None:
    """The producer id and epoch of a partition's records if they are one batch of a transaction,
    with a producer id (`check_kernel.check_single`, `is_of_transactional_producer`)."""
    size = _whole_batch(data)
    if size < rb.HEADER_BYTES or not _is_transactional(data) or data[rb.PRODUCER_ID] & 0x80:
        return None
    zstd = version < ProduceVersion.ZSTD and data[rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_CODEC_MASK == ZSTD
    return None if zstd or _whole_batch(data[size:]) else _producer(data)


def _producer(data: bytes | memoryview) -> bytes:
    return bytes(data[rb.PRODUCER_ID : rb.BASE_SEQUENCE])


def _whole_batch(data: bytes | memoryview) -> int:
    """Size of the first batch; 0 for a part of one, -1 for damage
    (`batch_header.whole_batch_of_any_format`)."""
    if len(data) < rb.LENGTH_OVERHEAD:
        return 0
    (length,) = struct.unpack_from(">i", data, rb.LENGTH)
    if length < MIN_LEGACY_RECORD or (len(data) > rb.MAGIC and data[rb.MAGIC] > rb.MAGIC_V2):
        return -1
    size = length + rb.LENGTH_OVERHEAD
    return size if size <= len(data) else 0


def _is_transactional(data: bytes | memoryview) -> bool:
    return (
        len(data) >= rb.HEADER_BYTES
        and data[rb.MAGIC] == rb.MAGIC_V2
        and data[rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_TRANSACTIONAL != 0
    )


def damage_text(request: ProduceRequest) -> str | None:
    """Kafka's error for the first batch that it cannot skip, with which it refuses the whole
    request."""
    for topic in paced(request.topic_data):
        for part in paced(topic.partition_data):
            data = bytes((part.records or b"")[: rb.HEADER_BYTES])
            if len(data) < rb.LENGTH_OVERHEAD:
                continue
            (size,) = struct.unpack_from(">i", data, rb.LENGTH)
            if size < MIN_LEGACY_RECORD:
                return f"Record size {size} is less than the minimum record overhead ({MIN_LEGACY_RECORD})"
            if (
                len(data) > rb.MAGIC
                and not 0 <= (magic := struct.unpack_from("b", data, rb.MAGIC)[0]) <= rb.MAGIC_V2
            ):
                return f"Invalid magic found in record: {magic}"
            if _is_transactional(data):
                return None
    return None
