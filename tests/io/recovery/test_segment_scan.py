"""A scan of a segment file: what it finds, where it ends and why."""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbroker.io.files.segment import OFFSET, TIME, SegmentFds
from kbroker.io.recovery.segment_scan import (
    BUFFER_BYTES,
    FAULTS,
    Scan,
    next_offset_of,
    rebuild_indexes,
    resume,
)
from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.protocol import batch_layout as rb
from tests.io.append.plain_append import topic_config
from tests.log.batch_bytes import batch, old_record

BASE = 40
SIZES = (3, 1, 2, 5, 1, 1)  # records of each batch
OFFSETS = [BASE + sum(SIZES[:n]) for n in range(len(SIZES))]
BATCHES = [batch(offset, [b"value"] * size) for offset, size in zip(OFFSETS, SIZES, strict=True)]
STARTS = [sum(map(len, BATCHES[:n])) for n in range(len(BATCHES) + 1)]
END = BASE + sum(SIZES)


class File:
    """A segment file."""

    def __init__(self, path: Path) -> None:
        self.data = bytearray(b"".join(BATCHES))
        self._path = path

    def scan(self, **how: object) -> tuple[list[int], Scan]:
        """Base offsets of the batches that a scan gives, and the scan."""
        self._path.write_bytes(self.data)
        fd = os.open(self._path, os.O_RDONLY)
        try:
            scan = Scan(fd, len(self.data), BASE, **how)
            found = [int(rows[n, ScannedBatch.BASE_OFFSET]) for rows, count in scan for n in range(count)]
        finally:
            os.close(fd)
        return found, scan

    def put(self, number: int, at: int, value: bytes) -> None:
        """Change a field of a batch."""
        start = STARTS[number] + at
        self.data[start : start + len(value)] = value


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "segment")


@pytest.mark.parametrize("chunk_rows", [1, 2, 6, 100])
@pytest.mark.parametrize("crc_from", [None, 0, STARTS[1], STARTS[3], STARTS[3] + 7, STARTS[6]])
def test_every_batch_is_found(file: File, chunk_rows: int, crc_from: int | None) -> None:
    seen: list[int] = []
    found, scan = file.scan(chunk_rows=chunk_rows, crc_from=crc_from, progress=seen.append)
    assert found == OFFSETS
    assert (scan.result.position, scan.result.next_offset, scan.result.fault) == (STARTS[6], END, None)
    assert sum(seen) == STARTS[6]


@pytest.mark.parametrize("damaged", range(6))
@pytest.mark.parametrize("crc_from", [None, 0, STARTS[2], STARTS[4] - 1])
def test_checksums_are_checked_from_a_byte_on(file: File, damaged: int, crc_from: int | None) -> None:
    file.put(damaged, rb.RECORDS + 2, b"\xff")
    found, scan = file.scan(crc_from=crc_from)
    checked = crc_from is not None and STARTS[damaged + 1] > crc_from
    assert found == (OFFSETS[:damaged] if checked else OFFSETS)
    assert scan.result.position == STARTS[damaged if checked else 6]
    assert scan.result.fault == (FAULTS[ScanStop.BAD_CRC] if checked else None)


@pytest.mark.parametrize("damaged", range(1, 6))
@pytest.mark.parametrize("crc_from", [None, 0, STARTS[2], STARTS[6]])
@pytest.mark.parametrize(
    ("at", "value", "stop"),
    [
        (rb.MAGIC, b"\x03", ScanStop.BAD_MAGIC),
        (rb.LENGTH, struct.pack(">i", 5), ScanStop.BAD_LENGTH),
        (rb.LENGTH, struct.pack(">i", -1), ScanStop.BAD_LENGTH),
        (rb.LENGTH, struct.pack(">i", 1 << 20), ScanStop.TORN),
        (rb.BASE_OFFSET, struct.pack(">q", BASE), ScanStop.BAD_OFFSET),
        (rb.BASE_OFFSET, struct.pack(">q", BASE + (1 << 31)), ScanStop.BAD_OFFSET),
    ],
)
def test_a_damaged_header_ends_a_scan_wherever_it_is(
    file: File, damaged: int, crc_from: int | None, at: int, value: bytes, stop: int
) -> None:
    file.put(damaged, at, value)
    found, scan = file.scan(crc_from=crc_from)
    assert found == OFFSETS[:damaged]
    assert (scan.result.position, scan.result.next_offset) == (STARTS[damaged], OFFSETS[damaged])
    assert scan.result.fault == FAULTS[stop]


def test_no_record_reaches_the_next_segment(file: File) -> None:
    assert file.scan(next_base=END)[0] == OFFSETS
    found, scan = file.scan(next_base=END - 1)
    assert found == OFFSETS[:-1]
    assert scan.result.fault == FAULTS[ScanStop.BAD_OFFSET]


def test_a_scan_may_begin_at_any_batch(file: File) -> None:
    found, scan = file.scan(start=STARTS[2], lowest_offset=OFFSETS[2])
    assert found == OFFSETS[2:]
    assert scan.result.position == STARTS[6]
    assert file.scan(start=STARTS[2], lowest_offset=OFFSETS[2] + 1)[0] == []


@pytest.mark.parametrize("cut", [1, rb.RECORDS, len(BATCHES[5]) - 1])
def test_a_torn_tail_is_a_fault(file: File, cut: int) -> None:
    del file.data[-cut:]
    found, scan = file.scan()
    assert found == OFFSETS[:-1]
    assert scan.result.position == STARTS[5]
    assert scan.result.fault == FAULTS[ScanStop.TORN]


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_an_old_format_are_refused(file: File, magic: int) -> None:
    file.data[STARTS[3] : STARTS[4]] = old_record(OFFSETS[3], magic)
    with pytest.raises(UnsupportedFormat, match=f"byte {STARTS[3]}: message format 0 or 1"):
        file.scan()


@pytest.mark.parametrize("crc_from", [None, 0])
@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_magic_with_a_wrong_crc_is_damage(file: File, magic: int, crc_from: int | None) -> None:
    file.put(3, rb.MAGIC, bytes((magic,)))
    found, scan = file.scan(crc_from=crc_from)
    assert found == OFFSETS[:3]
    assert (scan.result.position, scan.result.fault) == (STARTS[3], FAULTS[ScanStop.BAD_MAGIC])


def test_a_batch_larger_than_the_buffer_is_checked_too(file: File) -> None:
    large = batch(END, [bytes(BUFFER_BYTES + 100)])
    file.data += large + batch(END + 1)
    assert file.scan()[0] == [*OFFSETS, END, END + 1]
    file.data[STARTS[6] + len(large) - 10] ^= 1
    found, scan = file.scan()
    assert found == OFFSETS
    assert scan.result.fault == FAULTS[ScanStop.BAD_CRC]


LATE_MS = 1_700_000_000_005
Segment = Callable[..., SegmentFds]


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    """Files of a segment; the last entry of the offset index is that of the fourth batch."""
    made: list[SegmentFds] = []

    def make(data: bytes, last: int = OFFSETS[4] - 1) -> SegmentFds:
        first = OFFSET.pack(OFFSETS[2] - 1 - BASE, STARTS[1])
        contents = {
            "log": data,
            "index": first + OFFSET.pack(last - BASE, STARTS[3]),
            "timeindex": TIME.pack(LATE_MS, 1),
        }
        fds = []
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
            fds.append(os.open(tmp_path / name, os.O_RDWR))
        made.append(SegmentFds(*fds))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_appends_continue_after_the_batches_that_follow_the_last_index_entry(segment: Segment) -> None:
    state = resume(segment(b"".join(BATCHES)), BASE, STARTS[6])
    assert state is not None
    assert (state.base_offset, state.position, state.next_offset) == (BASE, STARTS[6], END)
    assert (state.index_bytes, state.time_index_bytes) == (2 * OFFSET.size, TIME.size)
    assert state.since_index == STARTS[6] - STARTS[3]
    assert (state.max_timestamp, state.max_timestamp_offset) == (LATE_MS, BASE + 1)
    assert (state.last_indexed_timestamp, state.first_timestamp) == (LATE_MS, 1_700_000_000_000)


def test_a_later_timestamp_after_the_last_time_index_entry_is_the_segments(segment: Segment) -> None:
    later = batch(OFFSETS[5], [b"value"], [LATE_MS + 1])
    state = resume(segment(b"".join([*BATCHES[:5], later])), BASE, STARTS[6])
    assert state is not None
    assert (state.max_timestamp, state.max_timestamp_offset) == (LATE_MS + 1, OFFSETS[5])
    assert state.last_indexed_timestamp == LATE_MS


@pytest.mark.parametrize("missing", [1, rb.RECORDS, len(BATCHES[5]) - 1])
@pytest.mark.parametrize("known", [True, False])
def test_appends_do_not_continue_after_a_torn_batch(segment: Segment, missing: int, known: bool) -> None:
    """known: the length of the file is what it is said to be."""
    data = b"".join(BATCHES)[:-missing]
    assert resume(segment(data), BASE, len(data) if known else STARTS[6]) is None


def test_appends_do_not_continue_where_a_complete_batch_is_missing(segment: Segment) -> None:
    assert resume(segment(b"".join(BATCHES[:5])), BASE, STARTS[6]) is None


@pytest.mark.parametrize("last", [OFFSETS[4] - 2, OFFSETS[4]])
def test_appends_do_not_continue_by_an_index_entry_of_another_offset(segment: Segment, last: int) -> None:
    assert resume(segment(b"".join(BATCHES), last), BASE, STARTS[6]) is None


def test_the_first_of_two_batches_with_the_largest_timestamp_is_the_segments(segment: Segment) -> None:
    same = batch(OFFSETS[5], [b"value"], [LATE_MS])
    state = resume(segment(b"".join([*BATCHES[:5], same])), BASE, STARTS[6])
    assert state is not None
    assert (state.max_timestamp, state.max_timestamp_offset) == (LATE_MS, BASE + 1)


def test_indexes_are_rebuilt_to_their_new_length_with_the_first_timestamp(segment: Segment) -> None:
    """Entries that were there before are gone, and the last time entry is left to the closing."""
    data = b"".join([batch(BASE, [b"a"], [LATE_MS]), batch(BASE + 1, [b"b"], [LATE_MS - 3])])
    fds = segment(data)
    for fd in (fds.index, fds.time_index):
        os.ftruncate(fd, 4096)
    scan = Scan(fds.log, len(data), BASE, chunk_rows=1)
    state = rebuild_indexes(fds, scan, BASE, topic_config(index_interval_bytes=4096))
    assert (state.first_timestamp, state.max_timestamp, state.next_offset) == (LATE_MS, LATE_MS, BASE + 2)
    assert (os.fstat(fds.index).st_size, os.fstat(fds.time_index).st_size) == (0, 0)
    assert (state.index_bytes, state.time_index_bytes, state.since_index) == (0, 0, len(data))


def test_a_files_next_offset_is_known_or_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(BATCHES))
    assert next_offset_of(str(path), BASE) == END
    path.write_bytes(b"".join(BATCHES)[:-1])
    with pytest.raises(CorruptLog, match=f"byte {STARTS[5]}"):
        next_offset_of(str(path), BASE)
