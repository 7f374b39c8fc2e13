"""A timer that has fired can be replaced, put off and cancelled until its operation begins."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.coordinator.operation_timers import OperationTimers
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.coordinator.clock import Clock
from tests.control.coordinator.runtime_scene import Log, Machine, answer_of, puts, run
from tests.control.fakes import World


class Turns:
    """Operations that timers have started, and that wait for their turn."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waiting: list[tuple[Operation, asyncio.Future[None]]] = []
        self.began: list[str] = []
        self.timers = OperationTimers(WheelTimers(self.clock, lambda: self.clock.now_ms), self._start)

    def _start(self, key: str, operation: Operation) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((operation, done))
        return done

    def operation(self, name: str) -> Operation:
        def operation(now_ms: int) -> Outcome:
            self.began.append(name)
            return Outcome()

        return operation

    async def begin_all(self) -> None:
        """Every waiting operation has its turn."""
        while self.waiting:
            operation, done = self.waiting.pop(0)
            operation(0)
            done.set_result(None)
        await asyncio.sleep(0)

    async def refuse_all(self) -> None:
        """No waiting operation can begin: its partition is gone."""
        while self.waiting:
            self.waiting.pop(0)[1].set_result(None)
        await asyncio.sleep(0)


def fired(test: Callable[[Turns], Awaitable[None]]) -> None:
    """Runs a test with a timer "t" that fired at 100."""

    async def body() -> None:
        turns = Turns()
        turns.timers.schedule("t", 100, "g", turns.operation("first"))
        turns.clock.advance(100)
        assert len(turns.waiting) == 1
        await test(turns)

    asyncio.run(body())


def test_a_fired_operation_begins_in_its_turn() -> None:
    async def test(turns: Turns) -> None:
        await turns.begin_all()
        assert turns.began == ["first"]

    fired(test)


def test_a_fired_operation_is_replaced_by_scheduling_its_name() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.schedule("t", 50, "g", turns.operation("second"))
        await turns.begin_all()
        assert not turns.began
        turns.clock.advance(150)
        await turns.begin_all()
        assert turns.began == ["second"]

    fired(test)


def test_a_fired_operation_is_cancelled_by_its_name() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.cancel("t")
        turns.clock.advance(10_000)
        await turns.begin_all()
        assert not turns.began

    fired(test)


def test_a_fired_operation_is_put_off_to_a_later_time() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.postpone("t", 100)  # not later than now: it is due
        turns.timers.postpone("t", 130)
        await turns.begin_all()
        assert not turns.began
        turns.clock.advance(129)
        assert not turns.waiting
        turns.clock.advance(130)
        await turns.begin_all()
        assert turns.began == ["first"]

    fired(test)


def test_a_fired_operation_that_is_not_put_off_beyond_now_begins() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.postpone("t", 100)
        await turns.begin_all()
        assert turns.began == ["first"]

    fired(test)


def test_a_fired_name_is_not_absent_until_its_operation_begins() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.schedule_if_absent("t", 0, "g", turns.operation("second"))
        turns.clock.advance(200)
        await turns.begin_all()
        assert turns.began == ["first"]
        turns.timers.schedule_if_absent("t", 0, "g", turns.operation("third"))
        turns.clock.advance(300)
        await turns.begin_all()
        assert turns.began == ["first", "third"]

    fired(test)


def test_a_name_is_free_after_an_operation_that_could_not_begin() -> None:
    async def test(turns: Turns) -> None:
        await turns.refuse_all()
        turns.timers.schedule_if_absent("t", 0, "g", turns.operation("second"))
        turns.clock.advance(200)
        await turns.begin_all()
        assert turns.began == ["second"]

    fired(test)


def test_an_operation_may_schedule_its_own_name_again() -> None:
    async def test(turns: Turns) -> None:
        def again(now_ms: int) -> Outcome:
            turns.began.append("again")
            turns.timers.schedule("t", 10, "g", turns.operation("last"))
            return Outcome()

        turns.timers.schedule("t", 10, "g", again)
        turns.clock.advance(110)
        await turns.begin_all()
        turns.clock.advance(120)
        await turns.begin_all()
        assert turns.began == ["again", "last"]

    fired(test)


def test_closed_timers_begin_no_fired_operation() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.close()
        await turns.begin_all()
        assert not turns.began

    fired(test)


def test_closed_timers_do_not_fire() -> None:
    async def test(turns: Turns) -> None:
        turns.timers.schedule("other", 100, "g", turns.operation("other"))
        turns.timers.close()
        turns.clock.advance(10_000)
        assert len(turns.waiting) == 1

    fired(test)


def test_a_timer_is_renewed_unless_its_operation_waits_for_its_turn() -> None:
    async def test(turns: Turns) -> None:
        assert not turns.timers.renew("t", 100)
        turns.timers.schedule("other", 100, "g", turns.operation("other"))
        turns.clock.advance(150)
        assert turns.timers.renew("other", 100)
        turns.clock.advance(249)
        assert len(turns.waiting) == 1
        turns.clock.advance(250)
        assert len(turns.waiting) == 2

    fired(test)


@pytest.mark.parametrize("way", ["schedule", "cancel", "put_off"])
def test_an_operation_before_the_fired_one_overrides_it(tmp_path: Path, way: str) -> None:
    """A heartbeat that waits in front of the session's expiry renews the session."""

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        expired: list[int] = []
        begun = asyncio.Event()

        def expire(now_ms: int) -> Outcome:
            expired.append(now_ms)
            return Outcome()

        def renew(now_ms: int) -> Outcome:
            if way == "cancel":
                runtime.timers.cancel("session")
            elif way == "put_off":
                runtime.timers.postpone("session", 1 << 60)
            else:
                runtime.timers.schedule("session", 3_600_000, "g", expire)
            return Outcome(response="renewed")

        def after(now_ms: int) -> Outcome:
            begun.set()
            return Outcome()

        log.held.clear()
        writing = runtime.ask("g", puts(b"k", b"v", "written"))
        renewing = runtime.ask("g", renew)
        runtime.timers.schedule("session", 0, "g", expire)
        runtime.timers.schedule("after", 0, "other", after)
        await begun.wait()  # both have fired: they are due at the same time, and in this order
        log.held.set()
        assert await answer_of(writing) == "written"
        assert await answer_of(renewing) == "renewed"
        await runtime.run("g", lambda now_ms: Outcome())  # behind the fired operation
        assert not expired

    run(tmp_path, test)


def test_a_timer_whose_partition_is_gone_leaves_its_name_free(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        loaded, runtime.loaded = runtime.loaded, set()
        runtime.timers.schedule("t", 0, "g", puts(b"k", b"never"))
        while runtime.timers._fired or "t" in runtime._wheel:
            await asyncio.sleep(0)
        with pytest.raises(KafkaError) as refused:
            await runtime.run("g", lambda now_ms: Outcome())
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        runtime.loaded = loaded
        runtime.timers.schedule_if_absent("t", 0, "g", puts(b"k", b"v"))
        while machine.state != {b"k": b"v"}:
            await asyncio.sleep(0.001)

    run(tmp_path, test)
