"""Long batches are checked in threads: requests take turns, and what is very long in plain delays
no other batch."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kbroker.net.produce.long_checks import FAST_BYTES, THREADS, LongCheck, LongChecks
from kbroker.net.produce.record_checks import ValidationResult
from kbroker.net.produce.record_walk import ANY_LENGTH, TooLong

WAIT_S = 30


class Scene:
    """Checks, by name in the order in which they began and ended."""

    def __init__(self) -> None:
        self.checks = LongChecks()
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._lock = threading.Lock()

    def begin(self, request: int, name: str, run: Callable[[int], ValidationResult]) -> None:
        def noted(max_bytes: int) -> ValidationResult:
            with self._lock:
                self.begun.append(name)
            return run(max_bytes)

        def ended(checked: "Future[ValidationResult]") -> None:
            assert checked.result() == ValidationResult()
            self.ended.append(name)

        self.checks.begin(request, LongCheck(noted, ended))

    async def until(self, done: Callable[[], Any]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not done():
                await asyncio.sleep(0.001)


def test_requests_take_turns() -> None:
    async def run() -> None:
        scene, gate = Scene(), threading.Event()

        def waits(_: int) -> ValidationResult:
            assert gate.wait(WAIT_S)
            return ValidationResult()

        for number in range(20):
            scene.begin(1, f"one {number}", waits)
        scene.begin(2, "other", waits)
        await scene.until(lambda: len(scene.begun) == THREADS)
        gate.set()
        await scene.until(lambda: len(scene.ended) == 21)
        assert scene.begun.index("other") <= THREADS + 1
        own = [name for name in scene.begun if name != "other"]
        assert sorted(own[:THREADS]) == [f"one {number}" for number in range(THREADS)]
        scene.checks.close()

    asyncio.run(run())


def test_a_very_long_batch_delays_no_other_batch() -> None:
    async def run() -> None:
        scene, gate, given = Scene(), threading.Event(), []

        def very_long(max_bytes: int) -> ValidationResult:
            given.append(max_bytes)
            if max_bytes < ANY_LENGTH:
                raise TooLong
            assert gate.wait(WAIT_S)
            return ValidationResult()

        for _ in range(2 * THREADS):
            scene.begin(1, "very long", very_long)
        for number in range(9):
            scene.begin(2 + number, "other", lambda _: ValidationResult())
        await scene.until(lambda: len(scene.ended) == 9)
        assert set(scene.ended) == {"other"}
        gate.set()
        await scene.until(lambda: len(scene.ended) == 9 + 2 * THREADS)
        assert sorted(given) == [FAST_BYTES] * 2 * THREADS + [ANY_LENGTH] * 2 * THREADS
        scene.checks.close()

    asyncio.run(run())


def test_nothing_begins_or_ends_once_the_process_ends() -> None:
    async def run() -> None:
        scene, gate = Scene(), threading.Event()

        def waits(_: int) -> ValidationResult:
            assert gate.wait(WAIT_S)
            raise TooLong

        for number in range(20):
            scene.begin(number, "one", waits)
        await scene.until(lambda: len(scene.begun) == THREADS)
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        scene.checks.close()
        gate.set()
        await asyncio.to_thread(scene.checks._fast._threads.shutdown)
        await asyncio.sleep(0)
        assert (len(scene.begun), scene.ended, failures) == (THREADS, [], [])

    asyncio.run(run())
