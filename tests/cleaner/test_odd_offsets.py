"""Batches that only hands or flipped bits make: records whose offsets do not rise within their
batch, batches that decompress to too much, batches beyond their segment."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbroker.cleaner import special_batch
from kbroker.log.errors import CorruptLog
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.records import _seal
from tests.cleaner.compacted import Compacted
from tests.io.append.plain_append import NOW

ODD: list[tuple[int, ...]] = [(-1, 0), (1, 0), (0, 0), (0, 2), (0, 10**12), (0, -(10**12)), (-(1 << 63), 1)]
PLAIN_OR_PACKED = pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])


def varint(value: int) -> bytes:
    zigzag = (value << 1 ^ value >> 63) & (1 << 64) - 1
    found = bytearray()
    while zigzag > 0x7F:
        found.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*found, zigzag])


def content(delta: int, key: int) -> bytes:
    """A record without its size."""
    return b"\0" + varint(0) + varint(delta) + varint(1) + bytes([key]) + varint(3) + b"odd" + varint(0)


def sealed(body: bytes, count: int, last: int, codec: Codec) -> bytes:
    """A batch of these records."""
    return _seal(0, 0, (int(codec), last, NOW, NOW, -1, -1, -1, count), compress(codec, body))


def crafted(deltas: Sequence[int], codec: Codec = Codec.NONE, last: int | None = None) -> bytes:
    """A batch with offsets for as many records as it has, or up to `last`: one of each key, `a`
    first."""
    body = b""
    for delta, key in zip(deltas, b"abcdef", strict=False):
        record = content(delta, key)
        body += varint(len(record)) + record
    return sealed(body, len(deltas), len(deltas) - 1 if last is None else last, codec)


def batches(case: Compacted) -> dict[int, bytes]:
    return {batch.base_offset: bytes(batch.data) for batch in case.batches()}


@PLAIN_OR_PACKED
@pytest.mark.parametrize("deltas", ODD)
def test_a_batch_whose_offsets_do_not_rise_stays_as_it_is(
    tmp_path: Path, deltas: tuple[int, ...], codec: Codec
) -> None:
    """And later values stay, however far ahead its offsets are."""
    case = Compacted(tmp_path)
    case.append([(b"a", b"1"), (b"c", b"1")])
    odd = case.log.append(crafted(deltas, codec))
    newest = case.append([(b"a", b"2"), (b"b", b"2"), (b"c", b"2")])
    case.roll()
    before = batches(case)
    for _ in range(2):
        done = case.clean()
        assert done is not None
        after = batches(case)
        assert after[odd] == before[odd]
        assert after[newest] == before[newest]
        assert 0 not in after
        case.append([(b"d", b"1")])
        case.roll()


@PLAIN_OR_PACKED
@pytest.mark.parametrize("size", [0, -1, 1 << 20, 12])
def test_a_record_that_ends_elsewhere_is_damage(tmp_path: Path, size: int, codec: Codec) -> None:
    """Its checksum is right. 12: one byte more than there are."""
    record = content(0, ord("a")) + b"\0"
    assert len(record) == 11
    case = Compacted(tmp_path)
    case.log.append(sealed(varint(size) + record, 1, 0, codec))
    case.append([(b"a", b"2")])
    case.roll()
    path = case.log.folder / f"{0:020d}.log"
    before = path.read_bytes()
    with pytest.raises(CorruptLog):
        case.clean()
    assert path.read_bytes() == before


@PLAIN_OR_PACKED
def test_offsets_with_gaps_are_no_odd_ones(tmp_path: Path, codec: Codec) -> None:
    case = Compacted(tmp_path)
    case.log.append(crafted((0, 3), codec, last=5))
    case.append([(b"a", b"2")])
    case.roll()
    case.clean()
    assert [(record.key, record.offset) for record in case.records()] == [(b"b", 3), (b"a", 6)]


def test_a_batch_that_decompresses_to_too_much_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(special_batch, "MAX_PLAIN_BYTES", 10_000)
    case = Compacted(tmp_path)
    small = case.append([(b"a", bytes(100))], Codec.GZIP)
    large = case.append([(b"a", bytes(20_000))], Codec.GZIP)
    newest = case.append([(b"a", b"2")])
    case.roll()
    before = batches(case)
    case.clean()
    after = batches(case)
    assert small not in after
    assert (after[large], after[newest]) == (before[large], before[newest])
    assert f"offset {large}: a batch of more than 10000 bytes stays" in caplog.text


def test_a_batch_beyond_its_segment_ends_the_cleaning(tmp_path: Path) -> None:
    """Its base offset is in no checksum; what it says would be taken for what was cleaned."""
    case = Compacted(tmp_path)
    case.append([(b"a", b"1")])
    size = next(iter(case.batches())).size
    case.append([(b"b", b"1")])
    case.roll()
    path = sorted(case.log.folder.glob("*.log"))[0]
    with path.open("r+b") as file:
        file.seek(size)
        file.write(struct.pack(">q", 1 << 40))
    before = path.read_bytes()
    with pytest.raises(CorruptLog, match="beyond the segment's end"):
        case.clean()
    assert path.read_bytes() == before
