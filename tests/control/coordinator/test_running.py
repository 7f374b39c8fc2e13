"""Deferred answers of coroutines."""

import asyncio
import gc

import pytest

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.coordinator.running import Running, completion
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import is_sliced
from tests.control.coordinator.runtime_scene import answer_of


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.INVALID_REQUEST), KeyError("gone")])
def test_a_coroutine_gives_its_result_or_its_exception(error: Exception) -> None:
    async def fails() -> None:
        raise error

    async def works() -> int:
        return 1

    async def scene() -> None:
        assert await completion(Running(works())) == 1
        assert await completion(Running(fails())) is error

    asyncio.run(scene())


def test_a_refusal_does_not_keep_the_frames_that_hold_its_request() -> None:
    async def fails() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    async def scene() -> None:
        assert (await completion(Running(fails()))).__traceback__ is None

    asyncio.run(scene())


def test_a_coroutine_begins_with_the_next_turn() -> None:
    async def scene() -> None:
        begun: list[int] = []

        async def work() -> None:
            begun.append(1)

        one = Running(work())
        assert not begun
        await completion(one)
        assert begun == [1]

    asyncio.run(scene())


def test_an_unreferenced_coroutine_is_not_collected() -> None:
    async def scene() -> None:
        seen: list[object] = []
        event = asyncio.Event()

        async def waits() -> int:
            await event.wait()
            return 1

        Running(waits()).on_complete(seen.append)
        await asyncio.sleep(0)
        gc.collect()
        event.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert seen == [1]

    asyncio.run(scene())


def test_a_waiting_task_that_is_cancelled_does_not_stop_the_sender() -> None:
    async def scene() -> None:
        late = Deferred()
        waiting = asyncio.ensure_future(answer_of(late))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert late.complete(1)

    asyncio.run(scene())


def test_work_that_begins_in_slices_ends_in_slices() -> None:
    async def scene() -> None:
        seen: list[bool] = []

        async def work() -> None:
            seen.append(is_sliced())
            await asyncio.sleep(0)
            seen.append(is_sliced())

        def begin() -> Deferred:
            one = Running(work())
            one.on_complete(lambda _: seen.append(is_sliced()))
            return one

        await completion_of(await Slicing().run(begin))
        assert seen == [True, True, True]

    asyncio.run(scene())


async def completion_of(one: Deferred) -> None:
    """Wait without a callback of one's own: there is room for one."""
    while not one.done:
        await asyncio.sleep(0)
