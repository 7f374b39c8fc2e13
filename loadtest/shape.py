"""Shapes of a load: the wanted records per second at each moment, and the open schedule of a
shape."""

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

SPIKE_EVERY_S = 30.0
SPIKE_LASTS_S = 5.0
SPIKE_FACTOR = 4.0
WAVE_S = 60.0
STEP_NS = 100_000_000  # the edges of a spike lie on whole steps
EXACT = 1e-9  # sums of shares of a record are off by less

Shape = Callable[[float, float], float]  # (second of the run, seconds of the run) -> share of the rate


def steady(_at_s: float, _of_s: float) -> float:
    return 1.0


def ramp(at_s: float, of_s: float) -> float:
    """A load that grows from 0 to twice the rate, so that the rate is its mean."""
    return 2.0 * min(max(at_s / of_s, 0.0), 1.0)


def spike(at_s: float, _of_s: float) -> float:
    """Every 30 s, 5 s of four times the rate."""
    return SPIKE_FACTOR if at_s % SPIKE_EVERY_S >= SPIKE_EVERY_S - SPIKE_LASTS_S else 1.0


def peaks(at_s: float, _of_s: float) -> float:
    """Peak shaving: waves of a minute between nothing and twice the rate, while consumers take the
    mean at most."""
    return 1.0 - math.cos(2 * math.pi * at_s / WAVE_S)


SHAPES: dict[str, Shape] = {"steady": steady, "ramp": ramp, "spike": spike, "peaks": peaks}


class Schedule:
    """Records that are due, with their intended times. The caller passes the time.

    Open model: what could not be sent in time stays due, with its old time. Without a rate (0)
    everything is due at once: the closed model, as fast as the client lets. from_ns: nothing is due
    before it, in a run that began at begin_ns; for a producer that is started later.
    """

    def __init__(
        self, rate: float, shape: Shape, begin_ns: int, seconds: float, from_ns: int | None = None
    ) -> None:
        self._rate = rate
        self._shape = shape
        self._begin_ns = begin_ns
        self._seconds = seconds
        self._until_ns = begin_ns if from_ns is None else max(begin_ns, from_ns)
        self._fraction = 0.0
        self._due: deque[tuple[int, int, int]] = deque()  # from_ns, to_ns, records
        self.waiting = 0

    def advance(self, now_ns: int) -> None:
        """Adds what has become due since the last call; a clock that goes back adds nothing."""
        if self._rate == 0:
            return
        while self._until_ns < now_ns:
            step_ns = STEP_NS - (self._until_ns - self._begin_ns) % STEP_NS
            self._add(min(now_ns, self._until_ns + step_ns))

    def _add(self, to_ns: int) -> None:
        """Up to a time in the same step: at the rate that the shape has in the middle."""
        from_ns, self._until_ns = self._until_ns, to_ns
        middle_s = ((from_ns + to_ns) // 2 - self._begin_ns) / 1e9
        rate = self._rate * self._shape(middle_s, self._seconds)
        before, due = self._fraction, self._fraction + rate * (to_ns - from_ns) / 1e9
        records = int(due + EXACT)
        self._fraction = due - records
        if records:
            begin_ns = from_ns - round(before / rate * 1e9)  # of the record that is due in part
            self._due.append((begin_ns, begin_ns + round(records / rate * 1e9), records))
            self.waiting += records

    def take(self, limit: int, now_ns: int) -> npt.NDArray[np.int64]:
        """Intended times (ns) of at most `limit` records that are due, oldest first; they are due
        no more."""
        if self._rate == 0:
            return np.full(limit, now_ns, np.int64)
        taken = []
        while limit > 0 and self._due:
            begin, end, records = self._due.popleft()
            now = min(records, limit)
            split = begin + (end - begin) * now // records
            taken.append(begin + (split - begin) * np.arange(1, now + 1, dtype=np.int64) // now)
            if now < records:
                self._due.appendleft((split, end, records - now))
            limit -= now
            self.waiting -= now
        return np.concatenate(taken) if taken else np.empty(0, np.int64)
