"""The offsets at which the drain kernel ends a segment, and the batches that it writes before."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, Drained, Environment, Stop
from kbroker.ipc.layout import Slot, SlotFlag
from tests.io.append.drain_case import CAPACITY, DrainCase, batch, header

SIZE = len(batch())
FAR = (1 << 31) - 1  # the largest relative offset


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    return DrainCase(tmp_path)


@pytest.mark.parametrize(
    ("first_timestamp", "limits", "rolls"),
    [
        (1000, {AppendRow.SEGMENT_BYTES: 2 * SIZE}, False),
        (1000, {AppendRow.SEGMENT_BYTES: 2 * SIZE - 1}, True),
        (1000, {AppendRow.INDEX_BYTES: 32, AppendRow.INDEX_LIMIT: 40}, False),
        (1000, {AppendRow.INDEX_BYTES: 32, AppendRow.INDEX_LIMIT: 39}, True),
        (1000, {AppendRow.TIME_INDEX_BYTES: 24, AppendRow.INDEX_LIMIT: 48}, False),
        (1000, {AppendRow.TIME_INDEX_BYTES: 24, AppendRow.INDEX_LIMIT: 47}, True),
        (1000, {AppendRow.ROLL_AT_MS: 1}, False),
        (-1, {AppendRow.ROLL_AT_MS: 1}, True),
        (-1, {AppendRow.ROLL_AT_MS: 1, AppendRow.GROW_UNTIL_MS: AppendRow.NEVER}, False),
        (1000, {AppendRow.SEGMENT_BYTES: 2 * SIZE - 1, AppendRow.GROW_UNTIL_MS: AppendRow.NEVER}, False),
        (1000, {AppendRow.SEGMENT_BYTES: 2 * SIZE - 1, AppendRow.GROW_UNTIL_MS: 1}, True),
        (1000, {AppendRow.POSITION: 1 << 20, AppendRow.GROW_UNTIL_MS: AppendRow.NEVER}, True),
        (1000, {AppendRow.NEXT_OFFSET: FAR + 1, AppendRow.GROW_UNTIL_MS: AppendRow.NEVER}, True),
        (-1, {AppendRow.SEGMENT_MS: 0}, False),
        (0, {AppendRow.SEGMENT_MS: 1000}, False),
        (0, {AppendRow.SEGMENT_MS: 999}, True),
        (1000, {AppendRow.NEXT_OFFSET: FAR}, False),
        (1000, {AppendRow.NEXT_OFFSET: FAR + 1}, True),
        (1000, {AppendRow.NEXT_OFFSET: FAR + 8, AppendRow.BASE_OFFSET: 8}, False),
        (1000, {AppendRow.NEXT_OFFSET: FAR + 1, AppendRow.POSITION: 0}, True),
        (1000, {AppendRow.POSITION: 0, AppendRow.SEGMENT_BYTES: SIZE, AppendRow.INDEX_LIMIT: 0}, False),
    ],
)
def test_a_segment_ends_at_each_of_its_limits(
    case: DrainCase, first_timestamp: int, limits: dict[int, int], rolls: bool
) -> None:
    """LogSegment.shouldRoll."""
    case.push(batch(timestamp=first_timestamp))
    assert case.drain.run() == 1
    for word, value in limits.items():
        case.row[word] = value
    case.push(batch(timestamp=1000))
    assert case.drain.run() == (not rolls)
    assert case.drain.out[Drained.STOP] == (Stop.ROLL if rolls else Stop.NONE)


def test_with_log_append_time_a_segment_ends_by_the_time_of_its_appends(case: DrainCase) -> None:
    """The timestamps of the producer, which no setting bounds there, are not those in the log."""
    case.words[Slot.FLAGS] = SlotFlag.LOG_APPEND_TIME
    case.row[AppendRow.SEGMENT_MS] = 3_600_000
    for timestamp in (1000, 1 << 60):
        case.push(batch(timestamp=timestamp))
        assert case.drain.run() == 1
    case.row[AppendRow.FIRST_TIMESTAMP] -= 3_600_001
    case.push(batch(timestamp=1000))
    assert case.drain.run() == 0
    assert case.drain.out[Drained.STOP] == Stop.ROLL


def test_a_batch_whose_last_offset_is_too_far_from_the_base_rolls(case: DrainCase) -> None:
    case.push(batch())
    case.drain.run()
    case.row[AppendRow.NEXT_OFFSET] = FAR
    case.push(batch(records=2))
    assert case.drain.run() == 0
    assert case.drain.out[Drained.STOP] == Stop.ROLL


def test_the_largest_timestamp_of_a_slot_does_not_go_back(case: DrainCase) -> None:
    for timestamp, largest in ((2000, 2000), (1000, 2000), (3000, 3000)):
        case.push(batch(timestamp=timestamp))
        case.drain.run()
        assert case.words[Slot.MAX_TIMESTAMP] == largest


def test_batches_from_all_over_the_arena_are_written_in_order(case: DrainCase) -> None:
    """Neighbours go in one piece."""
    for n in range(CAPACITY):
        case.push(batch(payload=b"%03d" % n, records=1 + n % 3))
        if n % 4:
            case._arena_used[0] += 64
    while case.drain.waiting():
        case.drain.run()
        case.answers()
    log, position, offset = case.file("log"), 0, 0
    for n in range(CAPACITY):
        base, size, _, good = header(log, position)
        assert (base, good, log[position + size - 3 : position + size]) == (offset, True, b"%03d" % n)
        position, offset = position + size, offset + 1 + n % 3
    assert position == len(log) == case.row[AppendRow.POSITION]


def test_a_batch_as_large_as_a_segment_is_written(case: DrainCase) -> None:
    case.row[AppendRow.SEGMENT_BYTES] = len(batch())
    token = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(token, 0, 0)]


def test_the_first_of_the_largest_timestamps_is_the_segments(case: DrainCase) -> None:
    for timestamp, offset in ((1000, 0), (1000, 0), (999, 0), (1001, 3)):
        case.push(batch(timestamp=timestamp))
        case.drain.run()
        assert case.row[AppendRow.MAX_TIMESTAMP_OFFSET] == offset


def test_more_pieces_than_one_write_takes_are_written_in_order(tmp_path: Path) -> None:
    clients, each = 32, CAPACITY // 2
    case = DrainCase(tmp_path, clients)
    for number in range(clients * each):
        client = number // each
        case.push(batch(payload=b"%06d" % number), client=client)
        case._arena_used[client] += 64  # so that no batch is a part of the piece before
    assert case.drain.run() == clients * each > Environment.MAX_IOV
    log, size = case.file("log"), len(batch(payload=bytes(6)))
    assert len(log) == clients * each * size
    for number in range(clients * each):
        end = (number + 1) * size
        assert (header(log, end - size)[0], log[end - 6 : end]) == (number, b"%06d" % number)


def test_producer_table_grows_without_losing_anyone(case: DrainCase) -> None:
    grown = 0
    for producer in range(50):
        case.push(batch(producer=(producer, 0, 0)))
        if not case.drain.run():
            assert case.drain.out[Drained.STOP] == Stop.ROOM
            case.drain.make_room()
            grown += 1
            assert case.drain.run() == 1
    assert grown == 1
    assert [entry.producer_id for entry in case.drain.producers.entries(case.slot)] == list(range(50))
    assert case.drain.producers.count == 50


def test_a_drain_uses_the_producer_table_that_has_grown_meanwhile(case: DrainCase) -> None:
    """It grows when a log is opened, too."""
    table = case.drain.producers
    table.make_room(table.room + 1)
    case.push(batch(producer=(7, 0, 0)))
    assert case.drain.run() == 1
    assert [entry.producer_id for entry in table.entries(case.slot)] == [7]
