"""Keys find their partition as in every Kafka broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.java_hash import string_hash
from kbroker.control.coordinator.key_hash import MAX_KEPT, kept_hash, positive, positive_hash


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


@given(st.text(min_size=1, max_size=20), st.integers(MAX_KEPT, 400))
def test_long_keys_have_the_same_hash(text: str, length: int) -> None:
    key = (text * length)[:length]
    assert positive_hash(key) == positive(string_hash(key))
    assert positive_hash(key + "x") == positive(string_hash(key + "x"))


def test_long_keys_are_not_kept() -> None:
    """65,536 of 32 KiB took two gigabytes."""
    before = kept_hash.cache_info().misses
    for number in range(10):
        positive_hash(f"{number}{'x' * MAX_KEPT}")
    assert kept_hash.cache_info().misses == before
    positive_hash("a key that no other test has")
    assert kept_hash.cache_info().misses == before + 1
