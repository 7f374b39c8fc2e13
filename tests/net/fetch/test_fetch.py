"""Fetch through a network process: bytes, limits, waiting, sessions, errors, cold data."""

import threading
import time

import pytest

from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.net.conftest import NodeFactory
from tests.net.doubles import read_frame
from tests.net.requests import batch, fetch, fetch_frame, filled, offsets, produce, read_fetch

MAX_WAIT_MS = 2**31 - 1

VERSIONS = range(4, 19)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_written(node_factory: NodeFactory, version: int) -> None:
    node, _ = filled(node_factory)
    (topic,) = fetch(node.connect(), 5, version).responses
    (part,) = topic.partitions
    assert (part.error_code, part.high_watermark, part.last_stable_offset) == (0, 20, 20)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.aborted_transactions is None
    assert offsets(part.records) == list(range(4, 20)), "whole batches, from the one that holds the offset"


def test_size_limits_keep_the_first_batch_complete(node_factory: NodeFactory) -> None:
    node, size = filled(node_factory, 2)
    link = node.connect()

    def lengths(**how: object) -> list[int]:
        return [len(p.records or b"") for p in fetch(link, **how).responses[0].partitions]

    assert lengths(partition_max_bytes=1) == [size]
    assert lengths(max_bytes=1) == [size]
    assert lengths(partition_max_bytes=size + 10) == [size + 10], "a batch may be cut, but not the first"
    assert lengths(max_bytes=3 * size) == [3 * size]
    assert lengths(partitions={0: 0, 1: 0}, max_bytes=1) == [size, 0]
    for _ in range(2):
        assert produce(link, batch(b"x" * 100, 2), partition=1).error_code == 0
    assert lengths(partitions={0: 0, 1: 0}, max_bytes=11 * size) == [10 * size, size]
    assert lengths(partitions={0: 0, 1: 0}, max_bytes=10 * size + 1) == [10 * size, 0]
    assert lengths(partitions={1: 0, 0: 0}, max_bytes=1) == [size, 0]


def test_a_negative_size_limit_is_an_error(node_factory: NodeFactory) -> None:
    node, size = filled(node_factory, 2)
    link = node.connect()
    assert produce(link, batch(b"x" * 100, 2), partition=1).error_code == 0

    def read(**how: object) -> list[tuple[int, int]]:
        parts = fetch(link, partitions={0: 0, 1: 0}, **how).responses[0].partitions
        return [(part.error_code, len(part.records or b"")) for part in parts]

    refused = ErrorCode.UNKNOWN_SERVER_ERROR, 0
    assert read(partition_max_bytes=-1) == [refused, refused]
    assert read(max_bytes=-1) == [refused, (0, size)], "in Kafka it counts for the first partition alone"


@pytest.mark.parametrize("session", [(0, -1), (0, 0)], ids=["kernel", "python"])
def test_no_answer_has_more_bytes_than_the_broker_allows(
    node_factory: NodeFactory, session: tuple[int, int]
) -> None:
    node, size = filled(node_factory, settings={"fetch.max.bytes": "1024"})
    (part,) = fetch(node.connect(), session=session).responses[0].partitions
    assert size < len(part.records) <= 1024 < 10 * size


def test_a_partition_that_cannot_be_read_answers_its_error(node_factory: NodeFactory) -> None:
    node, _ = filled(node_factory)
    link = node.connect()
    slot = node.shared.slots[0]
    slot[Slot.LEADER_EPOCH] = 3

    def error(offset: int = 0, version: int = 12, **how: object) -> int:
        return fetch(link, offset, version, max_wait_ms=1000, **how).responses[0].partitions[0].error_code

    assert error(20, min_bytes=0) == ErrorCode.NONE
    assert error(21) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert error(-1) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert error(epoch=2) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(epoch=4) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(epoch=3) == ErrorCode.NONE
    assert error(partition=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(topic="no") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(version=13, topic="no") == ErrorCode.UNKNOWN_TOPIC_ID
    slot[Slot.STATE] = SlotState.RECOVERING
    assert error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    slot[Slot.STATE] = SlotState.OFFLINE
    assert error() == ErrorCode.KAFKA_STORAGE_ERROR
    assert error(version=5) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_empty_partition_has_records_of_length_zero_not_null(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    (part,) = fetch(node.connect(), 0, min_bytes=0).responses[0].partitions
    assert part.records is not None
    assert len(part.records) == 0


def test_read_committed_stops_at_the_last_stable_offset(node_factory: NodeFactory) -> None:
    node, size = filled(node_factory)
    node.worker.publish(0, 20, 10 * size, stable=6)
    (part,) = fetch(node.connect(), 2, isolation=1).responses[0].partitions
    assert part.aborted_transactions == []
    assert offsets(part.records) == [2, 3, 4, 5]
    (part,) = fetch(node.connect(), 6, isolation=1, min_bytes=0).responses[0].partitions
    assert offsets(part.records) == []
    (part,) = fetch(node.connect(), 2).responses[0].partitions
    assert offsets(part.records) == list(range(2, 20))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_isolation_level_fails_the_request(node_factory: NodeFactory, version: int) -> None:
    """As in Kafka: the partitions repeat the error up to v12."""
    node, _ = filled(node_factory)
    link = node.connect()
    for isolation in (2, -1):
        answer = fetch(link, 0, version, isolation=isolation, max_wait_ms=20_000, min_bytes=1 << 20)
        errors = [part.error_code for topic in answer.responses for part in topic.partitions]
        assert errors == ([ErrorCode.UNKNOWN_SERVER_ERROR] if version < 13 else [])
        assert answer.error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if version >= 7 else 0)
    assert fetch(link, 0, version).responses[0].partitions[0].error_code == 0


def test_a_session_outlives_an_unknown_isolation_level(node_factory: NodeFactory) -> None:
    """As in Kafka: the failed request has moved its epoch on."""
    node, _ = filled(node_factory)
    link = node.connect()
    session = fetch(link, partitions={0: 20}, session=(0, 0), min_bytes=0).session_id
    failed = fetch(link, partitions={}, session=(session, 1), isolation=2)
    assert (failed.error_code, failed.session_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, session)
    produce(node.connect(), batch())
    news = fetch(link, partitions={}, session=(session, 2))
    assert (news.error_code, offsets(news.responses[0].partitions[0].records)) == (0, [20])


@pytest.mark.parametrize("session", [(0, -1), (0, 0)], ids=["kernel", "python"])
@pytest.mark.parametrize("isolation", [0, 1])
def test_records_above_the_high_watermark_are_not_read(
    node_factory: NodeFactory, session: tuple[int, int], isolation: int
) -> None:
    """Another leader may not have them."""
    node, size = filled(node_factory)
    words = node.shared.slots[0]
    words[Slot.SEQUENCE] += 1
    words[Slot.HIGH_WATERMARK] = words[Slot.LAST_STABLE] = 12
    words[Slot.HW_POSITION] = 6 * size
    words[Slot.SEQUENCE] += 1
    found = {}
    for offset in (2, 12, 13, 20, 21):
        (part,) = fetch(node.connect(), offset, session=session, isolation=isolation).responses[0].partitions
        found[offset] = part.error_code, offsets(part.records)
        assert part.high_watermark == (12 if offset < 21 else -1)
    nothing: tuple[int, list[int]] = (0, [])
    out_of_range: tuple[int, list[int]] = (ErrorCode.OFFSET_OUT_OF_RANGE, [])
    assert found == {2: (0, list(range(2, 12))), 12: nothing, 13: nothing, 20: nothing, 21: out_of_range}


def test_a_fetch_waits_for_bytes_and_is_woken_by_an_append(node_factory: NodeFactory) -> None:
    node, _ = filled(node_factory)
    link, other = node.connect(), node.connect()
    link.sendall(fetch_frame(20, max_wait_ms=MAX_WAIT_MS))  # it ends by an append, or not in this test
    threading.Timer(0.2, lambda: produce(other, batch())).start()
    (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
    assert offsets(part.records) == [20]


def test_min_bytes_wait_for_more_than_one_append(node_factory: NodeFactory) -> None:
    node, size = filled(node_factory)
    link, other = node.connect(), node.connect()
    link.sendall(fetch_frame(20, max_wait_ms=20_000, min_bytes=3 * size))
    for _ in range(3):
        produce(other, batch(b"x" * 100, 2))
    (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
    assert offsets(part.records) == list(range(20, 26))


def test_a_fetch_ends_after_max_wait_with_what_there_is(node_factory: NodeFactory) -> None:
    node, size = filled(node_factory)
    answer = fetch(node.connect(), 18, max_wait_ms=50, min_bytes=10 * size)
    assert offsets(answer.responses[0].partitions[0].records) == [18, 19]


def test_a_waiting_fetch_ends_when_its_topic_goes(node_factory: NodeFactory) -> None:
    node, _ = filled(node_factory)
    link = node.connect()
    link.sendall(fetch_frame(20, max_wait_ms=20_000))
    time.sleep(0.1)
    node.control.send(type(node.image)(2, False, (), ("t",)))
    answer = read_fetch(read_frame(link), 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_leaves_while_it_waits_is_forgotten(node_factory: NodeFactory) -> None:
    node, _ = filled(node_factory)
    link = node.connect()
    link.sendall(fetch_frame(20, max_wait_ms=30_000))
    time.sleep(0.1)
    link.close()
    assert sorted(node.closed_ids(2)) == [1, 2], "the writer's and ours"


def test_a_session_returns_only_changes(node_factory: NodeFactory) -> None:
    node, _ = filled(node_factory, 3)
    link = node.connect()
    first = fetch(link, partitions={0: 0, 1: 0, 2: 0}, session=(0, 0))
    session = first.session_id
    assert session != 0
    assert [p.partition_index for p in first.responses[0].partitions] == [0, 1, 2]
    again = fetch(link, partitions={0: 20}, session=(session, 1))
    assert (again.session_id, again.responses) == (session, [])
    produce(node.connect(), batch(), partition=2)
    news = fetch(link, partitions={}, session=(session, 2))
    assert [(p.partition_index, offsets(p.records)) for p in news.responses[0].partitions] == [(2, [0])]
    wrong = fetch(link, partitions={}, session=(session, 2))
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    errors = fetch(link, partitions={0: 99}, session=(session, 3), forget=[2])
    assert [(p.partition_index, p.error_code) for p in errors.responses[0].partitions] == [(0, 1)]
    ids = fetch(link, version=13, partitions={}, session=(session, 4))
    assert ids.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    unknown = fetch(link, partitions={}, session=(session ^ 1, 1))
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    closed = fetch(link, partitions={0: 0}, session=(session, -1))
    assert closed.session_id == 0
    gone = fetch(link, partitions={}, session=(session, 4))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [11, 13])
def test_a_session_that_its_client_replaces_is_over(node_factory: NodeFactory, version: int) -> None:
    node, _ = filled(node_factory)
    link = node.connect()
    first = fetch(link, version=version, partitions={0: 0}, session=(0, 0)).session_id
    second = fetch(link, version=version, partitions={0: 0}, session=(first, 0)).session_id
    assert second not in (0, first)
    gone = fetch(link, version=version, partitions={}, session=(first, 1))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    once = fetch(link, version=version, partitions={0: 0}, session=(second, -1))
    assert (once.session_id, len(once.responses)) == (0, 1)
    gone = fetch(link, version=version, partitions={}, session=(second, 1))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [7, 12, 18])
def test_a_session_may_begin_without_partitions(node_factory: NodeFactory, version: int) -> None:
    """As in Kafka. Its first partitions come with a later request."""
    node, _ = filled(node_factory)
    link = node.connect()
    first = fetch(link, version=version, partitions={}, session=(0, 0))
    assert (first.error_code, first.responses) == (0, [])
    assert first.session_id != 0
    added = fetch(link, version=version, partitions={0: 18}, session=(first.session_id, 1))
    assert (added.error_code, added.session_id) == (0, first.session_id)
    assert offsets(added.responses[0].partitions[0].records) == [18, 19]
    again = fetch(link, version=version, partitions={}, session=(first.session_id, 2), min_bytes=0)
    assert (again.error_code, again.session_id) == (0, first.session_id)


def test_a_large_answer_to_a_slow_reader_arrives_complete(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={"socket.send.buffer.bytes": "4096"})
    link, writer = node.connect(), node.connect()
    for _ in range(30):
        produce(writer, batch(b"y" * 300_000))
    link.sendall(fetch_frame(0, max_bytes=1 << 25, partition_max_bytes=1 << 25))
    time.sleep(0.2)
    (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
    assert offsets(part.records) == list(range(30))
    assert fetch(link, 29).responses[0].partitions[0].error_code == 0


def test_cold_ranges_are_read_ahead_by_the_io_worker(
    node_factory: NodeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbroker.net.fetch import residency

    monkeypatch.setattr(residency, "choose", lambda _: lambda *_: False)
    node, size = filled(node_factory)
    (part,) = fetch(node.connect(), 4).responses[0].partitions
    assert offsets(part.records) == list(range(4, 20))
    assert node.worker.read_ahead == [(0, 2 * size, 8 * size)]


@pytest.mark.parametrize("version", VERSIONS)
def test_another_broker_has_no_replica_to_fetch_for(node_factory: NodeFactory, version: int) -> None:
    """As Apache Kafka answers a broker that has no replica of the partition."""
    node, _ = filled(node_factory)
    size = sum(log.stat().st_size for log in node.folders[0].glob("*.log"))
    link = node.connect()
    for replica_id, error in ((0, 6), (1, 6), (5, 6), (-2, 0), (-7, 0)):
        requested = FetchRequest(max_wait_ms=10_000, min_bytes=1, max_bytes=1 << 20)
        requested.topics = [
            FetchTopic("t", (1).to_bytes(16), [FetchPartition(0, partition_max_bytes=1 << 20)]),
            FetchTopic("no", (9).to_bytes(16), [FetchPartition(0, partition_max_bytes=1 << 20)]),
        ]
        if version >= 15:
            requested.replica_state = ReplicaState(replica_id, 1)
        else:
            requested.replica_id = replica_id
        link.sendall(encode_request(ApiKey.FETCH, version, 7, "c", requested))
        known, unknown = (topic.partitions[0] for topic in read_fetch(read_frame(link), version).responses)
        assert known.error_code == error, replica_id
        assert (known.high_watermark, len(known.records)) == ((-1, 0) if error else (20, size))
        assert unknown.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
