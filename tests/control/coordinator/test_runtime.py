"""The coordinator runtime: append, replay, answer, in turn per key; load at start."""

import asyncio
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.coordinator.running import completion
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import read_all
from kbroker.protocol.slices import SLICE_NS, yield_slice
from tests.control.coordinator.clock import Clock
from tests.control.coordinator.runtime_scene import Log, Machine, answer_of, puts, run
from tests.control.fakes import World


def test_records_are_appended_replayed_and_then_answered(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.held.clear()
        requested = asyncio.ensure_future(runtime.run("g", puts(b"k", b"v", "done")))
        await asyncio.sleep(0.01)
        assert not requested.done()
        assert machine.state == {}
        log.held.set()
        assert await requested == "done"
        assert machine.state == {b"k": b"v"}
        ((index, batch),) = log.batches
        assert index == runtime.partition_for("g")
        assert [(record.key, record.value) for record in read_all(batch)] == [(b"k", b"v")]

    run(tmp_path, test)


def test_appends_have_the_timeout_of_their_coordinator(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        loop = asyncio.get_running_loop()
        timed = Runtime(made.broker, cast(Any, log), runtime.topic, loop, timeout_ms=1234)
        timed.attach(Machine())
        await timed.ready()
        await timed.run("g", puts(b"k", b"v"))
        assert log.timeout_ms == 1234
        log.timeout_ms = 0
        await completion(timed.ask("g", puts(b"k", b"v")))
        assert log.timeout_ms == 1234

    run(tmp_path, test)


def test_operations_of_one_key_see_what_the_one_before_wrote(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def add(now_ms: int) -> Outcome:
            number = int(machine.state.get(b"n") or b"0") + 1
            return Outcome([Record(b"n", b"%d" % number)], number)

        assert await asyncio.gather(*(runtime.run("g", add) for _ in range(20))) == list(range(1, 21))

    run(tmp_path, test)


def test_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.held.clear()
        slow = asyncio.ensure_future(runtime.run("slow", puts(b"k", b"v")))
        await asyncio.sleep(0.01)
        assert await runtime.run("other", lambda now_ms: Outcome(response="quick")) == "quick"
        log.held.set()
        await slow

    run(tmp_path, test)


def test_a_refused_operation_does_not_stop_the_next(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def refuse(now_ms: int) -> Outcome:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

        both: tuple[Any, ...] = await asyncio.gather(
            runtime.run("g", refuse), runtime.run("g", puts(b"k", b"v", "ok")), return_exceptions=True
        )
        first, second = both
        assert isinstance(first, KafkaError)
        assert second == "ok"

    run(tmp_path, test)


def test_a_failed_append_is_not_replayed_and_reaches_then(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        reported: list[ErrorCode] = []
        outcome = Outcome([Record(b"k", b"v")], "answer", reported.append)
        assert await runtime.run("g", lambda now_ms: outcome) == "answer"
        assert reported == [ErrorCode.NOT_COORDINATOR]
        with pytest.raises(KafkaError) as refused:
            await runtime.run("g", puts(b"k", b"v"))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert machine.state == {}

    run(tmp_path, test)


def test_then_is_called_after_the_replay_and_completes_deferred_answers(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        deferred = Deferred()
        waiting = asyncio.ensure_future(runtime.run("g", lambda now_ms: Outcome(response=deferred)))
        await asyncio.sleep(0)

        def then(error: ErrorCode) -> None:
            assert machine.state == {b"k": b"v"}
            deferred.complete(error)

        await runtime.run("g", lambda now_ms: Outcome([Record(b"k", b"v")], None, then))
        assert await waiting is ErrorCode.NONE

    run(tmp_path, test)


def test_timers_run_in_turn_with_their_key(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        runtime.timers.schedule("t", 1, "g", puts(b"timer", b"fired"))
        runtime.timers.schedule("never", 1, "g", puts(b"never", b"x"))
        runtime.timers.cancel("never")
        while not log.batches:
            await asyncio.sleep(0.001)
        await runtime.run("g", lambda now_ms: Outcome())
        assert machine.state == {b"timer": b"fired"}

    run(tmp_path, test)


def test_a_timer_that_runs_is_not_scheduled_again_if_absent(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        runtime.timers.schedule_if_absent("t", 1, "g", puts(b"timer", b"first"))
        runtime.timers.schedule_if_absent("t", 1, "g", puts(b"timer", b"second"))
        while not log.batches:
            await asyncio.sleep(0.001)
        await runtime.run("g", lambda now_ms: Outcome())
        assert machine.state == {b"timer": b"first"}
        runtime.timers.schedule_if_absent("t", 1, "g", puts(b"timer", b"third"))
        while len(log.batches) < 2:
            await asyncio.sleep(0.001)
        await runtime.run("g", lambda now_ms: Outcome())
        assert machine.state == {b"timer": b"third"}

    run(tmp_path, test)


def test_a_batch_above_the_topics_limit_is_refused(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        with pytest.raises(KafkaError) as refused:
            await runtime.run("g", puts(b"k", bytes(2_000_000)))
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not log.batches

    run(tmp_path, test)


def test_an_operation_without_records_is_answered_without_waiting(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        assert runtime.ask("g", lambda now_ms: Outcome(response="at once")) == "at once"
        ready = Deferred()
        ready.complete("ready")
        assert runtime.ask("g", lambda now_ms: Outcome(response=ready)).value == "ready"
        later = Deferred()
        waiting = runtime.ask("g", lambda now_ms: Outcome(response=later))
        assert not waiting.done
        later.complete("later")
        assert waiting.value == "later"

    run(tmp_path, test)


def test_a_request_while_the_key_writes_waits_its_turn(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.held.clear()
        writing = runtime.ask("g", puts(b"k", b"v", "written"))
        requested = runtime.ask("g", lambda now_ms: Outcome(response=dict(machine.state)))
        assert runtime.ask("other", lambda now_ms: Outcome(response="free")) == "free"
        await asyncio.sleep(0.01)
        assert not requested.done
        log.held.set()
        assert await answer_of(requested) == {b"k": b"v"}
        assert writing.value == "written"

    run(tmp_path, test)


def test_a_requested_append_that_fails_ends_the_turn(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        failed = runtime.ask("g", puts(b"k", b"v"))
        later = Deferred()
        reported = runtime.ask("other", lambda now_ms: Outcome([Record(b"k", b"v")], later, later.complete))
        assert await runtime.run("g", lambda now_ms: Outcome(response="next")) == "next"
        assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert reported.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert runtime.ask("g", lambda now_ms: Outcome(response="next")) == "next"

    run(tmp_path, test)


def test_a_fault_after_an_append_is_answered_and_others_continue(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def fail(code: ErrorCode) -> None:
            raise RuntimeError("a bug")

        faulty = runtime.ask("g", lambda now_ms: Outcome([Record(b"k", b"v")], "never", fail))
        other = runtime.ask("h", puts(b"k2", b"v", "written"))
        assert await runtime.run("g", lambda now_ms: Outcome(response="next")) == "next"
        assert await runtime.run("h", lambda now_ms: Outcome(response="next")) == "next"
        assert faulty.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert other.value == "written"

    run(tmp_path, test)


@pytest.mark.parametrize("way", ["ask", "ask_concurrently"])
def test_a_blocked_operation_blocks_others_of_its_key(tmp_path: Path, way: str) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        seen: list[str] = []

        def long(now_ms: int) -> Outcome:
            seen.append("long begins")
            for _ in range(5):
                until_ns = time.monotonic_ns() + 2 * SLICE_NS
                while time.monotonic_ns() < until_ns:
                    pass
                yield_slice()
            seen.append("long ends")
            return Outcome([Record(b"k", b"long")], "long")

        def short(now_ms: int) -> Outcome:
            seen.append("short")
            return Outcome([Record(b"k", b"short")], "short")

        async def later() -> str:
            while not seen:
                await asyncio.sleep(0)
            return str(await answer_of(getattr(runtime, way)("g", short)))

        async def sliced() -> str:
            return str(await answer_of(await Slicing().run(lambda: getattr(runtime, way)("g", long))))

        assert await asyncio.gather(sliced(), later()) == ["long", "short"]
        assert seen == ["long begins", "long ends", "short"]
        assert machine.state == {b"k": b"short"}

    run(tmp_path, test)


def test_a_waiting_operation_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def refuse(now_ms: int) -> Outcome:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

        def fail(now_ms: int) -> Outcome:
            raise RuntimeError("a bug")

        runtime.ask("g", puts(b"k", b"v"))
        requested = [runtime.ask("g", each) for each in (refuse, fail, puts(b"k", b"w", "ok"))]
        assert await answer_of(requested[2]) == "ok"
        assert requested[0].value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert str(requested[1].value) == "a bug"
        await asyncio.sleep(0.01)
        assert runtime.ask("g", lambda now_ms: Outcome(response="next")) == "next"

    run(tmp_path, test)


def test_an_undeliverable_answer_does_not_stop_the_next(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def fail(answer: object) -> None:
            raise RuntimeError("a bug")

        runtime.ask("g", puts(b"k", b"v"))
        runtime.ask("g", lambda now_ms: Outcome(response="not taken")).on_complete(fail)
        assert await answer_of(runtime.ask("g", puts(b"k", b"w", "ok"))) == "ok"

    run(tmp_path, test)


@pytest.mark.parametrize("seed", range(20))
def test_operations_of_a_key_are_decided_in_their_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        decided: list[int] = []
        written: list[bytes] = []

        def operation(number: int) -> Outcome:
            decided.append(number)
            assert machine.state.get(b"k") == (written[-1] if written else None)  # sees what is before it
            if random.random() < 0.7:
                return Outcome(response=number)
            written.append(b"%d" % number)
            return Outcome([Record(b"k", b"%d" % number)], number)

        answers: list[Any] = []
        for number in range(300):
            decide = partial(lambda number, now_ms: operation(number), number)
            if random.random() < 0.2:
                answers.append(asyncio.ensure_future(runtime.run("g", decide)))
                await asyncio.sleep(0)  # a coroutine takes its place when it begins
            else:
                requested = runtime.ask("g", decide)
                answers.append(completion(requested) if isinstance(requested, Deferred) else requested)
            if random.random() < 0.1:
                (log.held.clear if log.held.is_set() else log.held.set)()
            if random.random() < 0.05:
                await asyncio.sleep(0.001)
        log.held.set()
        assert [await each if isinstance(each, asyncio.Future) else each for each in answers] == list(
            range(300)
        )
        assert decided == list(range(300))

    run(tmp_path, test)


def test_operations_that_wait_when_the_runtime_closes_end_without_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        log.held.clear()
        tasks = [runtime.start("k", puts(b"a", b"1")) for _ in range(5)]
        await asyncio.sleep(0.01)
        runtime.close()
        await asyncio.wait(tasks, timeout=30)
        assert all(task.cancelled() for task in tasks)
        assert not [record for record in caplog.records if record.levelname == "ERROR"]

    run(tmp_path, test)


def test_an_action_is_repeated_at_its_interval_whatever_it_does(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        clock, calls = Clock(), list[int]()
        runtime._wheel = WheelTimers(cast(Any, clock), lambda: clock.now_ms)

        def action() -> None:
            calls.append(clock.now_ms)
            raise ValueError("a bug")

        runtime.every(100, "often", action)
        clock.advance(99)
        assert calls == []
        clock.advance(399)
        assert calls == [100, 200, 300]

    run(tmp_path, test)
