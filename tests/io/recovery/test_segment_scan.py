"""A scan of a segment file: what it finds, where it ends and why."""

import os
import struct
from pathlib import Path

import pytest

from kbroker.io.recovery.segment_scan import BUFFER_BYTES, FAULTS, Scan
from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from kbroker.log.errors import UnsupportedFormat
from kbroker.protocol import batch_layout as rb
from tests.log.batch_bytes import batch

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
def test_checksums_are_looked_at_from_a_byte_on(file: File, damaged: int, crc_from: int | None) -> None:
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


def test_batches_of_an_old_format_are_refused(file: File) -> None:
    file.put(3, rb.MAGIC, b"\x01")
    with pytest.raises(UnsupportedFormat, match=f"byte {STARTS[3]}: message format 0 or 1"):
        file.scan()


def test_a_batch_larger_than_the_buffer_is_checked_too(file: File) -> None:
    large = batch(END, [bytes(BUFFER_BYTES + 100)])
    file.data += large + batch(END + 1)
    assert file.scan()[0] == [*OFFSETS, END, END + 1]
    file.data[STARTS[6] + len(large) - 10] ^= 1
    found, scan = file.scan()
    assert found == OFFSETS
    assert scan.result.fault == FAULTS[ScanStop.BAD_CRC]
