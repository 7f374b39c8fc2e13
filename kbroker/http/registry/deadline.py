"""A time limit for work on schemas, whose cost no bound on their size predicts well enough."""

from time import monotonic


class Deadline:
    """Begins when it is made. Owner: the work that it limits, which checks it between two steps."""

    __slots__ = ("_ends_s",)

    def __init__(self, seconds: float) -> None:
        self._ends_s = monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return monotonic() > self._ends_s
