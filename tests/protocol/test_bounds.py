"""Texts are cut to what clients can read."""

import pytest

from kbroker.protocol.bounds import MAX_STRING_BYTES, cut_string


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_a_text_is_cut_between_characters_to_the_longest_string(character: str) -> None:
    size = len(character.encode())
    most = MAX_STRING_BYTES // size
    for count in (0, 1, most // 4, most - 1, most):
        assert cut_string(character * count) == character * count
    cut = cut_string(character * (most + 1))
    assert cut == character * ((MAX_STRING_BYTES - 3) // size) + "..."
    assert cut_string(character * 10 * MAX_STRING_BYTES) == cut
