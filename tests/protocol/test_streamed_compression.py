"""Compression piece by piece is what the readers take, whatever the pieces are, and stops at its
bound."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.compression import Codec, decompress
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
