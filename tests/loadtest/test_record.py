"""The value of a record shows who wrote it and whether it is what was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.record import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    NotOurs,
    header_bytes,
    header_of,
    header_sum,
    intact,
    key_bytes,
    key_number,
    sealed,
    varint,
)


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


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
        (8191, b"\xfe\x7f"),
        (8192, b"\x80\x80\x01"),
    ],
)
def test_lengths_are_zigzag_varints(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded


def test_headers_have_the_bytes_of_a_record() -> None:
    assert header_bytes([]) == b"\x00"
    assert header_bytes([("a", b"xy"), ("ü", None), ("a", b"")]) == (
        b"\x06\x02a\x04xy" + b"\x04" + "ü".encode() + b"\x01" + b"\x02a\x00"
    )


def test_the_sum_of_headers_depends_on_their_order_nulls_and_repeated_names() -> None:
    listed: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None)]
    others: list[list[tuple[str, bytes | None]]] = [
        listed[::-1],
        listed[:1],
        [*listed, listed[0]],
        [("a", b"1"), ("b", b"")],
        [("a", None), ("b", b"1")],
    ]
    sums = [header_sum(each) for each in (listed, *others)]
    assert len(set(sums)) == len(sums)
    assert header_sum([]) == 0
    assert header_sum([("", None)]) != 0


def test_the_fields_of_a_value_lie_where_the_format_says() -> None:
    rest = bytes.fromhex("4b4c 01 03 0000000a 0000000b 000000000000000c 000000000000000d 000000000000000e")
    header = header_of(sealed(rest))
    names = ("magic", "version", "flags", "run", "producer", "seq", "partition_seq", "intended_ns")
    assert [int(header[name]) for name in names] == [MAGIC, VERSION, 3, 10, 11, 12, 13, 14]
    assert HEADER.itemsize == HEADER_BYTES == 4 + len(rest)
    for at in (4, 5, 6):
        altered = bytearray(sealed(rest))
        altered[at] ^= 0x80
        with pytest.raises(NotOurs):
            header_of(bytes(altered))
