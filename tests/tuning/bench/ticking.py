"""A clock that advances with each look."""

from collections.abc import Callable


def ticking(step: float) -> Callable[[], float]:
    """A clock that moves by `step` each time it is read."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += step
        return now

    return clock
