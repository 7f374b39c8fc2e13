"""The schedule of a producer that the run started, or that replaces another in the middle of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.players.producing import schedule_of

SECOND = 1_000_000_000


@pytest.mark.parametrize(("started_s", "records"), [(97, 15), (100, 15), (120, 35)])
def test_a_replaced_producer_continues_the_shape_of_the_run(started_s: int, records: int) -> None:
    """A ramp of 60 s from 0 to 2 records a second, from second 100 on."""
    part: Any = SimpleNamespace(rate=1.0, begin_ns=100 * SECOND)
    settings = SimpleNamespace(shape="ramp", seconds=60.0)
    clock = SimpleNamespace(now_ns=lambda: started_s * SECOND)
    player: Any = SimpleNamespace(settings=settings, clock=clock)
    schedule = schedule_of(part, player)
    assert schedule.waiting == 0
    schedule.advance(max(started_s, 100) * SECOND + 30 * SECOND)
    assert schedule.waiting == records
