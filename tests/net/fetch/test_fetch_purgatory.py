"""Delayed fetches and the waiter bits of their slots: no append is missed, and each fetch ends."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.layout import Slot
from kbroker.net.fetch.fetch_purgatory import FetchPurgatory
from kbroker.purgatory.delayed_operation import DelayedOperation

CLIENT = 3
SLOT = 2
NEVER = 1 << 60


class Waiting(DelayedOperation):
    """A fetch. enough: asked at each look whether there are enough bytes."""

    def __init__(self, enough: Callable[[], bool], expiry_ms: int = NEVER) -> None:
        super().__init__(expiry_ms)
        self._enough = enough
        self.ends: list[bool] = []

    def can_complete(self) -> bool:
        return self._enough()

    def on_complete(self, expired: bool) -> None:
        self.ends.append(expired)


class Scene:
    def __init__(self) -> None:
        self.slots = Slot.table(4)
        self.expired: list[int] = []
        tables: Any = SimpleNamespace(shared=SimpleNamespace(slots=self.slots), client=CLIENT)
        counts: Any = SimpleNamespace(fetch_expired=self.expired.append)
        self.purgatory = FetchPurgatory(tables, BrokerConfig({"log.dirs": "/d"}), counts)

    @property
    def asks(self) -> bool:
        """Whether the IO worker is asked to report when the slot advances."""
        return bool(self.slots[SLOT, Slot.WAITERS] == 1 << CLIENT)

    def report(self) -> None:
        """As the IO worker does."""
        self.slots[SLOT, Slot.WAITERS] = 0
        self.purgatory.on_advanced(SLOT)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_fetch_asks_again_after_each_report_until_it_is_complete(scene: Scene) -> None:
    enough = False
    fetch = Waiting(lambda: enough)
    assert not scene.purgatory.watch(fetch, [SLOT])
    assert scene.asks
    scene.report()
    assert scene.asks
    assert fetch.ends == []
    enough = True
    scene.report()
    assert fetch.ends == [False]
    assert not scene.asks, "no fetch waits any more"


def test_an_append_between_a_look_and_the_waiter_bit_is_not_missed(scene: Scene) -> None:
    """Its IO worker finds no bit, and reports nothing."""
    bits: list[bool] = []

    def enough() -> bool:
        bits.append(scene.asks)
        return bits[-2:] == [False, True]

    fetch = Waiting(enough)
    assert not scene.purgatory.watch(fetch, [SLOT])
    scene.report()
    assert fetch.ends == [False]


def test_fetches_end_when_their_time_is_over_and_are_counted(scene: Scene) -> None:
    async def wait() -> None:
        now_ms = monotonic_ms()
        first, second, last = (Waiting(lambda: False, now_ms + ms) for ms in (1, 30, 60))
        for fetch in (second, first, last):
            assert not scene.purgatory.watch(fetch, [SLOT])
            scene.purgatory.set_timer()
        while not last.ends:
            await asyncio.sleep(0.005)
        assert [first.ends, second.ends, last.ends] == [[True], [True], [True]]
        assert monotonic_ms() >= now_ms + 60

    asyncio.run(wait())
    assert sum(scene.expired) == 3


class Failing(Waiting):
    def on_complete(self, expired: bool) -> None:
        super().on_complete(expired)
        raise ValueError("a bug")


def test_fetches_expire_after_one_whose_answer_fails(scene: Scene) -> None:
    async def expire() -> None:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        due_ms = monotonic_ms() + 5
        waiting = [Failing(lambda: False, due_ms), Waiting(lambda: False, due_ms)]
        for each in waiting:
            scene.purgatory.watch(each, [SLOT])
        scene.purgatory.set_timer()
        async with asyncio.timeout(10):
            while not waiting[1].ends:
                await asyncio.sleep(0.001)
        assert [each.ends for each in waiting] == [[True], [True]]
        assert len(reported) == 1

    asyncio.run(expire())


def test_ended_fetches_are_swept_as_often_as_the_setting_says() -> None:
    tables: Any = SimpleNamespace(shared=SimpleNamespace(slots=Slot.table(4)), client=CLIENT)
    config = BrokerConfig({"log.dirs": "/d", "fetch.purgatory.purge.interval.requests": "5"})
    assert FetchPurgatory(tables, config, SimpleNamespace())._purge_interval == 5
