"""Keys and last offsets within a given memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cleaner import key_map_kernel as km
from kbroker.cleaner.offset_map import ENTRY_BYTES, MIN_SLOTS, OffsetMap, usable_load
from kbroker.cleaner.rows import CleanStop, KeyMap
from kbroker.protocol.records import build_batch
from tests.log.batch_bytes import padded_record


def fill(offset_map: OffsetMap, keys: list[bytes | None], base: int = 0) -> int:
    batch = build_batch([(key, b"", (), 0) for key in keys], base_offset=base)
    data = np.frombuffer(bytearray(batch), np.uint8)
    offset_map.state[KeyMap.POSITION] = 0
    return km.map_batches(data, len(data), offset_map.table, offset_map.state)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=80))
def test_each_key_has_its_last_offset(keys: list[bytes | None]) -> None:
    offset_map = OffsetMap(1 << 14, 0.9)
    offset_map.begin(0, 1000)
    assert fill(offset_map, keys, 5) == CleanStop.TAKEN
    expected = {key: 5 + n for n, key in enumerate(keys) if key is not None}
    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.count == len(expected)
    assert offset_map.latest == 5 + len(keys) - 1
    assert offset_map.get(b"x" * 41) == -1


def test_records_before_the_first_dirty_offset_are_left_out() -> None:
    offset_map = OffsetMap(1 << 14, 0.9)
    offset_map.begin(2, 1000)
    fill(offset_map, [b"a", b"b", b"c"])
    assert [offset_map.get(key) for key in (b"a", b"b", b"c")] == [-1, -1, 2]


def test_a_map_takes_as_many_keys_as_its_load_factor_says_and_stops_at_the_next() -> None:
    offset_map = OffsetMap(100 * ENTRY_BYTES, 0.5)
    offset_map.begin(0, 1000)
    keys: list[bytes | None] = [b"%d" % n for n in range(50)]
    assert fill(offset_map, keys) == CleanStop.TAKEN
    assert fill(offset_map, [b"0", b"another"], 50) == CleanStop.FULL
    assert offset_map.latest == 49
    assert offset_map.utilization == 0.5


def test_a_map_begins_empty_every_time() -> None:
    offset_map = OffsetMap(1 << 14, 0.9)
    offset_map.begin(0, 10)
    fill(offset_map, [b"a"])
    offset_map.begin(0, 10)
    assert (offset_map.get(b"a"), offset_map.count) == (-1, 0)


def test_a_damaged_batch_stops_the_walk() -> None:
    offset_map = OffsetMap(1 << 14, 0.9)
    offset_map.begin(0, 10)
    data = np.frombuffer(bytearray(build_batch([(b"a", b"b", (), 0)])), np.uint8)
    data[-1] ^= 1
    assert km.map_batches(data, len(data), offset_map.table, offset_map.state) == CleanStop.DAMAGED


@pytest.mark.parametrize("field", ["size", "key"])
def test_numbers_longer_than_kafka_reads_are_damage(field: str) -> None:
    for width, stop in ((5, CleanStop.TAKEN), (6, CleanStop.DAMAGED)):
        data = np.frombuffer(padded_record({field: width}), np.uint8).copy()
        offset_map = OffsetMap(1 << 14, 0.9)
        offset_map.begin(0, 1000)
        place = int(data.ctypes.data)
        assert km.map_records(place, len(data), 1, 0, 0, offset_map.table, offset_map.state) == stop


def test_memory_without_room_for_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a key"):
        OffsetMap(ENTRY_BYTES, 0.9)


@pytest.mark.parametrize(
    ("factor", "usable"), [(0.9, 0.9), (0.0, 0.01), (-1.0, 0.01), (2.0, 1.0), (float("inf"), 1.0)]
)
def test_any_load_factor_makes_a_map_that_takes_keys(factor: float, usable: float) -> None:
    assert usable_load(factor) == usable
    made = OffsetMap(1 << 20, usable_load(factor))
    made.begin(0, 1000)
    assert made.state[KeyMap.LIMIT] >= 1


@pytest.mark.parametrize(
    ("first", "upper", "load", "slots", "limit"),
    [
        (0, 10, 0.5, MIN_SLOTS, MIN_SLOTS // 2),
        (100, 612, 0.5, 1025, 512),
        (100, 1124, 0.5, 2049, 1024),
        (0, 1_000_000, 0.5, 5000, 2500),
        (0, 10, 1.0, MIN_SLOTS, MIN_SLOTS - 1),
        (0, 1_000_000, 1.0, 5000, 4999),
    ],
)
def test_as_many_slots_are_used_as_the_dirty_part_can_fill(
    first: int, upper: int, load: float, slots: int, limit: int
) -> None:
    offset_map = OffsetMap(5000 * ENTRY_BYTES, load)
    offset_map.begin(first, upper)
    words = KeyMap.SLOTS, KeyMap.LIMIT, KeyMap.START, KeyMap.LATEST
    assert [int(offset_map.state[word]) for word in words] == [slots, limit, first, first - 1]
    assert (offset_map.latest, offset_map.count, offset_map.utilization) == (first - 1, 0, 0.0)


def test_the_last_offset_of_a_map_never_falls() -> None:
    offset_map = OffsetMap(1 << 14, 0.9)
    offset_map.begin(7, 100)
    found = []
    for offset in (5, 9, 8):
        offset_map.raise_latest(offset)
        found.append(offset_map.latest)
    assert found == [6, 9, 9]
