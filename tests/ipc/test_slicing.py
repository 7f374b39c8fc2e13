"""Long work beside others: they have their turns, results and errors come out, what waits holds
nobody up."""

import asyncio
import gc
import time
from functools import partial

import pytest

from kbroker.ipc import slicing
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.slices import Work, in_slices, paced, yield_slice


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector rests shortly."""
    monkeypatch.setattr(slicing, "REST_S", 0.01)


async def collecting() -> None:
    async with asyncio.timeout(30):
        while not gc.isenabled():
            await asyncio.sleep(0.01)


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
        task: asyncio.Task[object] = asyncio.create_task(await Slicing().run(lambda: in_slices(work())))
        return await turns(task), task.result()

    count, result = asyncio.run(scene())
    assert result == 600_000
    assert count > 10


def test_the_steps_of_a_coroutine_begin_at_once_and_give_way_when_they_are_long() -> None:
    async def short() -> int:
        await asyncio.sleep(0)
        return 1

    async def long() -> int:
        return long_work()

    async def scene() -> tuple[int, int]:
        slices = Slicing()
        together = [asyncio.create_task(slices.run_steps(short())) for _ in range(100)]
        few = await turns(asyncio.create_task(asyncio.wait(together)))
        assert [task.result() for task in together] == [1] * 100
        one = asyncio.create_task(slices.run_steps(long()))
        many = await turns(one)
        assert one.result() == 300_000
        return few, many

    few, many = asyncio.run(scene())
    assert few < 10
    assert many > 5


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one() -> None:
    async def scene() -> None:
        slicing = Slicing()
        longest = asyncio.create_task(slicing.run(partial(long_work, 30_000_000), size=50 << 20))
        other = asyncio.create_task(slicing.run(partial(long_work, 30_000_000), size=50 << 20))
        for _ in range(50):
            await asyncio.sleep(0)
        for size in (1 << 16, 1 << 20):
            assert await slicing.run(long_work, size=size) == 300_000
            assert not any(task.done() for task in (longest, other))
        for task in (longest, other):
            task.cancel()
        await asyncio.wait((longest, other))

    asyncio.run(scene())


def test_one_queue_runs_in_each_turn() -> None:
    """However many sizes there are, others wait for one slice."""
    slices: list[int] = []

    async def scene() -> None:
        slicing = Slicing()
        works = [slicing.run(long_work, slices.append, size) for size in (1, 1 << 18, 1 << 24)]
        tasks = asyncio.gather(*works)
        for _ in range(60):  # all three are in their queues
            await asyncio.sleep(0)
        while not tasks.done():
            before = len(slices)
            await asyncio.sleep(0)
            assert len(slices) <= before + 1
        assert tasks.result() == [300_000] * 3

    asyncio.run(scene())


def test_errors_come_out() -> None:
    def work() -> None:
        long_work()
        raise KeyError("gone")

    async def scene() -> None:
        with pytest.raises(KeyError):
            await Slicing().run(work)
        await collecting()

    asyncio.run(scene())


def test_the_collector_waits_for_the_end_of_what_long_work_has_made() -> None:
    made: list[list[int]] = []

    def work() -> None:
        made.extend([number] for number in paced(range(300_000)))

    async def scene() -> None:
        await Slicing().run(work)
        await asyncio.sleep(0.05)
        assert not gc.isenabled()
        made.clear()
        await collecting()

    asyncio.run(scene())


def test_the_collector_waits_for_no_work_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "MAX_RESTS", 3)
    made: list[list[int]] = []

    def work() -> None:
        made.extend([number] for number in paced(range(300_000)))

    async def scene() -> None:
        await Slicing().run(work)
        await collecting()

    asyncio.run(scene())
    assert len(made) == 300_000


def test_short_work_leaves_the_collector_on() -> None:
    asyncio.run(Slicing().run(lambda: long_work(10)))
    assert gc.isenabled()


def test_work_that_waits_makes_room_for_the_next() -> None:
    async def scene() -> None:
        slicing, event = Slicing(), asyncio.Event()

        async def waits() -> None:
            await event.wait()

        waiting = asyncio.create_task(await slicing.run(lambda: in_slices(waits())))
        await asyncio.wait_for(slicing.run(long_work), 60)
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
        assert await asyncio.wait_for(slicing.run(lambda: long_work(1000)), 60) == 1000
        await collecting()

    asyncio.run(scene())


def computing(milliseconds: int) -> int:
    ends_ns = time.thread_time_ns() + milliseconds * 1_000_000
    while time.thread_time_ns() < ends_ns:
        yield_slice()
    return milliseconds


@pytest.mark.parametrize("milliseconds", [0, 4])
def test_short_work_does_not_wait_for_long_work(milliseconds: int) -> None:
    async def scene() -> None:
        slicing = Slicing()
        endless = [asyncio.create_task(slicing.run(lambda: long_work(10**9))) for _ in range(20)]
        for _ in range(3):
            found = await asyncio.wait_for(slicing.run(partial(computing, milliseconds)), 60)
            assert found == milliseconds
        assert not any(each.done() for each in endless)
        for each in endless:
            each.cancel()
        await asyncio.wait(endless)

    asyncio.run(scene())


def test_in_each_turn_of_the_loop_few_slices_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests are long."""
    run, slices = Work.run_slice, [0]

    def counted(work: Work) -> object:
        slices[0] += 1
        return run(work)

    monkeypatch.setattr(Work, "run_slice", counted)

    async def scene() -> None:
        slicing, most = Slicing(), 0
        endless = [asyncio.create_task(slicing.run(lambda: long_work(10**9))) for _ in range(50)]
        for _ in range(300):
            slices[0] = 0
            await asyncio.sleep(0)
            most = max(most, slices[0])
        for each in endless:
            each.cancel()
        await asyncio.wait(endless)
        assert 1 <= most <= 3

    asyncio.run(scene())
