"""Ids of producers: blocks in memory that others take from, too, and that grow while they are used
up fast."""

import asyncio

import numpy as np
import pytest

from kbroker.control.metadata.producer_ids import BLOCK, MAX_BLOCK, ProducerIds
from kbroker.ipc.layout import ProducerIds as ProducerIdRow
from kbroker.ipc.producer_id_kernel import (
    NO_ID,
    take_producer_id,
)


class Store:
    """Blocks from 5000 on, with a gap behind each."""

    def __init__(self) -> None:
        self.next = 5000
        self.sizes: list[int] = []

    async def allocate(self, count: int) -> int:
        first = self.next
        self.next += count + 7
        self.sizes.append(count)
        await asyncio.sleep(0)
        return first


def made() -> tuple[ProducerIds, Store, "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    words = ProducerIdRow.row()
    store = Store()
    return ProducerIds(words, store.allocate), store, words


def test_others_take_from_the_same_block() -> None:
    ids, _, words = made()
    assert take_producer_id(words) == NO_ID
    assert [asyncio.run(ids.take()), take_producer_id(words), ids.take_allocated()] == [5000, 5001, 5002]


def test_ids_between_two_blocks_have_no_owner() -> None:
    ids, store, words = made()
    first = asyncio.run(ids.take())
    words[ProducerIdRow.NEXT] = first + BLOCK + 3  # others have tried and got none
    assert take_producer_id(words) == NO_ID
    assert asyncio.run(ids.take()) == first + BLOCK + 7
    assert len(store.sizes) == 2


def test_a_block_that_overlaps_others_begins_after_them() -> None:
    ids, store, words = made()
    first = asyncio.run(ids.take())
    store.next = first + BLOCK
    words[ProducerIdRow.NEXT] = first + BLOCK + 2
    assert asyncio.run(ids.take()) == first + BLOCK + 2


def test_the_range_of_a_predecessor_is_given_up() -> None:
    _, store, words = made()
    words[ProducerIdRow.NEXT], words[ProducerIdRow.END] = 100, 200
    ids = ProducerIds(words, store.allocate)
    assert take_producer_id(words) == NO_ID
    assert asyncio.run(ids.take()) == 5000


def test_blocks_grow_while_they_do_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, store, words = made()
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for _ in range(8):
        asyncio.run(ids.take())
        words[ProducerIdRow.NEXT] = words[ProducerIdRow.END]
        now[0] += 0.5
    now[0] += 1
    asyncio.run(ids.take())
    assert store.sizes == [BLOCK, 2000, 4000, 8000, 16000, 32000, MAX_BLOCK, MAX_BLOCK, BLOCK]


def test_those_who_wait_for_a_block_share_it() -> None:
    ids, store, _ = made()

    async def both() -> list[int]:
        return list(await asyncio.gather(ids.take(), ids.take()))

    assert asyncio.run(both()) == [5000, 5001]
    assert store.sizes == [BLOCK]


def test_a_larger_block_is_given_out_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, store, words = made()
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    asyncio.run(ids.take())
    words[ProducerIdRow.NEXT] = words[ProducerIdRow.END]
    first = asyncio.run(ids.take())
    assert store.sizes == [BLOCK, 2 * BLOCK]
    assert words[ProducerIdRow.END] == first + 2 * BLOCK
