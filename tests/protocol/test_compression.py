"""Codecs come back to the same bytes, read what other writers make, and a bomb costs no more than
its bound."""

import gzip
import os
import struct
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.compression import (
    XERIAL_HEADER,
    Codec,
    TooLong,
    bounded_pieces,
    compress,
    decompress,
    pieces,
)
from kbroker.protocol.schema import ProtocolError

PACKING = [codec for codec in Codec if codec != Codec.NONE]
TEXT = b"the same words again and again, " * 5000


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=5000), copies=st.integers(1, 40))
def test_every_codec_comes_back(codec: Codec, data: bytes, copies: int) -> None:
    assert decompress(codec, memoryview(compress(codec, data * copies))) == data * copies


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 17), (Codec.ZSTD, 19)]
)
def test_levels_are_used(codec: Codec, level: int) -> None:
    packed = compress(codec, TEXT, level)
    assert decompress(codec, packed) == TEXT
    assert len(packed) < len(TEXT) / 20


def test_output_of_other_writers_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(TEXT) + gzip.compress(b"more")) == TEXT + b"more"
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True, content_checksum=True)) == TEXT
    frames = zstandard.ZstdCompressor().compress(TEXT) + zstandard.ZstdCompressor().compress(b"more")
    assert decompress(Codec.ZSTD, frames) == TEXT + b"more"


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_stops_at_its_bound(codec: Codec) -> None:
    packed = compress(codec, bytes(1_000_000))
    assert decompress(codec, packed, 1_000_000) == bytes(1_000_000)
    with pytest.raises(ProtocolError, match="more than the 999999 bytes"):
        decompress(codec, packed, 999_999)


@pytest.mark.parametrize("piece_bytes", [1, 1000, 1 << 20])
def test_gzip_members_of_all_sizes_come_back(piece_bytes: int) -> None:
    parts = [b"", b"x", os.urandom(3000), b"", bytes(90_000), TEXT, b""]
    packed = b"".join(map(gzip.compress, parts))
    found = b"".join(pieces(Codec.GZIP, packed + b"and more", piece_bytes))
    assert found == b"".join(parts)


def test_very_many_gzip_members_are_not_copied_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib keeps a copy of the input that follows a member."""
    kept: list[int] = []
    make = zlib.decompressobj

    class Recorded:
        def __init__(self, bits: int) -> None:
            self._inner = make(bits)

        def decompress(self, data: bytes, max_bytes: int) -> bytes:
            found = self._inner.decompress(data, max_bytes)
            kept.append(len(self._inner.unused_data) + len(self._inner.unconsumed_tail))
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    packed = gzip.compress(b"") * 10_000 + gzip.compress(TEXT)
    monkeypatch.setattr(zlib, "decompressobj", Recorded)
    assert decompress(Codec.GZIP, packed) == TEXT
    assert sum(kept) < 40 * len(packed)


@pytest.mark.parametrize("codec", PACKING)
def test_cut_data_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for end in (len(packed) - 1, len(packed) // 2, 3):
        with pytest.raises(ProtocolError):
            decompress(codec, packed[:end])


@pytest.mark.parametrize("codec", Codec)
def test_bounded_pieces_are_all_bytes_or_too_long(codec: Codec) -> None:
    data = compress(codec, bytes(3000))
    assert b"".join(bounded_pieces(codec, data, 3000)) == bytes(3000)
    with pytest.raises(TooLong):
        list(bounded_pieces(codec, data, 2999))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(ProtocolError, match=f"no compression codec {codec}"):
        decompress(codec, b"")
    with pytest.raises(ProtocolError, match=f"no compression codec {codec}"):
        compress(codec, b"")


@pytest.mark.parametrize("framed", [False, True])
def test_a_block_of_snappy_that_is_too_long_is_not_decompressed(
    framed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block says how long it is; 22 times its own bytes are possible."""
    raw = bytes(cramjam.snappy.compress_raw(bytes(3 << 20)))
    data = XERIAL_HEADER + struct.pack(">i", len(raw)) + raw if framed else raw
    assert len(decompress(Codec.SNAPPY, data, 3 << 20)) == 3 << 20
    monkeypatch.setattr(cramjam.snappy, "decompress_raw", None)
    with pytest.raises(TooLong):
        decompress(Codec.SNAPPY, data, (3 << 20) - 1)
