"""What the kernel makes of snappy is what the reference library makes of it, or nothing."""

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels.snappy import snappy
from kbroker.protocol.compression import XERIAL_HEADER, Codec, compress, decompress
from tests.kernels.decoding import PLAIN, damaged, plain_of


def packed(plain: bytes, framed: bool) -> bytes:
    return compress(Codec.SNAPPY, plain) if framed else bytes(cramjam.snappy.compress_raw(plain))


@settings(max_examples=150, deadline=None)
@given(plain=PLAIN, framed=st.booleans())
def test_output_of_encoders_is_decoded(plain: bytes, framed: bool) -> None:
    data = packed(plain, framed)
    assert plain_of(snappy, data) == plain
    assert plain_of(snappy, data, max(len(plain) - 1, 0)) == (None if plain else b"")


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"\x05\x10hello", b"hello"),
        (b"\x05\xf0\x04hello", b"hello"),
        (b"\x05\xf4\x04\0hello", b"hello"),
        (b"\x05\xf8\x04\0\0hello", b"hello"),
        (b"\x05\xfc\x04\0\0\0hello", b"hello"),
        (b"\x0b\x08abc\x11\x03", b"abcabcabcab"),
        (b"\x0b\x08abc\x1e\x03\0", b"abcabcabcab"),
        (b"\x0b\x08abc\x1f\x03\0\0\0", b"abcabcabcab"),
        (b"\x0b\x08abc\x11\x04", None),
        (b"\x0b\x08abc\x11\0", None),
        (b"\x0a\x08abc\x11\x03", None),
        (b"\x0c\x08abc\x11\x03", None),
        (b"\x05\x10hell", None),
    ],
)
def test_each_kind_of_element_is_decoded(block: bytes, plain: bytes | None) -> None:
    assert plain_of(snappy, block) == plain
    if plain is not None:
        assert bytes(cramjam.snappy.decompress_raw(block)) == plain


def test_blocks_of_a_stream_do_not_reach_into_each_other() -> None:
    first, second = b"\x04\x0cabcd", b"\x04\x01\x04"  # a copy of four bytes, four back
    assert plain_of(snappy, XERIAL_HEADER + b"\0\0\0\x06" + first + b"\0\0\0\x03" + second) is None


@settings(max_examples=600, deadline=None)
@given(plain=PLAIN, framed=st.booleans(), data=st.data())
def test_damage_is_never_taken_for_something_else(plain: bytes, framed: bool, data: st.DataObject) -> None:
    broken = damaged(packed(plain, framed), data)
    found = plain_of(snappy, broken)
    assert found is None or found == bytes(decompress(Codec.SNAPPY, broken))
