"""The three requests of the load in Kafka's protocol, and what is read of their answers.

Produce v7, Fetch v4 and CreateTopics v4 are the last that need no tagged fields and no session.
"""

import struct

PRODUCE, FETCH, CREATE_TOPICS = (0, 7), (1, 4), (19, 4)
TIMEOUT_MS = 30_000
CLIENT = b"kbroker-tune"
ALL = -1


class Refused(Exception):
    """The broker answered with an error code."""


def _request(api: tuple[int, int], body: bytes) -> bytes:
    key, version = api
    frame = struct.pack(">hhih", key, version, 0, len(CLIENT)) + CLIENT + body
    return struct.pack(">i", len(frame)) + frame


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def produce(topic: str, partition: int, batch: bytes) -> bytes:
    """A Produce request with one batch, acks=all."""
    head = struct.pack(">hhii", -1, ALL, TIMEOUT_MS, 1) + _text(topic)
    return _request(PRODUCE, head + struct.pack(">iii", 1, partition, len(batch)) + batch)


def check_produced(answer: bytes, topic: str) -> None:
    """Raises Refused."""
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    _check("Produce", error)


def fetch(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """A Fetch request from an offset on that waits for nothing (max_wait_ms 0)."""
    head = struct.pack(">iiiib", -1, 0, 0, max_bytes, 0) + struct.pack(">i", 1) + _text(topic)
    return _request(FETCH, head + struct.pack(">iiqi", 1, partition, offset, max_bytes))


def fetch_head_bytes(topic: str) -> int:
    """Length of what comes before the records, from the correlation id on."""
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 4 + 4


def fetched_bytes(answer: bytes, topic: str) -> int:
    """Length of the records of an answer to `fetch`, which lists no aborted transactions: the topic
    has none. Raises Refused."""
    error, _, _, aborted, record_bytes = struct.unpack_from(">hqqii", answer, fetch_head_bytes(topic) - 26)
    _check("Fetch", error)
    if aborted > 0 or record_bytes <= 0:
        raise Refused("Fetch: no records, where some were acknowledged")
    return int(record_bytes)


def create_topic(topic: str, partitions: int) -> bytes:
    """One replica of each partition."""
    body = struct.pack(">i", 1) + _text(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
    return _request(CREATE_TOPICS, body + struct.pack(">ib", TIMEOUT_MS, 0))


def check_created(answer: bytes, topic: str) -> None:
    """Raises Refused."""
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(topic))
    _check("CreateTopics", error)


def _check(api: str, error: int) -> None:
    if error:
        raise Refused(f"{api} was answered with error code {error}")
