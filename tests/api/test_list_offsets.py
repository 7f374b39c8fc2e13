"""ListOffsets by position, time and isolation level; without a match the offset is -1, without an
error."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.api.in_process import ask
from tests.control.fakes import World, world

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
READ_COMMITTED = 1


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Topic a, 2 partitions; a-0 has offsets 0-3 with timestamps 1000, 3000, 2000 and 2000."""
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 2)]))
        partition = one.broker.catalogue.topics["a"].partitions[0]
        one.worker.append(partition, (b"a", b"1", (), 1000), (b"b", b"2", (), 3000), (b"c", b"3", (), 2000))
        one.worker.append(partition, (b"d", b"4", (), 2000))
        yield one


def offset(
    made: World, timestamp: int, version: int = 11, index: int = 0, epoch: int = -1, **more: int
) -> Any:
    request = ListOffsetsRequest(
        more.get("replica", -1),
        more.get("isolation", 0),
        [ListOffsetsTopic("a", [ListOffsetsPartition(index, epoch, timestamp)])],
    )
    answer = asyncio.run(ask(made.broker, ApiKey.LIST_OFFSETS, version, request))
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (LATEST, (-1, 4, 0)),
        (EARLIEST, (-1, 0, 0)),
        (EARLIEST_LOCAL, (-1, 0, 0)),
        (MAX_TIMESTAMP, (3000, 1, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (PENDING_UPLOAD, (-1, -1, -1)),
        (0, (1000, 0, 0)),
        (1001, (3000, 1, 0)),
        (3000, (3000, 1, 0)),
        (3001, (-1, -1, -1)),
    ],
)
def test_offsets_are_found_by_position_and_by_time(
    made: World, timestamp: int, found: tuple[int, int, int]
) -> None:
    answer = offset(made, timestamp)
    assert answer.error_code == 0
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == found


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (PENDING_UPLOAD, 11)],
)
def test_special_timestamps_need_their_version(made: World, timestamp: int, first: int) -> None:
    assert offset(made, timestamp, first - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert offset(made, timestamp, first).error_code == 0


def test_other_negative_timestamps_are_never_supported(made: World) -> None:
    assert offset(made, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_read_committed_ends_at_the_last_stable_offset(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.shared.slots[slot, Slot.LAST_STABLE] = 1
    assert offset(made, LATEST, isolation=READ_COMMITTED).offset == 1
    assert offset(made, LATEST).offset == 4
    assert offset(made, 1000, isolation=READ_COMMITTED).offset == 0
    beyond = offset(made, 2500, isolation=READ_COMMITTED)
    assert (beyond.error_code, beyond.offset, beyond.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("isolation", [-1, 2, 127])
def test_an_unknown_isolation_level_fails_every_partition(made: World, isolation: int) -> None:
    for index in (0, 9):
        answer = offset(made, LATEST, index=index, isolation=isolation)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (answer.timestamp, answer.offset, answer.leader_epoch) == (-1, -1, -1)


def test_consumers_end_at_the_high_watermark_others_at_the_log_end(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.shared.slots[slot, Slot.HIGH_WATERMARK] = 3
    assert offset(made, LATEST).offset == 3
    assert offset(made, LATEST, replica=-2).offset == 4


@pytest.mark.parametrize(
    ("epoch_start", "version", "code"),
    [
        (4, 11, ErrorCode.OFFSET_NOT_AVAILABLE),
        (4, 5, ErrorCode.OFFSET_NOT_AVAILABLE),
        (4, 4, ErrorCode.LEADER_NOT_AVAILABLE),
        (Slot.NOT_LED, 11, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_an_end_that_may_be_below_a_reported_one_is_refused(
    made: World, epoch_start: int, version: int, code: ErrorCode
) -> None:
    """Until a new leader's high watermark has reached the start of its epoch (KIP-207)."""
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.shared.slots[slot, Slot.HIGH_WATERMARK] = 3
    made.shared.slots[slot, Slot.EPOCH_START] = epoch_start
    assert offset(made, LATEST, version).error_code == code
    assert offset(made, 3001, version).error_code == code
    assert offset(made, 3000, version).offset == 1
    assert offset(made, EARLIEST, version).offset == 0
    assert offset(made, LATEST, version, replica=-2).offset == 4
    made.shared.slots[slot, Slot.HIGH_WATERMARK] = 4
    if epoch_start == 4:
        assert offset(made, LATEST, version).offset == 4


def test_an_empty_partition_has_its_epoch_and_no_record(made: World) -> None:
    assert (offset(made, LATEST, index=1).offset, offset(made, LATEST, index=1).leader_epoch) == (0, 0)
    assert offset(made, MAX_TIMESTAMP, index=1).offset == -1


def test_deleted_records_are_not_found_by_time(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.shared.slots[slot, Slot.LOG_START] = 2
    assert offset(made, 0).offset == 2
    assert offset(made, EARLIEST).offset == 2


def test_epochs_older_and_newer_than_the_leaders_get_different_errors(made: World) -> None:
    made.reboot()
    assert offset(made, LATEST, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert offset(made, LATEST, epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert offset(made, LATEST, epoch=1).error_code == 0


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (SlotState.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (SlotState.RECOVERING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_log_that_is_not_open_answers_its_error(made: World, state: int, code: ErrorCode) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[0].slot
    made.shared.slots[slot, Slot.STATE] = state
    assert offset(made, LATEST).error_code == code


@pytest.mark.parametrize(
    ("word", "value", "code"),
    [
        (Slot.LEADER_EPOCH, 7, ErrorCode.FENCED_LEADER_EPOCH),
        (Slot.STATE, SlotState.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_log_is_checked_as_it_is_for_the_sequence_of_the_cached_answer(
    made: World, monkeypatch: pytest.MonkeyPatch, word: int, value: int, code: ErrorCode
) -> None:
    """Its IO worker publishes a change just before control reads the sequence. Else the answer to a
    client with an old leader epoch would be cached for the sequence of the new one."""
    group = made.broker.slots.group

    def changed(slot: int) -> Any:
        made.shared.slots[slot, word] = value
        made.shared.slots[slot, Slot.SEQUENCE] += 2
        return group(slot)

    monkeypatch.setattr(made.broker.slots, "group", changed)
    assert offset(made, MAX_TIMESTAMP, epoch=0).error_code == code


def test_a_log_that_can_not_be_read_is_a_storage_error(made: World) -> None:
    partition = made.broker.catalogue.topics["a"].partitions[0]
    path = Path(partition.folder, "00000000000000000000.log")
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert offset(made, 1000).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_without_partitions_is_not_in_the_answer(made: World) -> None:
    topics = [ListOffsetsTopic("absent"), ListOffsetsTopic("a", [ListOffsetsPartition(0, -1, LATEST)])]
    answer: Any = asyncio.run(ask(made.broker, ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, topics)))
    assert [topic.name for topic in answer.topics] == ["a"]
