"""The explorer visits every state, and reports the shortest way to what breaks a promise."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.models.explorer import Violation, explore


@dataclass
class Jugs:
    """Two jugs of 3 and 5 litres, and a tap. refused: litres that the larger jug is never to
    hold."""

    refused: int = -1
    promises: Mapping[str, Callable[[tuple[int, int]], bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.promises = {"the larger jug does not hold it": lambda jugs: jugs[1] != self.refused}

    def starts(self) -> Iterator[tuple[int, int]]:
        yield 0, 0

    def steps(self, state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        small, large = state
        yield "fill small", (3, large)
        yield "fill large", (small, 5)
        yield "empty small", (0, large)
        yield "empty large", (small, 0)
        over = min(small, 5 - large)
        yield "small into large", (small - over, large + over)
        over = min(3 - small, large)
        yield "large into small", (small + over, large - over)

    def is_end(self, state: tuple[int, int]) -> bool:
        return state == (0, 0)


def test_every_state_is_visited_once() -> None:
    found = explore(Jugs())
    assert found.states == 16  # one jug is empty or full in each: 2 * (4 + 6) - 4
    assert found.transitions == 6 * 16


def test_the_shortest_way_to_a_broken_promise_is_shown() -> None:
    with pytest.raises(Violation) as broken:
        explore(Jugs(refused=4))
    assert broken.value.steps == [
        "fill large",
        "large into small",
        "empty small",
        "large into small",
        "fill large",
        "large into small",
    ]
    assert "broken: the larger jug does not hold it" in str(broken.value)


class Stuck(Jugs):
    """A jug that is never emptied again."""

    def steps(self, state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        yield "fill small", (3, state[1])


def test_a_state_without_a_way_to_an_end_is_a_violation() -> None:
    with pytest.raises(Violation, match="an end stays in reach") as broken:
        explore(Stuck())
    assert broken.value.steps == ["fill small"]


def test_too_many_states_are_an_error() -> None:
    with pytest.raises(OverflowError):
        explore(Jugs(), max_states=5)
