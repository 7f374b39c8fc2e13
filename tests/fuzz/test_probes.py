"""Probes count blocks and operands that were passed, and change nothing else of a module."""

import builtins
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.guided import probes as module
from tests.fuzz.guided.probes import Probes, Seen

SOURCE = '''
"""A module."""

CONSTANT = 7 if __name__ else 8


def kind(number):
    """Its docstring."""
    if number > 10 and number % 2:
        return "odd and large"
    for _ in range(number):
        pass
    try:
        return "magic" if number == 5 else [][number]
    except IndexError:
        match number:
            case 0:
                return b"none at all"
            case _:
                return number or 70000
'''


@pytest.fixture
def probes() -> Iterator[Probes]:
    """Probes whose names are known to the code that they are in."""
    made = Probes()
    names = {
        module._COUNTS: made.counts,
        module._NEXT: module._NEXT_COUNT,
        module._SET: made.counts.__setitem__,
    }
    for name, value in names.items():
        setattr(builtins, name, value)
    yield made
    for name in names:
        delattr(builtins, name)


def kind_of(probes: Probes) -> Any:
    names: dict[str, Any] = {"__name__": "some"}
    exec(probes.code(SOURCE, "some.py", "some"), names)
    return names["kind"]


def passed(probes: Probes, kind: Any, number: int) -> set[int]:
    probes.clear()
    kind(number)
    return set(probes.passed()[0].tolist())


def test_a_function_with_probes_returns_the_same(probes: Probes) -> None:
    plain: dict[str, Any] = {"__name__": "some"}
    exec(SOURCE, plain)
    kind = kind_of(probes)
    assert [kind(n) for n in range(20)] == [plain["kind"](n) for n in range(20)]
    assert kind.__doc__ == "Its docstring."


def test_each_branch_has_a_probe_of_its_own(probes: Probes) -> None:
    kind = kind_of(probes)
    ways = [passed(probes, kind, number) for number in (0, 3, 5, 11, 12)]
    assert len({frozenset(way) for way in ways}) == len(ways)
    assert set.union(*ways) < set(range(len(probes.places))), "number is never false where it is returned"


def test_counts_make_a_difference_by_their_size(probes: Probes) -> None:
    kind, seen = kind_of(probes), Seen()
    found = []
    for number in (1, 1, 2, 9, 10, 300):
        probes.clear()
        kind(number)
        found.append(seen.add(probes.passed()))
    assert found[0][0] > 0
    assert found[1] == (0, 0)
    assert found[2] == (0, 1), "the loop ran twice"
    assert found[3] == (0, 1)
    assert found[4] == (0, 0), "9 and 10 rounds are the same"
    assert seen.among(probes.of(["some"])) == sum(bits > 0 for bits in seen.bits.tolist())


def test_words_of_functions_are_a_dictionary(probes: Probes) -> None:
    kind_of(probes)
    assert {b"magic", b"none at all", (70000).to_bytes(4, "big"), b"\x0a"} <= probes.words["some"]


def test_lines_of_tracebacks_stay(probes: Probes) -> None:
    code = probes.code("def f():\n    'text'\n    x = 1\n    return x if x else 1 / 0 or x\n", "f.py", "f")
    lines = {
        line for const in code.co_consts if hasattr(const, "co_lines") for _, _, line in const.co_lines()
    }
    assert lines <= {None, 1, 2, 3, 4}
