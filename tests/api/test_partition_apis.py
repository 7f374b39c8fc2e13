"""DeleteRecords, OffsetForLeaderEpoch, DescribeProducers, DescribeLogDirs: their calls of IO
workers."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc import messages as m
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.api.in_process import ask
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path, dirs=2) as one:
        specs = [NewTopic("a", 2), NewTopic("compacted", configs={"cleanup.policy": "compact"})]
        specs.append(NewTopic("kept", configs={"cleanup.policy": ""}))
        asyncio.run(create_topics(one.broker, specs))
        one.worker.append(one.broker.catalogue.topics["a"].partitions[0], *[(None, b"v", (), 1)] * 5)
        yield one


def delete(made: World, name: str, *pairs: tuple[int, int]) -> dict[int, tuple[int, int]]:
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic(name, [DeleteRecordsPartition(*pair) for pair in pairs])]
    )
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DELETE_RECORDS, 2, request))
    return {p.partition_index: (p.error_code, p.low_watermark) for p in answer.topics[0].partitions}


def test_records_below_an_offset_are_deleted(made: World) -> None:
    assert delete(made, "a", (0, 2)) == {0: (0, 2)}
    assert delete(made, "a", (0, 1)) == {0: (0, 2)}
    assert delete(made, "a", (0, -1)) == {0: (0, 5)}


def test_a_topic_without_partitions_is_not_in_the_answer(made: World) -> None:
    topics = [DeleteRecordsTopic("a"), DeleteRecordsTopic("compacted", [DeleteRecordsPartition(7, 0)])]
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics)))
    assert [topic.name for topic in answer.topics] == ["compacted"]


def test_each_partition_has_its_own_result(made: World) -> None:
    assert delete(made, "a", (0, 99), (1, 0), (7, 0)) == {
        0: (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        1: (0, 0),
        7: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }


def test_a_topic_that_is_only_compacted_keeps_its_records(made: World) -> None:
    assert delete(made, "compacted", (0, -1)) == {0: (ErrorCode.POLICY_VIOLATION, -1)}
    assert not [call for call in made.worker.calls if isinstance(call, m.DeleteRecords)]


def test_records_of_a_topic_without_a_cleanup_policy_are_deleted_by_request(made: World) -> None:
    made.worker.append(made.broker.catalogue.topics["kept"].partitions[0], *[(None, b"v", (), 1)] * 5)
    assert delete(made, "kept", (0, 3)) == {0: (0, 3)}


def epoch_end(made: World, current: int, epoch: int, index: int = 0) -> tuple[int, int, int]:
    partition = OffsetForLeaderPartition(index, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("a", [partition])])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request))
    end = answer.topics[0].partitions[0]
    assert end.partition == index
    return end.error_code, end.leader_epoch, end.end_offset


def test_the_current_epoch_ends_at_the_log_end_and_an_unknown_one_nowhere(made: World) -> None:
    assert epoch_end(made, -1, 0) == (0, 0, 5)
    assert epoch_end(made, -1, 9) == (0, -1, -1)


def test_the_current_epoch_of_a_later_start_is_answered_as_such(made: World) -> None:
    made.reboot()
    log_end = int(made.shared.slots[made.broker.catalogue.topics["a"].partitions[0].slot, Slot.LOG_END])
    assert epoch_end(made, -1, 1) == (0, 1, log_end)


def test_only_an_earlier_epoch_is_requested_from_the_worker(made: World) -> None:
    epoch_end(made, -1, 0)
    assert not [call for call in made.worker.calls if isinstance(call, m.EpochEndOffset)]
    epoch_end(made, -1, 7)
    assert [call.leader_epoch for call in made.worker.calls if isinstance(call, m.EpochEndOffset)] == [7]


def test_a_client_with_another_leader_epoch_gets_an_error(made: World) -> None:
    made.reboot()
    assert epoch_end(made, 0, 0)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_end(made, 9, 0)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert epoch_end(made, 1, 0, index=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def producers(made: World, name: str, index: int) -> Any:
    request = DescribeProducersRequest([TopicRequest(name, [index])])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_PRODUCERS, 0, request))
    return answer.topics[0].partitions[0]


def test_producers_come_from_the_io_worker(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.worker.producers = {slot: ((7, 1, 42, 1234, -1, 99),)}
    (producer,) = producers(made, "a", 0).active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 1, 42)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (1234, 99)


def test_producers_of_what_is_not_there_are_an_error(made: World) -> None:
    assert producers(made, "a", 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producers(made, "bad name", 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    made.worker.refuse[m.DescribeProducers] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert producers(made, "a", 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_very_many_producers_come_in_pages_and_a_partition_that_is_named_often_comes_once(
    made: World,
) -> None:
    first, second = (partition.slot for partition in made.broker.catalogue.topics["a"].partitions)
    limit = m.DescribeProducers(()).limit
    made.worker.producers = {
        first: tuple((number, 0, 0, 0, -1, -1) for number in range(2 * limit)),
        second: ((7, 0, 0, 0, -1, -1),),
    }
    request = DescribeProducersRequest([TopicRequest("a", [0, 0, 1, 0])])
    (topic,) = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_PRODUCERS, 0, request)).topics
    found = [[each.producer_id for each in part.active_producers] for part in topic.partitions]
    everything = list(range(2 * limit))
    assert found == [everything, everything, [7], everything]
    calls = [call for call in made.worker.calls if isinstance(call, m.DescribeProducers)]
    assert [(call.slots, call.after) for call in calls] == [
        ((first, second), -1),
        ((first, second), limit - 1),
        ((first, second), 2 * limit - 1),
    ]


def test_an_io_worker_is_called_once_for_all_its_partitions(tmp_path: Path) -> None:
    with world(tmp_path, workers=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 5), NewTopic("b", 3)]))
        partitions = list(made.broker.catalogue.partitions())
        assert {each.worker for each in partitions} == {0, 1}
        for each in partitions[:-1]:
            made.workers[each.worker].producers[each.slot] = ((each.slot, 0, 1, 2, -1, -1),)
        gone = partitions[-1]
        made.workers[gone.worker].producers[gone.slot] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        request = DescribeProducersRequest(
            [TopicRequest("b", [2, 0, 7, 1]), TopicRequest("a", list(range(5))), TopicRequest("none", [0])]
        )
        answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_PRODUCERS, 0, request))
        found = {
            (topic.name, part.partition_index): (
                part.error_code,
                [each.producer_id for each in part.active_producers],
            )
            for topic in answer.topics
            for part in topic.partitions
        }
        expected = {(each.topic, each.index): (0, [each.slot]) for each in partitions}
        expected[gone.topic, gone.index] = ErrorCode.NOT_LEADER_OR_FOLLOWER, []
        expected["b", 7] = expected["none", 0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        assert found == expected
        assert list(found) == [*(("b", i) for i in (2, 0, 7, 1)), *(("a", i) for i in range(5)), ("none", 0)]
        requested = [
            call for worker in made.workers for call in worker.calls if isinstance(call, m.DescribeProducers)
        ]
        assert len(requested) == 2


def log_dirs(made: World, topics: list[DescribableLogDirTopic] | None = None) -> dict[str, Any]:
    request = DescribeLogDirsRequest(topics)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_LOG_DIRS, 5, request))
    return {result.log_dir: result for result in answer.results}


def test_every_directory_is_listed_with_sizes_and_space(made: World) -> None:
    first, second = (log_dirs(made)[log_dir] for log_dir in made.dirs)
    sizes = {
        (t.name, p.partition_index): p.partition_size
        for d in (first, second)
        for t in d.topics
        for p in t.partitions
    }
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    assert sizes == {
        ("a", 0): made.shared.slots[slot, Slot.LOG_BYTES],
        ("a", 1): 0,
        ("compacted", 0): 0,
        ("kept", 0): 0,
    }
    assert first.error_code == 0
    assert 0 < first.usable_bytes <= first.total_bytes


def test_only_requested_partitions_are_listed_but_every_directory(made: World) -> None:
    found = log_dirs(made, [DescribableLogDirTopic("a", [1, 9]), DescribableLogDirTopic("absent", [0])])
    assert list(found) == made.dirs
    assert [
        (t.name, [p.partition_index for p in t.partitions]) for d in found.values() for t in d.topics
    ] == [("a", [1])]


def test_a_failed_directory_answers_an_error_and_the_other_is_served(made: World) -> None:
    partition = made.broker.catalogue.topics["a"].partitions[0]
    made.broker.dir_errors.fail(partition.log_dir, errno.EIO)
    found = log_dirs(made)
    assert found[partition.log_dir].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (other,) = (result for log_dir, result in found.items() if log_dir != partition.log_dir)
    assert other.error_code == 0


def test_cordoned_directories_are_marked(tmp_path: Path) -> None:
    with world(tmp_path / "w", {"cordoned.log.dirs": "*"}) as made:
        assert [result.is_cordoned for result in log_dirs(made).values()] == [True]
