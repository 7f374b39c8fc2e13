"""The delay before a dead child is restarted. Pure: times are passed in."""

FIRST_MS = 20
MAX_MS = 1000
HEALTHY_MS = 1000


class BackOff:
    """Delay of one child: 0 after a long life, doubled after each short one.

    Runs in: acceptor. Owner: the supervisor's record of the child.
    """

    def __init__(self) -> None:
        self._delay_ms = 0

    def next_delay_ms(self, lived_ms: int) -> int:
        """Milliseconds to wait after the death of a child that has lived for `lived_ms`."""
        if lived_ms >= HEALTHY_MS:
            self._delay_ms = 0
        delay = self._delay_ms
        self._delay_ms = min(MAX_MS, max(FIRST_MS, self._delay_ms * 2))
        return delay
