"""Counted opcodes follow the work, not the clock."""

import sys
import time
from functools import partial

import pytest

from tests.opcodes import opcodes


def squares(count: int) -> None:
    for number in range(count):
        number * number


def test_a_loop_of_twice_the_turns_takes_twice_the_opcodes() -> None:
    one, two, three = (opcodes(partial(squares, count)) for count in (1_000, 2_000, 3_000))
    assert one > 1_000
    assert two - one == three - two


def test_time_that_passes_counts_nothing() -> None:
    assert opcodes(lambda: time.sleep(0.05)) == opcodes(lambda: time.sleep(0))


def test_a_failure_ends_the_count() -> None:
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        opcodes(lambda: 1 // 0)
    assert sys.gettrace() is before
