"""Long work beside others: they have their turns, results and errors come out, what waits holds nobody up."""

import asyncio
import gc
import time

import pytest

from kbroker.ipc.slicing import Slicing
from kbroker.protocol.slices import paced


def long_work(count: int = 300_000) -> int:
    return sum(1 for _ in paced(range(count)))


async def turns(until: asyncio.Task[object]) -> int:
    count = 0
    while not until.done():
        count += 1
        await asyncio.sleep(0)
    return count


def test_others_have_their_turns() -> None:
    async def scene() -> tuple[int, object]:
        task = asyncio.create_task(Slicing().run(long_work))
        return await turns(task), task.result()

    count, result = asyncio.run(scene())
    assert result == 300_000
    assert count > 5


def test_coroutines_run_in_slices_too_and_wait_as_ever() -> None:
    async def work() -> int:
        first = long_work()
        await asyncio.sleep(0.01)
        with pytest.raises(ValueError, match="no"):
            await failing()
        return first + long_work()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def scene() -> tuple[int, object]:
        task: asyncio.Task[object] = asyncio.create_task(Slicing().run(work))
        return await turns(task), task.result()

    count, result = asyncio.run(scene())
    assert result == 600_000
    assert count > 10


def test_errors_come_out() -> None:
    def work() -> None:
        long_work()
        raise KeyError("gone")

    with pytest.raises(KeyError):
        asyncio.run(Slicing().run(work))
    assert gc.isenabled()


def test_work_that_waits_makes_room_for_the_next() -> None:
    async def scene() -> None:
        slicing, event = Slicing(), asyncio.Event()

        async def waits() -> None:
            await event.wait()

        waiting = asyncio.create_task(slicing.run(waits))
        await asyncio.wait_for(slicing.run(long_work), 30)
        assert not waiting.done()
        event.set()
        await waiting

    asyncio.run(scene())


def test_cancelled_work_makes_room_too() -> None:
    async def scene() -> None:
        slicing = Slicing()
        endless = asyncio.create_task(slicing.run(lambda: long_work(10**9)))
        await asyncio.sleep(0.01)
        endless.cancel()
        await asyncio.wait({endless})
        began = time.monotonic()
        assert await slicing.run(lambda: long_work(1000)) == 1000
        assert time.monotonic() - began < 5

    asyncio.run(scene())
    assert gc.isenabled()
