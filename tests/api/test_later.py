"""Answers whose parts come at different times."""

import asyncio
from collections.abc import Iterable
from typing import Any

from kbroker.api.later import by_topic, then, together
from kbroker.control.coordinator.machine import Deferred
from kbroker.protocol.errors import ErrorCode, KafkaError


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


def test_parts_that_came_before_anyone_asked_are_enough() -> None:
    one = Deferred()
    one.complete(1)
    answer = together([one], whole)
    assert isinstance(answer, Deferred)
    assert answer.value == [1]


def test_parts_come_back_to_the_topics_they_were_asked_for() -> None:
    late = Deferred()
    answer = by_topic([("a", [1, late]), ("none", []), ("b", [3])], lambda name, parts: (name, parts), whole)
    assert isinstance(answer, Deferred)
    late.complete(2)
    assert answer.value == [("a", [1, 2]), ("none", []), ("b", [3])]


def test_an_answer_is_changed_when_it_comes_whatever_way_it_comes() -> None:
    async def awaited() -> int:
        return 1

    async def changed(answer: Any) -> Any:
        return await then(answer, str)

    late = Deferred()
    answer = then(late, str)
    late.complete(1)
    assert then(1, str) == answer.value == asyncio.run(changed(awaited())) == "1"


def test_an_error_stays_one_and_a_change_may_end_in_one() -> None:
    refusal = KafkaError(ErrorCode.INVALID_REQUEST)

    def refuse(_: Any) -> Any:
        raise refusal

    for value, step in ((refusal, str), (1, refuse)):
        late = Deferred()
        answer = then(late, step)
        late.complete(value)
        assert answer.value is refusal
