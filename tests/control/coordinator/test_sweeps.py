"""Sweeps over very many keys: each is looked at, few operations run at once, others have their
turns."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.coordinator.sweeps import AT_ONCE, Sweeps

COUNT = 20_000


class Starter:
    """Runs each operation in two turns of the loop."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.running = self.most = 0

    def start(self, key: str, operation: Operation) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(self._run(key, operation))

    async def _run(self, key: str, operation: Operation) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        operation(0)
        self.ran.append(key)
        self.running -= 1


def nothing(_: int) -> Outcome:
    return Outcome()


def keys() -> list[str]:
    return [str(number) for number in range(COUNT)]


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0)


def test_every_key_is_checked_and_a_few_run_at_once() -> None:
    async def test() -> None:
        starter = Starter()
        sweeps = Sweeps(starter)
        expected = [key for key in keys() if key.endswith("7")]
        sweeps.start(keys(), lambda key: nothing if key.endswith("7") else None)
        assert starter.ran == []
        await until(lambda: len(starter.ran) == len(expected))
        assert sorted(starter.ran) == sorted(expected)
        assert 1 < starter.most <= AT_ONCE

    asyncio.run(test())


def test_others_have_their_turns_although_no_key_is_due() -> None:
    async def test() -> None:
        looked: list[str] = []
        seen = [0]
        Sweeps(Starter()).start(keys() * 20, lambda key: looked.append(key))
        while len(looked) < COUNT * 20:
            await asyncio.sleep(0)
            seen.append(len(looked))
        assert max(after - before for before, after in pairwise(seen)) < COUNT * 10

    asyncio.run(test())


def test_a_running_sweep_is_not_started_again() -> None:
    async def test() -> None:
        starter = Starter()
        sweeps = Sweeps(starter)
        for _ in range(3):
            sweeps.repeat("a", keys, lambda _: nothing)
        await until(lambda: len(starter.ran) == COUNT)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(starter.ran) == COUNT
        sweeps.repeat("a", lambda: ["again"], lambda _: nothing)
        await until(lambda: len(starter.ran) == COUNT + 1)

    asyncio.run(test())
