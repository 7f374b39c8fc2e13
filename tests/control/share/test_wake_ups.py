"""A waiter is woken once, by any of its keys."""

import asyncio
from collections.abc import Awaitable, Callable

from kbroker.control.share.wake_ups import WakeUps


def run(test: Callable[[WakeUps], Awaitable[None]]) -> None:
    async def body() -> None:
        await test(WakeUps())

    asyncio.run(body())


def test_the_waiters_of_a_key_are_woken_and_no_others() -> None:
    async def test(wake_ups: WakeUps) -> None:
        one, two, other = (wake_ups.register(keys) for keys in (("a", "b"), ("b",), ("c",)))
        wake_ups.notify("unknown")
        assert not one.done()
        wake_ups.notify("b")
        assert [each.done() for each in (one, two, other)] == [True, True, False]
        wake_ups.notify("a")  # of one that is awake
        wake_ups.notify("b")

    run(test)


def test_a_waiter_that_is_forgotten_is_not_woken_and_leaves_nothing() -> None:
    async def test(wake_ups: WakeUps) -> None:
        keys = "a", "b"
        one, other = wake_ups.register(keys), wake_ups.register(("b",))
        wake_ups.forget(one, (*keys, "never waited for"))
        assert wake_ups._waiting == {"b": {other}}
        wake_ups.notify("a")
        wake_ups.notify("b")
        assert [each.done() for each in (one, other)] == [False, True]
        wake_ups.forget(other, ("b",))
        assert wake_ups._waiting == {}

    run(test)
