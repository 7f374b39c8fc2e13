"""The batch walk: good files yield every batch, any damage ends it at the last good one."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels import batches
from kbroker.kernels.scan_rows import ScannedBatch, ScanState, ScanStop
from tests.log.batch_bytes import batch, end_marker, record

INT64 = np.int64


def scan(
    data: bytes,
    tmp: Path,
    check_crc: bool = True,
    buffer_bytes: int = 1 << 16,
    max_rows: int = 64,
    base: int = 0,
    highest: int = 2**31 - 1,
) -> tuple[list[list[int]], int, int]:
    """(rows, next position, why it stopped) of a whole file, called as recovery does."""
    path = tmp / "scanned.log"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    buffer = np.zeros(buffer_bytes, np.uint8)
    rows = ScannedBatch.table(max_rows)
    state = ScanState.row()
    state[ScanState.NEXT_OFFSET] = base
    found: list[list[int]] = []
    try:
        while True:
            count = batches.scan(fd, len(data), highest, max_rows, check_crc, buffer, rows, state)
            found += rows[:count].tolist()
            stop = int(state[ScanState.STOP])
            if stop == ScanStop.NEED_BUFFER:
                buffer = np.zeros(int(state[ScanState.NEXT_SIZE]) + batches.CONTROL_PEEK, np.uint8)
            elif stop != ScanStop.MORE:
                return found, int(state[ScanState.NEXT_POSITION]), stop
    finally:
        os.close(fd)


def test_fields_of_a_header_are_read(tmp_path: Path) -> None:
    data = batch(
        7,
        [b"a", b"b", b"c"],
        [100, 300, 200],
        leader_epoch=4,
        attributes=0x10,
        producer_id=9,
        producer_epoch=2,
        base_sequence=11,
    )
    rows, position, stop = scan(data, tmp_path)
    assert (position, stop) == (len(data), ScanStop.END)
    assert rows == [[0, len(data), 7, 9, 300, 100, 4, 0x10, 9, 2, 11, 3, -1, -1]]


def test_end_markers_give_their_type_and_coordinator_epoch(tmp_path: Path) -> None:
    data = end_marker(0, 5, 1, commit=True, coordinator_epoch=77) + end_marker(1, 5, 1, commit=False)
    for crc in (True, False):
        rows, _, _ = scan(data, tmp_path, crc)
        assert [(row[ScannedBatch.CONTROL_TYPE], row[ScannedBatch.COORDINATOR_EPOCH]) for row in rows] == [
            (1, 77),
            (0, 0),
        ]


@pytest.mark.parametrize("delta", [-(1 << 34), -(1 << 34) - 1, -(1 << 40), -(1 << 62)])
def test_an_end_marker_far_from_its_delete_horizon_gives_them_too(tmp_path: Path, delta: int) -> None:
    """Compaction makes the horizon the base timestamp: six bytes from 199 days before it on."""
    marker = record(0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 77), delta)
    rows, _, stop = scan(batch(3, [b""], attributes=0x70, payload=marker), tmp_path)
    assert (rows[0][ScannedBatch.CONTROL_TYPE], rows[0][ScannedBatch.COORDINATOR_EPOCH]) == (1, 77)
    assert stop == ScanStop.END


def test_an_emptied_control_batch_has_no_type(tmp_path: Path) -> None:
    data = batch(3, [], attributes=0x30, last_offset_delta=0)
    rows, _, stop = scan(data, tmp_path)
    assert (rows[0][ScannedBatch.CONTROL_TYPE], stop) == (-1, ScanStop.END)


@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=30),
    buffer_bytes=st.integers(700, 5000),
    max_rows=st.integers(1, 7),
    check_crc=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_batch_is_found_whatever_buffer_and_row_count(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    buffer_bytes: int,
    max_rows: int,
    check_crc: bool,
) -> None:
    data = b""
    expected = []
    for offset, size in enumerate(sizes):
        expected.append((len(data), offset))
        data += batch(offset, [bytes(size)])
    rows, position, stop = scan(data, tmp_path_factory.getbasetemp(), check_crc, buffer_bytes, max_rows)
    assert [(row[ScannedBatch.POSITION], row[ScannedBatch.BASE_OFFSET]) for row in rows] == expected
    assert (position, stop) == (len(data), ScanStop.END)


def test_a_file_cut_at_any_byte_ends_at_the_last_complete_batch(tmp_path: Path) -> None:
    first, second = batch(0, [b"one"]), batch(1, [b"two"])
    for cut in range(len(first), len(first + second)):
        rows, position, stop = scan((first + second)[:cut], tmp_path)
        assert (len(rows), position) == (1, len(first))
        assert stop == (ScanStop.END if cut == len(first) else ScanStop.TORN)


def test_any_flipped_bit_under_the_crc_is_found(tmp_path: Path) -> None:
    good = batch(0, [b"good"])
    bad = batch(1, [b"some value"])
    for byte in range(21, len(bad)):
        for bit in (0, 3, 7):
            flipped = bytearray(bad)
            flipped[byte] ^= 1 << bit
            rows, position, stop = scan(good + bytes(flipped), tmp_path)
            assert (len(rows), position, stop) == (1, len(good), ScanStop.BAD_CRC)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (batch(5, magic=0), ScanStop.OLD_MAGIC),
        (batch(5, magic=1), ScanStop.OLD_MAGIC),
        (batch(5, magic=3), ScanStop.BAD_MAGIC),
        (batch(5, magic=-1), ScanStop.BAD_MAGIC),
        (batch(5, [b"a"], last_offset_delta=-1), ScanStop.BAD_COUNT),
        (batch(5, [b"a"], count=2), ScanStop.BAD_COUNT),
        (batch(5, [b"a"], count=-1), ScanStop.BAD_COUNT),
        (batch(4), ScanStop.BAD_OFFSET),
        (batch(5, last_offset_delta=2**31 - 1), ScanStop.BAD_OFFSET),
        (struct.pack(">qi", 5, 13) + bytes(100), ScanStop.BAD_LENGTH),
        (struct.pack(">qi", 5, -1) + bytes(100), ScanStop.BAD_LENGTH),
        (struct.pack(">qiib", 5, 40, 0, 2) + bytes(100), ScanStop.BAD_LENGTH),
        (bytes(500), ScanStop.BAD_LENGTH),
        (struct.pack(">qi", 5, 2**31 - 1) + bytes(100), ScanStop.TORN),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, why: int) -> None:
    good = batch(4)
    rows, position, stop = scan(good + data, tmp_path)
    assert (len(rows), position, stop) == (1, len(good), why)


def test_offsets_may_have_gaps_but_not_go_back(tmp_path: Path) -> None:
    rows, _, stop = scan(batch(10) + batch(20) + batch(15), tmp_path, base=3)
    assert ([row[ScannedBatch.BASE_OFFSET] for row in rows], stop) == ([10, 20], ScanStop.BAD_OFFSET)


def test_an_offset_higher_than_the_segment_may_hold_is_damage(tmp_path: Path) -> None:
    assert scan(batch(198, (b"a", b"b")), tmp_path, highest=199)[2] == ScanStop.END
    assert scan(batch(199, (b"a", b"b")), tmp_path, highest=199)[2] == ScanStop.BAD_OFFSET
    # its last offset wraps around
    assert scan(batch(2**63 - 1, (b"a", b"b")), tmp_path, highest=199)[2] == ScanStop.BAD_OFFSET


def test_a_failed_read_is_reported(tmp_path: Path) -> None:
    rows = ScannedBatch.table(4)
    state = ScanState.row()
    assert batches.scan(-1, 100, 0, 4, True, np.zeros(4096, np.uint8), rows, state) == 0
    assert state[ScanState.STOP] == ScanStop.READ_FAILED


@pytest.mark.parametrize("max_rows", [1, 3, 64])
def test_headers_of_large_batches_are_read_one_by_one_and_are_the_same(tmp_path: Path, max_rows: int) -> None:
    sizes = [10, 20_000, 40_000, 10, 10, batches.SPARSE_BYTES, 300_000, 10, 20_000]
    data = b"".join(batch(offset, [b"v" * size]) for offset, size in enumerate(sizes))
    assert scan(data, tmp_path, check_crc=False, max_rows=max_rows) == scan(data, tmp_path, max_rows=max_rows)
    torn = data[:-1]
    found, position, stop = scan(torn, tmp_path, check_crc=False, max_rows=max_rows)
    assert (len(found), position, stop) == (8, len(data) - len(batch(8, [b"v" * 20_000])), ScanStop.TORN)
