"""What members of classic groups say of their assignment."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from kbroker.http.console.views.group_members import assignment_of


def encoded(topics: dict[str, list[int]]) -> bytes:
    data = struct.pack(">hi", 1, len(topics))
    for name, partitions in topics.items():
        data += struct.pack(">h", len(name.encode())) + name.encode()
        data += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return data + struct.pack(">i", -1)


@given(st.dictionaries(st.text(max_size=8), st.lists(st.integers(0, 1000), max_size=4), max_size=4))
def test_an_assignment_is_read_back(topics: dict[str, list[int]]) -> None:
    assert assignment_of(encoded(topics)) == list(topics.items())


@given(st.binary(max_size=60))
def test_bytes_that_are_no_assignment_are_shown_empty_or_bounded(data: bytes) -> None:
    found = assignment_of(data)
    assert sum(len(partitions) for _, partitions in found) <= len(data)
