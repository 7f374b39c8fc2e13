"""The value of a record shows who wrote it and whether it is what was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.record import HEADER_BYTES, NotOurs, header_of, intact, key_bytes, key_number, sealed


@given(st.binary(min_size=HEADER_BYTES, max_size=200), st.data())
def test_any_flipped_bit_breaks_the_checksum(rest: bytes, data: st.DataObject) -> None:
    value = sealed(rest)
    assert intact(value)
    bit = data.draw(st.integers(0, len(value) * 8 - 1))
    altered = bytearray(value)
    altered[bit // 8] ^= 1 << bit % 8
    assert not intact(bytes(altered))


@given(st.integers(0, 9_999_999))
def test_keys_come_back(key: int) -> None:
    assert key_number(key_bytes(key)) == key


@pytest.mark.parametrize("key", [None, b"", b"k123", b"x0000001", b"k00000x1", b"k00000012"])
def test_other_keys_have_no_owner(key: bytes | None) -> None:
    assert key_number(key) == -1


@pytest.mark.parametrize("value", [b"", b"short", bytes(HEADER_BYTES), b"\xff" * 100])
def test_other_values_are_refused(value: bytes) -> None:
    with pytest.raises(NotOurs):
        header_of(value)
