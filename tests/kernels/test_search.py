"""Index searches equal a plain bisection, whatever the size of the index and the zeros behind
it."""

import os
import struct
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels import search
from kbroker.kernels.scan_rows import FoundPlace, Located
from tests.log.batch_bytes import batch

RISING = st.lists(st.integers(1, 2**31 - 1), min_size=0, max_size=900, unique=True).map(sorted)


@given(RISING, st.lists(st.integers(0, 2**31), max_size=20), st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_positions_are_those_of_a_plain_search(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], targets: list[int], zeros: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "i.index"
    path.write_bytes(
        b"".join(struct.pack(">ii", key, n + 1) for n, key in enumerate(keys)) + bytes(8 * zeros)
    )
    fd = os.open(path, os.O_RDONLY)
    for target in [*targets, *keys[:3], *keys[-3:]]:
        found = search.find_position(fd, path.stat().st_size, 1000, 1000 + target)
        assert found == bisect_right(keys, target)
    os.close(fd)


@given(RISING, st.lists(st.integers(0, 2**31), max_size=20), st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_times_are_those_of_a_plain_search(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], targets: list[int], zeros: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "i.timeindex"
    path.write_bytes(
        b"".join(struct.pack(">qi", time, n) for n, time in enumerate(times)) + bytes(12 * zeros)
    )
    fd = os.open(path, os.O_RDONLY)
    out = np.zeros(2, np.int64)
    for target in [*targets, *times[:3], *times[-3:], 2**62]:
        slot = search.find_time(fd, path.stat().st_size, target, out)
        want = bisect_right(times, target) - 1
        if want >= 0:
            assert (slot, out.tolist()) == (want, [times[want], want])
        else:
            assert slot == -1 or (zeros and not times and slot == 0)  # a lone zero entry is time 0
    os.close(fd)


def test_an_unreadable_index_means_a_walk_from_the_start() -> None:
    assert search.find_position(-1, 8000, 0, 5) == 0
    assert search.find_time(-1, 12000, 5, np.zeros(2, np.int64)) == -1


def test_bytes_that_are_no_batch_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(batch(0) + bytes(100))
    fd = os.open(path, os.O_RDONLY)
    size = path.stat().st_size
    place, out = FoundPlace.row(), np.array([-1, -1, -1], np.int64)
    assert search.locate(fd, -1, 0, 0, 0, 0, size, place) == Located.FOUND
    assert search.locate(fd, -1, 0, 0, 1, 0, size, place) == Located.DAMAGED
    assert search.locate_time(fd, 0, size, 2**60, place) == Located.DAMAGED
    assert search.largest_timestamp(fd, 0, size, out) == Located.DAMAGED
    assert out[2] == len(batch(0))
    os.close(fd)
    assert search.locate(-1, -1, 0, 0, 0, 0, 100, place) == Located.READ_FAILED
    assert search.locate_time(-1, 0, 100, 0, place) == Located.READ_FAILED
    assert search.largest_timestamp(-1, 0, 100, out) == Located.READ_FAILED


def test_walks_over_batches_of_any_size_end_at_the_same_batch(tmp_path: Path) -> None:
    sizes = [10, search.WALK_BYTES, 50_000, 50_000, 10, 10, 5_000, 20_000, 10, search.WALK_BYTES // 2, 10] * 2
    content = [batch(n, [b"v" * size], [1000 + n]) for n, size in enumerate(sizes)]
    starts = [sum(map(len, content[:n])) for n in range(len(content) + 1)]
    path = tmp_path / "x.log"
    path.write_bytes(b"".join(content))
    fd = os.open(path, os.O_RDONLY)
    place, out = FoundPlace.row(), np.array([-1, -1, -1], np.int64)
    for n, size in enumerate(map(len, content)):
        for found in (
            search.locate(fd, -1, 0, 0, n, 0, starts[-1], place),
            search.locate_time(fd, 0, starts[-1], 1000 + n, place),
        ):
            assert found == Located.FOUND
            assert [starts[n], n, n, size] == [
                place[each]
                for each in (
                    FoundPlace.POSITION,
                    FoundPlace.BASE_OFFSET,
                    FoundPlace.LAST_OFFSET,
                    FoundPlace.SIZE,
                )
            ]
    assert search.largest_timestamp(fd, 0, starts[-1], out) == Located.FOUND
    assert out.tolist() == [1000 + len(sizes) - 1, len(sizes) - 1, starts[-1]]
    os.close(fd)
