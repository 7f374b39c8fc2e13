"""Writes that the system cuts short are finished or fail; blocks ahead of a log's end are reserved
for a log that grows fast, and writing never needs them."""

import ctypes
import fcntl
import os
import resource
import struct
import time
from pathlib import Path

import pytest

from kbroker.io.append import drain_kernel
from kbroker.io.append.drain_kernel import MIN_CHUNK_BYTES
from kbroker.io.append.rows import AppendRow, Environment
from kbroker.io.partition.active_segment import begin_reserving
from kbroker.kernels import plain
from kbroker.kernels.memory import load_i64
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
    for position in (0, 4096, MIN_CHUNK_BYTES - 100):
        append_at(case, position)
    assert reserved(case) == 0


def test_each_stretch_of_a_fast_log_reserves_half_of_it_again(case: DrainCase) -> None:
    append_at(case, 0)
    before = os.fstat(int(case.row[AppendRow.LOG_FD])).st_blocks
    append_at(case, MIN_CHUNK_BYTES + 100)
    assert abs(reserved(case) - MIN_CHUNK_BYTES) < 4096
    assert os.fstat(int(case.row[AppendRow.LOG_FD])).st_blocks * 512 - before * 512 >= MIN_CHUNK_BYTES - 4096
    append_at(case, MIN_CHUNK_BYTES + 200)
    assert case.row[AppendRow.RESERVED] < 2 * MIN_CHUNK_BYTES + 4096, "only from the middle of the chunk on"
    append_at(case, int(case.row[AppendRow.RESERVE_AT]))
    append_at(case, 8 * MIB)
    assert abs(reserved(case) - 4 * MIB) < 4096
    append_at(case, 64 * MIB)
    assert abs(reserved(case) - MOST) < 4096


def test_a_slow_log_reserves_nothing(case: DrainCase) -> None:
    append_at(case, 0)
    for position in (8 * MIB, 16 * MIB, 32 * MIB):
        case.row[AppendRow.RESERVED_MS] -= AppendRow.KEEP_MS + 1000
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


def test_nothing_is_reserved_after_the_segment(case: DrainCase) -> None:
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


def test_appends_continue_where_no_block_can_be_reserved(case: DrainCase) -> None:
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


def test_a_write_that_is_cut_short_and_then_fails_is_no_append(case: DrainCase) -> None:
    """Python ignores SIGXFSZ, so the system writes up to the limit and then says EFBIG."""
    append_at(case, 0)
    before = int(case.row[AppendRow.POSITION])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    case.push(batch())
    resource.setrlimit(resource.RLIMIT_FSIZE, (before + 20, hard))
    try:
        case.drain.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert case.outcomes()[0][1] != 0
    assert case.row[AppendRow.POSITION] == before


@pytest.mark.skipif(not plain.ACTIVE, reason="replaces a call of a kernel")
def test_a_short_write_continues_where_it_stopped(case: DrainCase, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces_seen: list[int] = []

    def a_few_bytes(fd: int, iov: int, pieces: int, position: int) -> int:
        pieces_seen.append(pieces)
        data = b"".join(
            ctypes.string_at(load_i64(iov + 16 * n), load_i64(iov + 16 * n + 8)) for n in range(pieces)
        )
        return os.pwrite(fd, data[:50], position)

    monkeypatch.setattr(drain_kernel, "pwritev", a_few_bytes)
    sent = [batch(payload=bytes([65 + number]) * 30) for number in range(5)]
    for number, each in enumerate(sent):
        case.push(each, client=number % 2)  # of two arenas, so that they are several pieces
    case.drain.run()
    assert [answer[1] for client in (0, 1) for answer in case.outcomes(client)] == [0] * 5
    assert max(pieces_seen) > 1
    written = os.pread(int(case.row[AppendRow.LOG_FD]), 1 << 16, 0)
    assert len(written) == sum(len(each) for each in sent)
    for number in range(5):
        assert bytes([65 + number]) * 30 in written


@pytest.mark.skipif(not plain.ACTIVE, reason="replaces a constant of a kernel")
def test_more_pieces_than_one_call_takes_are_written_in_several(
    case: DrainCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "MAX_IOV", 2)
    sent = [batch(payload=bytes([65 + number]) * (30 + number)) for number in range(7)]
    for each in sent:
        case.push(each)
        case._arena_used[0] += 64  # so that no two are neighbours
    case.drain.run()
    assert [answer[1] for answer in case.outcomes()] == [0] * 7
    written = os.pread(int(case.row[AppendRow.LOG_FD]), 1 << 16, 0)
    assert [written.count(bytes([65 + number]) * (30 + number)) for number in range(7)] == [1] * 7
    assert len(written) == sum(len(each) for each in sent)


def test_the_first_of_equal_timestamps_is_the_largest(case: DrainCase) -> None:
    """As in Kafka's LogSegment.append: ListOffsets names its offset."""
    for timestamp in (1000, 3000, 3000, 2000):
        case.push(batch(timestamp=timestamp))
    case.drain.run()
    assert case.row[AppendRow.MAX_TIMESTAMP] == 3000
    assert case.row[AppendRow.MAX_TIMESTAMP_OFFSET] == 1


def test_an_index_entry_comes_when_more_than_the_interval_was_written(case: DrainCase) -> None:
    case.row[AppendRow.INDEX_INTERVAL] = len(batch())
    for _ in range(2):
        case.push(batch())
    case.drain.run()
    assert case.file("index") == b""
    case.push(batch())
    case.drain.run()
    assert len(case.file("index")) == 8


def test_a_time_index_entry_that_could_not_be_written_is_due_again(case: DrainCase) -> None:
    """Else the segment would end without an entry of its largest timestamp, and searches by time
    and retention would take an older one for it."""
    case.row[AppendRow.INDEX_INTERVAL] = 0
    case.push(batch(timestamp=1000))
    case.push(batch(timestamp=2000))
    case.drain.run()
    assert case.row[AppendRow.LAST_INDEXED_TIMESTAMP] == 2000
    written, case.row[AppendRow.TIME_INDEX_FD] = case.row[AppendRow.TIME_INDEX_FD].copy(), -1
    case.push(batch(timestamp=3000))
    case.drain.run()
    assert case.row[AppendRow.LAST_INDEXED_TIMESTAMP] == 2000
    case.row[AppendRow.TIME_INDEX_FD] = written
    case.push(batch(timestamp=2500))
    case.drain.run()
    assert case.file("timeindex") == struct.pack(">qiqi", 2000, 1, 3000, 2)
