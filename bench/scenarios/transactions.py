"""Requests of transactions: partitions are added to one, and records are read behind those that
were aborted."""

import time
from typing import Any

from confluent_kafka import Producer

from bench import limits
from bench.generator import LoadFailed
from bench.members import CORRELATION_ID, RETRIABLE, RETRY_S
from bench.raw_requests import (
    CONNECTIONS,
    answer_of,
    ask,
    framed,
    repeat,
    repeated,
    request_scenario,
    send,
)
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_response, parse_response
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.schema import Struct

ADDED = 200
"""Partitions of a transaction."""
ADD_VERSION = 3  # the last one of clients; later ones are sent by brokers
INIT_VERSION = 4
END_VERSION = 3
TRANSACTION = 1  # the type of a coordinator's key
TIMEOUT_MS = 60_000
LONGEST_S = 120

PRODUCERS = 5
ABORTED = 200
FETCH_VERSION = 12
READ_COMMITTED = 1
FETCHED_BYTES = 4096  # about 25 aborted transactions
AFTER = 50
"""Offsets from the end of the aborted transactions to the first one that is fetched."""


def add_all(turn: Turn) -> Measures:
    """Each connection adds all partitions at once, to its transaction, which has them after the
    first request."""
    topic = turn.topic("added", ADDED)
    names, producers = _transactions(turn)
    added = [AddPartitionsToTxnTopic(topic, list(range(ADDED)))]
    frames = [_adding(name, producer, added) for name, producer in zip(names, producers, strict=True)]
    for frame in frames:
        answer = _added(turn.target.port, frame)
    figures = send(turn, [[frame] for frame in frames], [answer], **turn.timed())
    _end(turn.target.port, names, producers)
    return figures


def add_each(turn: Turn) -> Measures:
    """Each connection has a transaction, and adds a partition with each request."""
    topic = turn.topic("added", ADDED)
    names, producers = _transactions(turn)
    _wait_until_known(turn.target.port, f"{names[0]}-first", topic)
    requests = [
        [_adding(name, producer, [AddPartitionsToTxnTopic(topic, [index])]) for index in range(ADDED)]
        for name, producer in zip(names, producers, strict=True)
    ]
    answers = [_success(topic, index) for index in range(ADDED)]
    figures = send(turn, requests, answers, warm=0, seconds=LONGEST_S)
    _end(turn.target.port, names, producers)
    return figures


def _adding(name: str, producer: tuple[int, int], topics: list[AddPartitionsToTxnTopic]) -> bytes:
    return framed(
        ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, AddPartitionsToTxnRequest(name, *producer, topics)
    )


def _transactions(turn: Turn) -> tuple[list[str], list[tuple[int, int]]]:
    """Ids of new transactions, one for each connection, and their producers."""
    names = [f"bench-{turn.number}-{number}" for number in range(CONNECTIONS)]
    return names, [_producer(turn.target.port, name) for name in names]


def _end(port: int, names: list[str], producers: list[tuple[int, int]]) -> None:
    for name, producer in zip(names, producers, strict=True):
        _asked(port, ApiKey.END_TXN, END_VERSION, EndTxnRequest(name, *producer, False))


def _added(port: int, frame: bytes) -> bytes:
    """The answer, once it has no error: Apache Kafka knows a new topic a moment after it has
    answered CreateTopics."""
    ends = time.monotonic() + LONGEST_S
    while True:
        answer = ask(port, frame)
        body = answer[4:]
        _, at = parse_response(body, ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION)
        found = decode_exact(AddPartitionsToTxnResponse, ADD_VERSION, body, at)
        results = [
            each for topic in found.results_by_topic_v3_and_below for each in topic.results_by_partition
        ]
        if not any(each.partition_error_code for each in results):
            return answer
        if time.monotonic() > ends:
            raise LoadFailed(f"partitions were not added: {results[0]}")
        time.sleep(RETRY_S)


def _wait_until_known(port: int, name: str, topic: str) -> None:
    """Add all partitions to a transaction that then ends: the broker knows each."""
    producer = _producer(port, name)
    _added(port, _adding(name, producer, [AddPartitionsToTxnTopic(topic, list(range(ADDED)))]))
    _end(port, [name], [producer])


def _success(topic: str, partition: int) -> bytes:
    result = AddPartitionsToTxnTopicResult(topic, [AddPartitionsToTxnPartitionResult(partition)])
    answer = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result])
    return encode_response(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, CORRELATION_ID, answer)


def _producer(port: int, name: str) -> tuple[int, int]:
    """Id and epoch of a transactional producer."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name])
    ends = time.monotonic() + LONGEST_S
    while code := answer_of(port, ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code:
        if time.monotonic() > ends:
            raise LoadFailed(f"the coordinator of {name} is not found: error {code}")
        time.sleep(RETRY_S)
    made = _asked(port, ApiKey.INIT_PRODUCER_ID, INIT_VERSION, InitProducerIdRequest(name, TIMEOUT_MS))
    return made.producer_id, made.producer_epoch


def _asked(port: int, api: ApiKey, version: int, request: Struct) -> Any:
    """The answer without an error, of a coordinator that has loaded its transactions."""
    ends = time.monotonic() + LONGEST_S
    while (answer := answer_of(port, api, version, request)).error_code in (
        *RETRIABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ) and time.monotonic() < ends:
        time.sleep(RETRY_S)
    if answer.error_code:
        raise LoadFailed(f"{api.name} failed with {answer.error_code}")
    return answer


def after_aborted(turn: Turn) -> Measures:
    """The last of many aborted transactions, and the records behind them."""
    topic = turn.kept_topic("aborted", 1, lambda name: _abort(turn.target.port, name))
    part = FetchPartition(0, fetch_offset=2 * ABORTED - AFTER, partition_max_bytes=FETCHED_BYTES)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCHED_BYTES,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic, partitions=[part])],
    )
    return repeat(turn, framed(ApiKey.FETCH, FETCH_VERSION, request))


def _abort(port: int, topic: str) -> None:
    """Fill a topic: a record and its marker of each aborted transaction, those of several producers
    at the same time, then records without a transaction."""
    options = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 3, "linger.ms": 0}
    made = [Producer({**options, "transactional.id": f"{topic}-{number}"}) for number in range(PRODUCERS)]
    for producer in made:
        producer.init_transactions(60)
    for _ in range(ABORTED // PRODUCERS):
        for producer in made:
            producer.begin_transaction()
            producer.produce(topic, b"aborted", partition=0)
        for producer in made:
            _flush(producer)
            producer.abort_transaction(60)
    plain = Producer(options)
    for number in range(AFTER):
        plain.produce(topic, b"%d" % number, partition=0)
    _flush(plain)


def _flush(producer: Producer) -> None:
    if producer.flush(30):
        raise LoadFailed("a record was not acknowledged")


SCENARIOS = (
    request_scenario(
        "ask_add_partitions",
        f"AddPartitionsToTxn of {ADDED} partitions",
        add_all,
        limits.echo(),
        kind="transactions",
    ),
    request_scenario(
        "ask_add_each_partition",
        f"AddPartitionsToTxn of {ADDED} partitions, one after the other",
        add_each,
        kind="transactions",
    ),
    repeated(
        "ask_behind_aborted",
        f"read_committed fetch at the end of {ABORTED} aborted transactions",
        after_aborted,
    ),
)
