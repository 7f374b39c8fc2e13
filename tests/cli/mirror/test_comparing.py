"""A comparison of a moved partition counts what is lost, foreign, repeated and out of order."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cli.mirror.comparing import Reading, compare, read_partition
from tests.cli.mirror.readings import killed_copies, reading

PLACE = ("orders", 0)
TIME = (1, 1000)


def test_equal_records_are_clean_whatever_their_offsets() -> None:
    found = compare(PLACE, reading([1, 2, 3]), reading([1, 2, 3], [0, 5, 9]), compacted=False)
    assert found.clean
    assert (found.source, found.target, found.duplicates) == (3, 3, 0)


def test_lost_records_are_counted_with_their_offsets() -> None:
    found = compare(PLACE, reading([1, 2, 3, 2], [4, 5, 6, 8]), reading([1, 2]), compacted=False)
    assert not found.clean
    assert (found.missing, found.examples) == (2, [5, 6, 8])  # one of two equal records is missing


def test_foreign_records_are_counted() -> None:
    found = compare(PLACE, reading([1, 2]), reading([1, 9, 2]), compacted=False)
    assert not found.clean
    assert (found.foreign, found.missing, found.ordered) == (1, 0, False)


def test_exchanged_records_are_out_of_order() -> None:
    found = compare(PLACE, reading([1, 2, 3]), reading([1, 3, 2]), compacted=False)
    assert not found.clean
    assert (found.missing, found.foreign, found.duplicates, found.ordered) == (0, 0, 0, False)


def test_a_repetition_of_later_records_is_out_of_order() -> None:
    assert compare(PLACE, reading([1, 2, 3]), reading([1, 2, 1, 2, 3]), compacted=False).clean
    assert not compare(PLACE, reading([1, 2, 3]), reading([1, 3, 2, 3]), compacted=False).clean


def test_records_that_expired_at_the_source_are_no_difference() -> None:
    found = compare(PLACE, reading([3, 4], [2, 3]), reading([1, 2, 3, 4]), compacted=False)
    assert found.clean
    assert (found.expired, found.foreign) == (2, 0)
    found = compare(PLACE, reading([]), reading([1, 2]), compacted=False)
    assert found.clean
    assert found.expired == 2


@given(killed_copies())
def test_a_copy_that_was_killed_is_clean_and_its_repetitions_are_counted(
    copy: tuple[list[int], list[int], int],
) -> None:
    source, target, repeated = copy
    found = compare(PLACE, reading(source), reading(target), compacted=False)
    if not found.expired:  # a repetition of the first record looks like that record, removed at the source
        assert found.clean
    assert found.duplicates + found.expired == repeated


@given(killed_copies(), st.data())
def test_a_record_that_is_lost_in_a_killed_copy_is_found(
    copy: tuple[list[int], list[int], int], data: st.DataObject
) -> None:
    source, target, _ = copy
    lost = data.draw(st.sampled_from(source))
    found = compare(PLACE, reading(source), reading([one for one in target if one != lost]), compacted=False)
    assert found.missing == source.count(lost)
    assert not found.clean


def test_a_compacted_topic_is_compared_by_last_values() -> None:
    source = reading([1, 2, 3, -4], keys=[7, 8, 7, 9])
    assert compare(PLACE, source, reading([2, 3], keys=[8, 7]), compacted=True).clean
    assert not compare(PLACE, source, reading([2, 3], keys=[8, 7]), compacted=False).clean
    older = compare(PLACE, source, reading([1, 2], keys=[7, 8]), compacted=True)
    assert (older.missing, older.examples) == (1, [0, 2])
    foreign = compare(PLACE, source, reading([2, 3, 5], keys=[8, 7, 6]), compacted=True)
    assert (foreign.missing, foreign.foreign) == (0, 1)


@pytest.mark.parametrize("source", [reading([3, 4], [2, 3], keys=[8, 9]), reading([])])
def test_keys_that_expired_at_the_source_are_no_difference(source: Reading) -> None:
    """Of a topic with the policy compact,delete; without delete only a lost tombstone removes a
    key."""
    target = reading([1, 2, 3, 4], keys=[6, 7, 8, 9]) if len(source.records) else reading([1, 2], keys=[6, 7])
    found = compare(PLACE, source, target, compacted=True, expires=True)
    assert (found.clean, found.expired) == (True, 2)
    assert compare(PLACE, source, target, compacted=True).foreign == 2
    later = compare(PLACE, reading([3], keys=[8]), reading([3, 5], keys=[8, 6]), True, expires=True)
    assert (later.foreign, later.expired) == (1, 0)


def message(
    offset: int, key: bytes | None, value: bytes | None, headers: Any = None, time: Any = TIME
) -> Any:
    return SimpleNamespace(
        error=lambda: None,
        offset=lambda: offset,
        key=lambda: key,
        value=lambda: value,
        headers=lambda: headers,
        timestamp=lambda: time,
    )


def digests(*messages: Any) -> list[int]:
    consumer = SimpleNamespace(
        assign=lambda places: None, consume=lambda count, wait_s: messages, close=lambda: None
    )
    broker: Any = SimpleNamespace(consumer=lambda settings: consumer, bootstrap="b:1")
    found = read_partition(broker, PLACE, 0, messages[-1].offset())  # the last one is beyond the end
    assert found.offsets.tolist() == [one.offset() for one in messages[:-1]]
    return found.records.tolist()


END = message(99, None, None)


@pytest.mark.parametrize(
    "other",
    [
        message(0, None, b"v"),
        message(0, b"", b"v"),
        message(0, b"k", None),
        message(0, b"k", b""),
        message(0, b"kv", b""),
        message(0, b"k", b"v", [("h", b"1")]),
        message(0, b"k", b"v", time=(1, 1001)),
    ],
)
def test_a_digest_covers_key_value_headers_and_time(other: Any) -> None:
    same = message(0, b"k", b"v")
    assert digests(same, END) == digests(message(5, b"k", b"v"), END)
    assert digests(same, END) != digests(other, END)


def test_a_digest_covers_the_order_and_nulls_of_headers() -> None:
    kinds: list[Any] = [
        [("a", b"1"), ("b", b"2")],
        [("b", b"2"), ("a", b"1")],
        [("a", None)],
        [("a", b"")],
        [("a", b"1"), ("a", b"1")],
        [("a", b"1")],
    ]
    found = [digests(message(0, None, b"v", headers), END)[0] for headers in kinds]
    assert len(np.unique(found)) == len(kinds)
