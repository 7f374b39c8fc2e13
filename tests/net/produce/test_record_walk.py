"""A walk over decompressed records finds what reading them one by one finds, wherever the pieces
are cut."""

import gzip
import struct
from collections.abc import Callable
from typing import Any
from unittest import mock

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.net.produce import record_walk
from kbroker.net.produce.record_walk import AT_ONCE_BYTES, Demands, TooLong, WalkResult, walk
from kbroker.protocol import batch_layout as rb
from kbroker.protocol import compression
from kbroker.protocol.compression import XERIAL_HEADER, Codec, compress
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch, read_batches, read_records
from kbroker.protocol.schema import ProtocolError
from tests.net.produce.compressed_cases import CODECS, RECORDS, same_answers, with_body

ANY_TIME = Demands(-(1 << 62), 1 << 62, need_keys=False, ordered=True, sized=False)


def found(data: bytes, demands: Demands = ANY_TIME, piece_bytes: int = 1 << 20) -> WalkResult:
    batch = next(read_batches(data, check_crc=False))
    with mock.patch.object(record_walk, "PIECE_BYTES", piece_bytes):
        return walk(batch, batch.data[rb.RECORDS :], demands)


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=60, deadline=None)
@given(records=RECORDS, piece_bytes=st.integers(1, 64))
def test_good_records_are_found_in_pieces_of_any_size(
    codec: Codec, records: list[Any], piece_bytes: int
) -> None:
    data = build_batch(records, codec=codec)
    stamps = [record[3] for record in records]
    assert found(data, piece_bytes=piece_bytes) == WalkResult(largest=max(stamps))
    late = Demands(0, max(stamps) - 1, need_keys=False, ordered=True, sized=True)
    assert found(data, late, piece_bytes).refused == any(s != -1 and not 0 <= s < max(stamps) for s in stamps)
    keyed = Demands(-(1 << 62), 1 << 62, need_keys=True, ordered=True, sized=True)
    assert found(data, keyed, piece_bytes).refused == any(record[0] is None for record in records)


@settings(max_examples=300, deadline=None)
@given(records=RECORDS, piece_bytes=st.integers(1, 64), data=st.data())
def test_altered_records_are_refused_as_reading_them_refuses(
    records: list[Any], piece_bytes: int, data: st.DataObject
) -> None:
    whole = build_batch(records)
    at = data.draw(st.integers(rb.RECORDS, len(whole) - 1))
    altered = bytearray(whole)
    altered[at] ^= data.draw(st.integers(1, 255))
    sized = Demands(-(1 << 62), 1 << 62, need_keys=False, ordered=False, sized=True)
    outcome = found(bytes(altered), sized, piece_bytes)
    try:
        list(read_records(next(read_batches(bytes(altered), check_crc=False))))
    except ProtocolError as error:
        text = str(error.__cause__ or error)  # the walk does not look at the text of a header's name
        assert outcome.error or "utf-8" in text
    else:
        assert not outcome.error


@pytest.mark.parametrize("codec", CODECS)
def test_damage_has_its_error_wherever_pieces_are_cut(codec: Codec) -> None:
    for name, (data, error) in same_answers(codec).items():
        for piece_bytes in (1, 7, 1 << 20):
            if "3 MB" not in name or piece_bytes > 7:
                assert found(data, piece_bytes=piece_bytes).error == error, (name, piece_bytes)


def test_huge_records_of_a_small_batch_are_not_kept() -> None:
    data = build_batch([(b"k", bytes(200_000_000), (), 5)], codec=Codec.ZSTD)
    assert len(data) < 100_000
    sizes = []
    pieces = compression.pieces

    def counted(codec: int, body: bytes, most_bytes: int) -> object:
        for piece in pieces(codec, body, most_bytes):
            sizes.append(len(piece))
            yield piece

    with mock.patch("kbroker.net.produce.record_walk.pieces", counted):
        assert found(data) == WalkResult(largest=5)
    assert sum(sizes) > 200_000_000
    assert max(sizes) <= 1 << 20


@pytest.mark.parametrize("codec", list(Codec))
def test_a_size_without_an_end_has_an_error_of_its_own_when_compressed(codec: Codec) -> None:
    data = with_body(build_batch([(b"k", b"v", (), 5)], codec=codec), compress(codec, b"\xff" * 30))
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if codec == Codec.NONE else ErrorCode.INVALID_RECORD
    assert found(data).error == expected


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_decompresses_to_much_is_left_to_a_thread(codec: Codec) -> None:
    for size, too_long in ((1000, False), (AT_ONCE_BYTES * 3, True)):
        batch = next(read_batches(build_batch([(b"k", bytes(size), (), 5)], codec=codec)))
        body = batch.data[rb.RECORDS :]
        if too_long:
            with pytest.raises(TooLong):
                walk(batch, body, ANY_TIME, AT_ONCE_BYTES)
        else:
            assert walk(batch, body, ANY_TIME, AT_ONCE_BYTES) == WalkResult(largest=5)
        assert walk(batch, body, ANY_TIME) == WalkResult(largest=5)


def in_gzip_members(plain: bytes, size: int) -> bytes:
    return b"".join(gzip.compress(plain[at : at + size]) for at in range(0, len(plain), size))


def in_snappy_blocks(plain: bytes, size: int) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(plain[at : at + size])) for at in range(0, len(plain), size)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def test_few_of_very_many_frames_of_zstd_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a megabyte may consist of a hundred thousand frames, which Python checks one by
    one."""
    whole = build_batch([(b"k", bytes(300), (), 5)], codec=Codec.ZSTD)
    empty = compress(Codec.ZSTD, b"") * 10_000
    plain = build_batch([(b"k", bytes(300), (), 5)])[rb.RECORDS :]
    batch = next(read_batches(with_body(whole, empty + compress(Codec.ZSTD, plain))))
    body = batch.data[rb.RECORDS :]
    assert walk(batch, body, ANY_TIME) == WalkResult(largest=5)
    read = mock.Mock(wraps=zstandard.frame_header_size)
    monkeypatch.setattr(zstandard, "frame_header_size", read)
    with pytest.raises(TooLong):
        walk(batch, body, ANY_TIME, AT_ONCE_BYTES)
    assert read.call_count < 5000


@pytest.mark.parametrize(
    ("codec", "cut", "size", "part"),
    [
        (Codec.GZIP, in_gzip_members, 3_000_000, 100_000),
        (Codec.GZIP, in_gzip_members, 300, 1),
        (Codec.SNAPPY, in_snappy_blocks, 300, 1),
    ],
)
def test_many_short_pieces_are_left_to_a_thread(
    codec: Codec, cut: Callable[[bytes, int], bytes], size: int, part: int
) -> None:
    """A few kilobytes that are megabytes in plain, or thousands of members or blocks."""
    whole = build_batch([(b"k", bytes(size), (), 5)], codec=codec)
    plain = build_batch([(b"k", bytes(size), (), 5)])[rb.RECORDS :]
    batch = next(read_batches(with_body(whole, cut(plain, part))))
    body = batch.data[rb.RECORDS :]
    assert len(body) < 8 << 10
    with pytest.raises(TooLong):
        walk(batch, body, ANY_TIME, AT_ONCE_BYTES)
    assert walk(batch, body, ANY_TIME) == WalkResult(largest=5)
