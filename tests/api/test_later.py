"""Answers whose parts come at different times."""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from kbroker.api.later import AT_ONCE, by_topic, check_time, results_of, running, then, together
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.coordinator.running import Running
from kbroker.ipc.slicing import Slicing
from kbroker.protocol import slices
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import is_sliced
from tests.control.coordinator.runtime_scene import answer_of

COUNT = 800


def whole(found: Iterable[Any]) -> Any:
    return list(found)


def test_parts_that_are_all_there_make_the_answer_at_once() -> None:
    assert together([1, 2], whole) == [1, 2]
    assert together([], whole) == []


def test_the_answer_is_there_with_its_last_part_and_in_their_order() -> None:
    first, third, there = Deferred(), Deferred(), Deferred()
    there.complete("already")
    answer = together([first, 2, third, there], whole)
    assert isinstance(answer, Deferred)
    third.complete(3)
    assert not answer.done
    first.complete(1)
    assert answer.value == [1, 2, 3, "already"]


def test_parts_that_came_before_the_request_are_enough() -> None:
    one = Deferred()
    one.complete(1)
    answer = together([one], whole)
    assert isinstance(answer, Deferred)
    assert answer.value == [1]


def test_parts_are_returned_to_the_topics_of_the_request() -> None:
    late = Deferred()
    answer = by_topic([("a", [1, late]), ("none", []), ("b", [3])], lambda name, parts: (name, parts), whole)
    assert isinstance(answer, Deferred)
    late.complete(2)
    assert answer.value == [("a", [1, 2]), ("none", []), ("b", [3])]


def test_an_answer_is_changed_when_it_comes_whatever_way_it_comes() -> None:
    async def awaited() -> int:
        return 1

    async def changed() -> Any:
        return await answer_of(then(Running(awaited()), str))

    late = Deferred()
    answer = then(late, str)
    late.complete(1)
    assert then(1, str) == answer.value == asyncio.run(changed()) == "1"


def test_a_refusal_makes_its_own_answer_where_there_is_one() -> None:
    late = Deferred()
    answer = then(late, lambda found: [found], lambda error: error.code)
    late.complete(KafkaError(ErrorCode.INVALID_REQUEST))
    assert answer.value == [ErrorCode.INVALID_REQUEST]


def test_a_bug_in_a_change_is_the_answer_and_does_not_stop_the_sender() -> None:
    late = Deferred()
    answer = then(late, lambda found: found.gone)
    assert late.complete(1)
    assert isinstance(answer.value, AttributeError)


def test_a_bug_before_a_change_stays_the_answer() -> None:
    late, bug = Deferred(), RuntimeError("a bug")
    answer = then(late, str, lambda error: error.code)
    late.complete(bug)
    assert answer.value is bug


def test_a_long_answer_is_made_in_slices_not_where_its_last_part_comes_in() -> None:
    seen: list[bool] = []

    def make(found: Iterable[Any]) -> Any:
        seen.append(is_sliced())
        return list(found)

    def change(found: Any) -> Any:
        seen.append(is_sliced())
        return found

    async def scene() -> None:
        late = Deferred()
        answer = await Slicing().run(lambda: then(together([1, late], make), change))
        late.complete(2)
        assert not seen
        assert await answer_of(answer) == [1, 2]
        assert seen == [True, True]

    asyncio.run(scene())


def test_a_handler_that_always_waits_is_a_plain_function() -> None:
    @running
    async def handle(number: int) -> Any:
        return number + 1

    async def scene() -> None:
        assert isinstance(handle(1), Deferred)
        assert await answer_of(handle(1)) == 2

    assert not asyncio.iscoroutinefunction(handle)
    asyncio.run(scene())


def test_an_error_stays_one_and_a_change_may_end_in_one() -> None:
    refusal = KafkaError(ErrorCode.INVALID_REQUEST)

    def refuse(_: Any) -> Any:
        raise refusal

    for value, step in ((refusal, str), (1, refuse)):
        late = Deferred()
        answer = then(late, step)
        late.complete(value)
        assert answer.value is refusal


def test_results_and_coroutine_functions_keep_their_order_and_few_run_at_once() -> None:
    running_now, most = 0, 0

    async def doubled(number: int) -> int:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0)
        running_now -= 1
        return 2 * number

    numbers = range(4 * AT_ONCE)
    parts = (partial(doubled, number) if number % 2 else 2 * number for number in numbers)
    assert asyncio.run(results_of(parts)) == [2 * number for number in numbers]
    assert most == AT_ONCE


@pytest.mark.parametrize(
    ("timeout_ms", "has_changes", "refused"),
    [(0, True, True), (-1, True, True), (0, False, False), (1, True, False)],
)
def test_changes_without_time_are_refused(timeout_ms: int, has_changes: bool, refused: bool) -> None:
    """Not a request of which its own checks leave nothing."""
    late = pytest.raises(KafkaError, match="REQUEST_TIMED_OUT") if refused else nullcontext()
    with late:
        check_time(timeout_ms, lambda: has_changes)


def test_results_of_many_parts_are_taken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a hundred thousand transactions took 40 ms in one callback."""
    checks = 0

    def yield_slice() -> None:
        nonlocal checks
        checks += 1

    async def one(number: int) -> int:
        nonlocal checks
        checks = 0  # after the last part
        return number

    async def run() -> None:
        parts: list[Any] = [partial(one, number) for number in range(COUNT)]
        assert await Slicing().run_steps(results_of(parts)) == list(range(COUNT))

    monkeypatch.setattr(slices, "yield_slice", yield_slice)
    asyncio.run(run())
    assert checks >= COUNT // slices.CHECK_EVERY
