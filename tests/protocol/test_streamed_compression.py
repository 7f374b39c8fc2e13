"""Compression piece by piece is what the readers take, whatever the pieces are, and stops at its
bound."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.compression import XERIAL_BLOCK_BYTES, Codec, compress, decompress
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.streamed_compression import TooLarge, compress_pieces


@given(
    codec=st.sampled_from(list(Codec)),
    pieces=st.lists(st.binary(max_size=5000) | st.integers(0, 100_000).map(bytes), max_size=8),
)
def test_pieces_come_back_as_one(codec: Codec, pieces: list[bytes]) -> None:
    packed = compress_pieces(codec, pieces, None, 1 << 20)
    assert bytes(decompress(codec, bytes(packed))) == b"".join(pieces)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_stream_that_gets_too_large_is_not_read_to_its_end(codec: Codec) -> None:
    read = 0

    def noise() -> Iterator[bytes]:
        nonlocal read
        source = random.Random(1)
        while True:
            read += 1
            yield source.randbytes(60_000)

    with pytest.raises(TooLarge):
        compress_pieces(codec, noise(), None, 1 << 18)
    assert read < 50


@pytest.mark.parametrize("codec", list(Codec))
def test_a_section_may_have_as_many_bytes_as_are_allowed(codec: Codec) -> None:
    pieces = [b"abc" * 100, b"", b"xyz" * 100]
    size = len(compress_pieces(codec, pieces, None, 1 << 20))
    assert len(compress_pieces(codec, pieces, None, size)) == size
    with pytest.raises(TooLarge):
        compress_pieces(codec, pieces, None, size - 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_pieces_are_compressed_as_the_whole(codec: Codec) -> None:
    whole = random.Random(2).randbytes(100) * 1000
    cuts = [0, 1, XERIAL_BLOCK_BYTES, XERIAL_BLOCK_BYTES + 1, 3 * XERIAL_BLOCK_BYTES, len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(cuts)]
    assert bytes(compress_pieces(codec, pieces, None, 1 << 20)) == compress(codec, whole)


def test_a_section_without_pieces_is_that_of_no_records() -> None:
    for codec in Codec:
        assert bytes(decompress(codec, bytes(compress_pieces(codec, [], None, 1 << 10)))) == b""


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.ZSTD, (1, 19)), (Codec.LZ4, (1, 17))]
)
def test_a_level_changes_the_section_and_not_its_contents(codec: Codec, levels: tuple[int, int]) -> None:
    source = random.Random(3)
    plain = b" ".join(source.choice((b"lorem", b"ipsum", b"dolor", b"sit")) for _ in range(3000))
    fast, small = (bytes(compress_pieces(codec, [plain], level, 1 << 20)) for level in levels)
    assert len(small) < len(fast)
    assert decompress(codec, fast) == decompress(codec, small) == plain


def test_an_unknown_codec_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ProtocolError, match="there is no compression codec 5"):
        compress_pieces(5, iter([b"x"]), None, 100)
