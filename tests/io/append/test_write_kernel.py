"""Blocks ahead of a log's end: a log that grows fast has them, a slow one does not, and writing
never needs them."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.append.write_kernel import KEEP_MS, MIN_CHUNK
from kbroker.io.partition.active_segment import begin_reserving
from tests.io.append.drain_case import NEVER, DrainCase, batch

MIB = 1 << 20
MOST = 8 * MIB


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    made = DrainCase(tmp_path)
    made.row[AppendRow.SEGMENT_BYTES] = 1 << 30
    begin_reserving(made.row, MOST)
    return made


def append_at(case: DrainCase, position: int) -> None:
    """One more batch in a log that has grown to a position."""
    os.ftruncate(int(case.row[AppendRow.LOG_FD]), position)
    case.row[AppendRow.POSITION] = position
    token = case.push(batch())
    case.drain.run()
    assert [answer[:2] for answer in case.outcomes()] == [(token, 0)]


def reserved(case: DrainCase) -> int:
    """Bytes on disk behind the end of the file."""
    status = os.fstat(int(case.row[AppendRow.LOG_FD]))
    assert status.st_size == case.row[AppendRow.POSITION]
    place = int(case.row[AppendRow.RESERVED])
    return place - int(case.row[AppendRow.POSITION]) if place and status.st_blocks * 512 >= MIB else 0


def test_a_small_log_reserves_nothing(case: DrainCase) -> None:
    for position in (0, 4096, MIN_CHUNK - 100):
        append_at(case, position)
    assert reserved(case) == 0


def test_each_stretch_of_a_fast_log_reserves_half_of_it_again(case: DrainCase) -> None:
    append_at(case, 0)
    before = os.fstat(int(case.row[AppendRow.LOG_FD])).st_blocks
    append_at(case, MIN_CHUNK + 100)
    assert abs(reserved(case) - MIN_CHUNK) < 4096
    assert os.fstat(int(case.row[AppendRow.LOG_FD])).st_blocks * 512 - before * 512 >= MIN_CHUNK - 4096
    append_at(case, MIN_CHUNK + 200)
    assert case.row[AppendRow.RESERVED] < 2 * MIN_CHUNK + 4096, "only from the middle of the chunk on"
    append_at(case, int(case.row[AppendRow.RESERVE_AT]))
    append_at(case, 8 * MIB)
    assert abs(reserved(case) - 4 * MIB) < 4096
    append_at(case, 64 * MIB)
    assert abs(reserved(case) - MOST) < 4096


def test_a_slow_log_reserves_nothing(case: DrainCase) -> None:
    append_at(case, 0)
    for position in (8 * MIB, 16 * MIB, 32 * MIB):
        case.row[AppendRow.RESERVED_MS] -= KEEP_MS + 1000
        append_at(case, position)
        assert case.row[AppendRow.RESERVED] == 0
    append_at(case, 64 * MIB)
    assert reserved(case) > MOST - 4096, "fast again"


def test_an_append_to_a_log_that_was_long_when_it_was_opened_is_no_growth(case: DrainCase) -> None:
    case.row[AppendRow.POSITION] = 512 * MIB
    begin_reserving(case.row, MOST)
    append_at(case, 512 * MIB)
    append_at(case, 513 * MIB)
    assert reserved(case) == 0
    append_at(case, 512 * MIB + MOST + 200)
    assert reserved(case) > MOST - 4096


def test_nothing_is_reserved_behind_the_segment(case: DrainCase) -> None:
    case.row[AppendRow.SEGMENT_BYTES] = 10 * MIB
    append_at(case, 0)
    append_at(case, 7 * MIB)
    assert case.row[AppendRow.RESERVED] == 10 * MIB
    assert case.row[AppendRow.RESERVE_AT] == NEVER


def test_nothing_is_reserved_where_it_was_turned_off(case: DrainCase) -> None:
    begin_reserving(case.row, 0)
    for position in (0, 8 * MIB, 16 * MIB):
        append_at(case, position)
    assert reserved(case) == 0


def test_what_can_not_be_reserved_is_done_without(case: DrainCase) -> None:
    os.close(int(case.row[AppendRow.LOG_FD]))
    sealed = case.row[AppendRow.LOG_FD] = os.memfd_create("log", os.MFD_ALLOW_SEALING)
    append_at(case, 0)
    os.ftruncate(sealed, 8 * MIB + 4096)
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)  # refuses blocks behind the end
    case.row[AppendRow.POSITION] = 8 * MIB
    case.push(batch())
    case.drain.run()
    assert case.outcomes()[0][1] == 0
    assert (case.row[AppendRow.RESERVED], case.row[AppendRow.RESERVE_AT]) == (0, NEVER)


def test_the_time_of_a_look_is_the_wall_clock(case: DrainCase) -> None:
    append_at(case, 0)
    assert abs(int(case.row[AppendRow.RESERVED_MS]) - time.time() * 1000) < 60_000
