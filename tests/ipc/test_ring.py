"""Rings hand over every entry once and in order; a sleeper misses no wake-up."""

import os
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.layout import AppendEntry
from kbroker.ipc.ring import (
    Sleeper,
    acks_of,
    pack_acks,
    ring_length,
    ring_push,
    ring_take,
    timeout_ms_of,
    wake_process,
)
from kbroker.ipc.shared import Shared, Sizes
from tests.forked_child import ForkedChild

CAPACITY = 8


@pytest.fixture(scope="module")
def shared() -> Shared:
    return Shared(Sizes(clients=2, workers=2, max_partitions=8, ring_entries=CAPACITY, arena_bytes=4096))


def entry(number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(number, number + AppendEntry.WORDS, dtype=np.int64)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.one_of(st.none(), st.integers(1, CAPACITY + 2)), max_size=60))
def test_ring_is_a_bounded_queue(steps: list[int | None]) -> None:
    shared = Shared(Sizes(clients=1, workers=1, max_partitions=1, ring_entries=CAPACITY, arena_bytes=4096))
    ring, model, number = shared.append_ring(0, 0), deque[int](), 0
    for step in steps:
        if step is None:
            number += 1
            pushed = ring_push(ring, CAPACITY, entry(number))
            assert pushed == (len(model) < CAPACITY)
            if pushed:
                model.append(number)
        else:
            out = AppendEntry.table(step)
            count = ring_take(ring, CAPACITY, out)
            taken = [model.popleft() for _ in range(min(step, len(model)))]
            assert [row.tolist() for row in out[:count]] == [entry(n).tolist() for n in taken]
        assert ring_length(ring) == len(model)


def test_rings_do_not_overlap(shared: Shared) -> None:
    rings = [shared.append_ring(c, w) for c in range(2) for w in range(2)]
    rings += [shared.completion_ring(c, w) for c in range(2) for w in range(2)]
    for number, ring in enumerate(rings):
        for n in range(CAPACITY):
            assert ring_push(ring, CAPACITY, entry(1000 * number + n))
    out = AppendEntry.table(CAPACITY)
    for number, ring in enumerate(rings):
        assert ring_take(ring, CAPACITY, out) == CAPACITY
        assert out[:, 0].tolist() == [1000 * number + n for n in range(CAPACITY)]


def test_only_a_sleeper_is_woken(shared: Shared) -> None:
    sleeper = Sleeper(shared, 1)
    wake_process(shared, 1)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(sleeper.event_fd)
    sleeper.announce()
    wake_process(shared, 1)
    wake_process(shared, 1)
    assert os.eventfd_read(sleeper.event_fd) == 1
    sleeper.announce()
    sleeper.awake()
    wake_process(shared, 1)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(sleeper.event_fd)


def test_entries_cross_a_fork_in_order() -> None:
    shared = Shared(Sizes(clients=1, workers=1, max_partitions=1, ring_entries=CAPACITY, arena_bytes=4096))
    ring, total = shared.append_ring(0, 0), 5000

    def push_all() -> None:
        sent = 0
        while sent < total:
            sent += ring_push(ring, CAPACITY, entry(sent))

    with ForkedChild(push_all):
        seen: list[int] = []
        out = AppendEntry.table(CAPACITY)
        while len(seen) < total:
            count = ring_take(ring, CAPACITY, out)
            assert count >= 0
            assert (out[:count, 7] == out[:count, 0] + 7).all()
            seen += out[:count, 0].tolist()
        assert seen == list(range(total))


def test_ring_size_must_be_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        Shared(Sizes(clients=1, workers=1, max_partitions=1, ring_entries=12, arena_bytes=4096))


@given(st.sampled_from((-1, 0, 1)), st.integers(-(1 << 31), (1 << 31) - 1))
def test_acks_and_timeout_share_a_word(acks: int, timeout_ms: int) -> None:
    packed = int(np.int64(pack_acks(acks, timeout_ms)))
    assert (acks_of(packed), timeout_ms_of(packed)) == (acks, timeout_ms)
