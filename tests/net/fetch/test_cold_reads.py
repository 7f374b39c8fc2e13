"""Reads of bytes that are not in memory: asked of the IO worker, and waited for."""

import asyncio
import os
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from kbroker.ipc.layout import AppendEntry, Operation, ProcessLine
from kbroker.ipc.ring import ring_push, ring_take
from kbroker.ipc.shared import Shared, Sizes
from kbroker.net.fetch.cold_reads import ColdReads
from kbroker.net.fetch.partition_reader import Reading

CAPACITY = 8


def made() -> tuple[Shared, ColdReads]:
    sizes = Sizes(clients=1, workers=1, max_partitions=4, ring_entries=CAPACITY, arena_bytes=1 << 16)
    shared = Shared(sizes)
    return shared, ColdReads(shared, 0, lambda *_: False)


def reading(position: int) -> Reading:
    """100 bytes of slot 2, in the segment of offset 7."""
    place: Any = SimpleNamespace(segment_base=7)
    found: Any = SimpleNamespace(position=position, length=100)
    return Reading(slot=2, place=place, range=found)


def requests(shared: Shared) -> list[list[int]]:
    out = AppendEntry.table(CAPACITY)
    count = ring_take(shared.append_ring(0, 0), CAPACITY, out)
    return cast(list[list[int]], out[:count].tolist())


def test_the_answer_continues_when_the_last_range_is_read() -> None:
    async def run() -> None:
        shared, cold = made()
        ended: list[str] = []
        cold.read([reading(0), reading(500)], lambda: ended.append("all"))
        entries = requests(shared)
        assert [
            (each[AppendEntry.OPERATION], each[AppendEntry.SLOT], each[AppendEntry.GENERATION],
             each[AppendEntry.ADDRESS], each[AppendEntry.LENGTH])
            for each in entries
        ] == [(Operation.READ_AHEAD, 2, 7, 0, 100), (Operation.READ_AHEAD, 2, 7, 500, 100)]  # fmt: skip
        first, second = (each[AppendEntry.TOKEN] for each in entries)
        assert first != second
        assert ended == []
        cold.on_read(second)
        cold.on_read(second)  # of a worker that died and its successor
        assert ended == []
        cold.on_read(first)
        assert ended == ["all"]

    asyncio.run(run())


def test_a_range_that_finds_no_room_in_the_ring_is_sent_as_it_is() -> None:
    async def run() -> None:
        shared, cold = made()
        ring = shared.append_ring(0, 0)
        while ring_push(ring, CAPACITY, np.zeros(AppendEntry.STRIDE // 8, np.int64)):
            pass
        ended: list[str] = []
        cold.read([reading(0)], lambda: ended.append("all"))
        assert ended == ["all"]

    asyncio.run(run())


def test_an_io_worker_that_sleeps_is_woken_for_a_range() -> None:
    async def run() -> None:
        shared, cold = made()
        worker = shared.worker_process(0)
        shared.processes[worker, ProcessLine.SLEEPING] = 1
        cold.read([reading(0)], lambda: None)
        assert os.eventfd_read(shared.event_fds[worker]) == 1

    asyncio.run(run())
