"""Record batches that a producer sends: what the broker stores of them can be read."""

import random
import struct
from collections.abc import Iterable
from pathlib import Path

import crc32c as reference

from kbroker.protocol import batch_layout as rb
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.compression import Codec, compress, decompress
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import RecordBatch, read_batches, read_records
from kbroker.protocol.schema import ProtocolError
from tests.fuzz.guided.network_room import TOPICS, NetworkRoom
from tests.fuzz.guided.target import Mix, Target
from tests.fuzz.hot_requests import random_batch, sealed, topic_id
from tests.log.batch_bytes import batch
from tests.net.produce.compressed_cases import CODECS, same_answers
from tests.net.requests import PRODUCE

SLOTS = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
VERSION = 9
DECLARED = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # a transaction without an id
    ErrorCode.UNKNOWN_SERVER_ERROR,  # as Kafka, for compressed records that cannot be read
}
MAX_PLAIN_BYTES = 1 << 22


class _Batches:
    """Produces to a partition that the first byte chooses."""

    def __init__(self, _: Path) -> None:
        self._room = NetworkRoom()

    def __call__(self, data: bytes) -> None:
        if not data:
            return
        slot, sent = data[0] % len(SLOTS), data[1:]
        topic, index = SLOTS[slot]
        parts = [PartitionProduceData(index, sent)]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData(topic, topic_id(topic), parts)])
        try:
            answer = self._room.give([encode_request(PRODUCE, VERSION, 1, None, request)])
        except AssertionError:
            self._room = NetworkRoom()
            raise
        if not answer:
            assert not self._room.pushed, "stored without an answer"
            return
        frame = answer[4:]
        response = decode_exact(ProduceResponse, VERSION, frame, parse_response(frame, PRODUCE, VERSION)[1])
        (partition,) = response.responses[0].partition_responses
        assert partition.error_code in DECLARED, ErrorCode(partition.error_code)
        assert bool(self._room.pushed) == (partition.error_code == 0), (
            "an answer that is not of what was stored"
        )
        for pushed, stored in self._room.pushed:
            assert pushed == slot
            _check_stored(sent, stored)


def _check_stored(sent: bytes, stored: bytes) -> None:
    """One whole batch, whose records can be read unless Kafka reads only their heads."""
    assert reference.crc32c(stored[rb.ATTRIBUTES :]) == struct.unpack_from(">I", stored, rb.CRC)[0]
    (found,) = read_batches(stored, whole=True)
    assert found.record_count > 0
    assert found.last_offset_delta == found.record_count - 1
    try:
        count = sum(1 for _ in read_records(found, MAX_PLAIN_BYTES, MAX_PLAIN_BYTES))
    except ProtocolError:
        came: RecordBatch = next(read_batches(sent, check_crc=False))
        assert came.codec == found.codec != Codec.NONE, "records that cannot be read are stored"
        return
    assert count == found.record_count


def _seeds(rng: random.Random) -> Iterable[bytes]:
    for slot in range(len(SLOTS)):
        for _ in range(6):
            yield bytes((slot,)) + random_batch(rng)
        for codec in CODECS:
            for data, _ in same_answers(codec).values():
                if len(data) < 1000:
                    yield bytes((slot,)) + data
    for magic in (0, 1, 3):
        yield b"\0" + batch(magic=magic)


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly with the length and the CRC of its bytes; sometimes the records are changed as they
    are before compression."""
    slot, found = data[:1] or b"\0", data[1:]
    kind = rng.random()
    if kind < 0.4 and len(found) > rb.RECORDS:
        try:
            codec = Codec(found[rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_CODEC_MASK)
            records = bytes(decompress(codec, memoryview(found)[rb.RECORDS :], MAX_PLAIN_BYTES))
            other = rng.choice(list(Codec)) if rng.random() < 0.2 else codec
            head = bytearray(found[: rb.RECORDS])
            head[rb.ATTRIBUTES + 1] = head[rb.ATTRIBUTES + 1] & ~rb.ATTRIBUTE_CODEC_MASK | other
            return slot + sealed(bytes(head) + compress(other, mix(records)))
        except (ProtocolError, ValueError):
            pass
    if rng.random() < 0.1:
        slot = rng.randbytes(1)
    found = mix(found)
    return slot + (sealed(found) if kind < 0.9 else found)


TARGETS = (
    Target(
        "batches",
        "batches of producers, compressed ones and old magics: what is stored can be read",
        (
            "kbroker.net.produce.",
            "kbroker.kernels.batches",
            "kbroker.kernels.batch_header",
            "kbroker.kernels.lz4",
            "kbroker.kernels.snappy",
            "kbroker.kernels.codec_libraries",
            "kbroker.protocol.records",
            "kbroker.protocol.compression",
            "kbroker.protocol.streamed_compression",
        ),
        _Batches,
        _seeds,
        _change,
    ),
)
