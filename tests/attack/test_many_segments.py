"""A client whose topic has a segment for each batch, beside a steady one: neither the segments, nor
their deletion, nor fetches of them delay others."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from kbroker.io.partition.log_segments import MANY_SEGMENTS, MANY_UNSYNCED
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.attack.peers import Target, port_of
from tests.attack.probe import TOPIC, Probe
from tests.attack.steady import p99
from tests.callbacks import slowness
from tests.compat.raw import receive
from tests.conftest import BrokerFactory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BATCHES, WINDOW = 6000, 50
ROUNDS = 3
"""At most: a busy host may hold a client up in one of them, but not in all."""
P99_S = 0.25
"""On a quiet host 20 ms; before, 1.8 s."""
EACH_SECOND = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}


def topic(name: str, **configs: str) -> CreateTopicsRequest:
    made = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequest([CreatableTopic(name, 1, -1, configs=made)], 30_000)


def requests(name: str) -> Iterator[bytes]:
    """Batches of ever later times; after each WINDOW of them a fetch of the first one."""
    first_ms = int(time.time() * 1000) - 1_000_000
    for number in range(BATCHES):
        batch = build_batch([(None, b"v", (), first_ms + 10 * number)])
        data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])]
        produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
        yield encode_request(ApiKey.PRODUCE, 8, 1, "many", produce)
        if number % WINDOW == 0:
            parts = [FetchPartition(0, partition_max_bytes=1000)]
            fetch = FetchRequest(max_wait_ms=0, max_bytes=1000, topics=[FetchTopic(name, partitions=parts)])
            yield encode_request(ApiKey.FETCH, 11, 1, "many", fetch)


def sent(port: int, frames: Iterator[bytes]) -> None:
    """Send the requests, WINDOW at a time, and read their answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        while some := list(islice(frames, WINDOW)):
            link.sendall(b"".join(some))
            for _ in some:
                size = receive(link, 4)
                assert size is not None
                assert receive(link, struct.unpack(">i", size)[0]) is not None


def waits_beside(port: int, work: Callable[[], object]) -> float:
    """The 99th percentile of a steady producer's waits beside some work, in seconds."""
    with Probe("produce", port) as probe:
        work()
    return p99(probe.trips)


def test_a_segment_for_each_batch_delays_no_other_client(broker_factory: BrokerFactory) -> None:
    """Before, there were as many segments as batches, each roll took longer than the one before,
    and their deletion stopped the IO worker for seconds."""
    node = broker_factory(EACH_SECOND | {"num.io.threads": "1", "num.network.threads": "1"})
    port, target = port_of(node), Target(port_of(node))

    def make(name: str, **configs: str) -> None:
        (made,) = target.ask(ApiKey.CREATE_TOPICS, 7, topic(name, **configs)).topics
        assert not made.error_code, made.error_message

    make(TOPIC)
    writing, deleting = [], []
    for number in range(ROUNDS):
        name = f"many-{number}"
        make(name, segment_ms="1")
        writing.append(waits_beside(port, lambda name=name: sent(port, requests(name))))  # type: ignore[misc]
        folder = node.data_dir / f"{name}-0"
        assert len(list(folder.glob("*.log"))) <= MANY_SEGMENTS + MANY_UNSYNCED
        below = DeleteRecordsRequest(
            [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, BATCHES - 1)])], 30_000
        )

        def delete(request: Struct = below) -> None:
            (answer,) = target.ask(ApiKey.DELETE_RECORDS, 2, request).topics
            assert not answer.partitions[0].error_code
            time.sleep(3)

        deleting.append(waits_beside(port, delete))
        assert len(list(folder.glob("*.log"))) <= 2
        if max(min(writing), min(deleting)) < P99_S * slowness():
            break
    assert min(writing) < P99_S * slowness(), writing
    assert min(deleting) < P99_S * slowness(), deleting
