"""Operations and replays of the runtime in slices: nothing is decided or replayed out of order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from greenlet import getcurrent

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.coordinator.runtime import Runtime
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.slices import is_sliced
from tests.control.coordinator.runtime_scene import Log, Machine, answer_of, puts, run
from tests.control.fakes import World


def pause() -> None:
    """End the slice, if this code runs in slices."""
    if is_sliced():
        getcurrent().parent.switch()


def test_a_long_operation_that_waited_lets_other_keys_run(tmp_path: Path) -> None:
    """Of a short request: it may be about all members of a large group."""

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        seen: list[str] = []

        def long(now_ms: int) -> Outcome:
            seen.append("begins")
            for _ in range(20):
                pause()
            seen.append("ends")
            return Outcome(response="long")

        runtime.ask("g", puts(b"k", b"v"))
        waiting = runtime.ask("g", long)
        while not seen:
            await asyncio.sleep(0)
        seen.append(runtime.ask("h", lambda now_ms: Outcome(response="other")))
        assert await answer_of(waiting) == "long"
        assert seen == ["begins", "other", "ends"]

    run(tmp_path, test)


def test_in_slices_too_an_answer_without_records_comes_at_once(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        _, found = Slicing().begin(lambda: runtime.ask("g", lambda now_ms: Outcome(response="now")))
        assert found == "now"
        assert runtime.is_idle("g")

    run(tmp_path, test)


@pytest.mark.parametrize(("count", "sliced"), [(1, False), (100, True)])
def test_many_records_are_replayed_in_slices(tmp_path: Path, count: int, sliced: bool) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        seen: list[bool] = []

        def replay(*_: object) -> None:
            seen.append(is_sliced())
            pause()

        machine.replay = replay  # type: ignore[assignment, method-assign]
        records = [Record(b"k%d" % number, b"v") for number in range(count)]
        waiting = runtime.ask("g", lambda now_ms: Outcome(list(records), "done"))
        later = runtime.ask("g", lambda now_ms: Outcome(response=len(seen)))
        assert await answer_of(waiting) == "done"
        assert seen == [sliced] * count
        assert await answer_of(later) == count

    run(tmp_path, test)


def test_long_operations_that_do_not_wait_for_each_other_are_replayed_in_order(tmp_path: Path) -> None:
    """Two commits of the same offsets: the last one counts."""

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        replay = machine.replay

        def replayed(*record: Any) -> None:
            replay(*record)
            if record[2] == b"first":
                pause()

        machine.replay = replayed  # type: ignore[assignment, method-assign]
        keys = [b"k%d" % number for number in range(100)]

        def commit(count: int, value: bytes) -> Any:
            return runtime.ask_concurrently(
                "g", lambda now_ms: Outcome([Record(key, value) for key in keys[:count]], value)
            )

        commits = [commit(100, b"first"), commit(50, b"second"), commit(1, b"third")]
        assert [await answer_of(each) for each in commits] == [b"first", b"second", b"third"]
        assert [machine.state[key] for key in keys] == [b"third"] + [b"second"] * 49 + [b"first"] * 50

    run(tmp_path, test)
