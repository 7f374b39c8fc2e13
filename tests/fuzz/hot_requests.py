"""Valid Produce and Fetch requests of every version, and batches whose records are damaged under a
right CRC."""

import random
import struct

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.fuzz.mutation import mutated
from tests.net.requests import FETCH, PRODUCE, now_ms

TOPICS = {"t": 3, "topic-of-a-longer-name": 2}
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
HEADER = 4 + 4  # size, API and version: what leads a frame to its parser


def topic_id(name: str) -> bytes:
    """The id that the stand-in gives a topic of TOPICS."""
    return (list(TOPICS).index(name) + 1).to_bytes(16, "big")


def sealed(data: bytes) -> bytes:
    """The batch with the length and CRC that its bytes ask for, so that more than its CRC is looked
    at."""
    out = bytearray(data)
    if len(out) >= rb.HEADER_BYTES:
        struct.pack_into(">i", out, rb.LENGTH, len(out) - rb.LENGTH_OVERHEAD)
        struct.pack_into(">I", out, rb.CRC, crc32c(bytes(out[rb.ATTRIBUTES :])))
    return bytes(out)


def random_batch(rng: random.Random) -> bytes:
    """A valid batch, sometimes compressed, of a producer, or with headers."""
    records = []
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        key = rng.choice((None, b"", b"key"))
        headers = tuple((f"h{n}", rng.choice((None, b"x"))) for n in range(rng.choice((0, 0, 1, 3))))
        records.append((key, rng.randbytes(rng.choice((0, 1, 20, 130))), headers, now_ms()))
    codec = Codec(rng.choice((0, 0, 0, 1, 2, 3, 4)))
    producer = rng.choice(((-1, -1, -1), (-1, -1, -1), (7, 0, 0)))
    return build_batch(records, codec=codec, producer=producer, transactional=rng.random() < 0.05)


def any_batch(rng: random.Random) -> bytes | None:
    """A valid batch, one with damaged records, or none at all."""
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice((None, b""))
    data = random_batch(rng)
    if kind < 5:
        first = rng.choice((rb.ATTRIBUTES, rb.RECORD_COUNT, rb.RECORDS))
        return sealed(mutated(data, rng, first))
    return data


def produce_request(rng: random.Random, version: int) -> bytes:
    """A Produce frame with its size: every length right, its batches as ``any_batch`` makes
    them."""
    topics = []
    for name in rng.choices([*TOPICS, "unknown"], k=rng.choice((0, 1, 1, 2, 3))):
        parts = [
            PartitionProduceData(rng.choice((0, 1, 2, -1, 7)), any_batch(rng))
            for _ in range(rng.choice((0, 1, 1, 3)))
        ]
        identity = topic_id(name) if name in TOPICS else rng.randbytes(16)
        topics.append(TopicProduceData(name, identity, parts))
    acks = rng.choice((-1, -1, 1, 0, 5))
    request = ProduceRequest(rng.choice((None, None, "tx")), acks, 1000, topics)
    return encode_request(PRODUCE, version, rng.getrandbits(31), rng.choice((None, "", "fuzz")), request)


def fetch_request(rng: random.Random, version: int) -> bytes:
    """A Fetch frame with its size, that never waits."""
    topics = []
    for name in rng.choices([*TOPICS, "unknown"], weights=(20, 20, 1), k=rng.choice((1, 1, 1, 1, 2, 2, 0))):
        parts = [
            FetchPartition(
                rng.choice((0, 0, 0, 0, 1, 1, 1, 1, 2, 9)),
                rng.choice((-1, 0, 0, 5)),
                rng.choice((0, 1, -1, 1 << 62)),
                partition_max_bytes=rng.choice((1 << 20, 1, 0, -1)),
            )
            for _ in range(rng.choice((1, 1, 3)))
        ]
        topics.append(FetchTopic(name, topic_id(name) if name in TOPICS else rng.randbytes(16), parts))
    session = rng.choice(((0, -1), (0, -1), (0, -1), (0, -1), (0, 0), (5, 1), (5, -1)))
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=rng.choice((0, 1)),
        max_bytes=rng.choice((1 << 20, 0, -1)),
        isolation_level=rng.choice((0, 1)),
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )
    return encode_request(FETCH, version, rng.getrandbits(31), rng.choice((None, "fuzz")), request)


def any_request(rng: random.Random) -> bytes:
    """A Produce or Fetch frame of any version."""
    if rng.random() < 0.6:
        return produce_request(rng, rng.choice(PRODUCE_VERSIONS))
    return fetch_request(rng, rng.choice(FETCH_VERSIONS))


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """The frame mutated behind API and version, its size that of what is there."""
    out = mutated(frame, rng, HEADER)
    return struct.pack(">i", len(out) - 4) + out[4:]
