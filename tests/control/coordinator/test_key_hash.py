"""Keys find their partition as in every Kafka broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.coordinator.key_hash import positive_hash


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", 0),
        ("Müller", 1854470916),
        ("😀", 1772899),
    ],
)
def test_keys_are_hashed_as_javas_strings(key: str, number: int) -> None:
    """Values of Math.abs("...".hashCode()) in Java; the one of polygenelubricants is
    Integer.MIN_VALUE."""
    assert positive_hash(key) == number


@given(st.text())
def test_hashes_are_never_negative(key: str) -> None:
    assert 0 <= positive_hash(key) < 1 << 31
