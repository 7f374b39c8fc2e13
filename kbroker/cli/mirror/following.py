"""Follows a move while MirrorMaker 2 copies: progress, lag, and the time to switch the clients."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kbroker.cli.connection import Connection
from kbroker.cli.mirror.plan import Plan
from kbroker.cli.mirror.positions import Positions, left_to_copy
from kbroker.cli.partitions import Partition, latest
from kbroker.cli.sizes import counted

IN_STEP_RECORDS = 1000
IN_STEP_S = 5.0
Say = Callable[[str], None]


class Running(Protocol):
    """The copying process."""

    def check(self) -> None:
        """Raises if it has ended."""


@dataclass
class Follower:
    """Decides from ends and positions. Pure: the caller passes numbers and the time."""

    source: str
    quiet_s: float
    say: Say
    done: int = 0
    total: int = 0
    rate: float = 0.0
    in_step: bool = False
    _before: tuple[float, int] | None = None
    _ends: dict[Partition, int] = field(default_factory=dict)
    _quiet_since: float = 0.0

    def observe(
        self,
        starts: dict[Partition, int],
        ends: dict[Partition, int],
        left: dict[Partition, int],
        now_s: float,
    ) -> bool:
        """Take new numbers; returns whether the source is idle and fully copied."""
        lag = sum(left.values())
        self.total = sum(ends[partition] - starts[partition] for partition in ends)
        self.done = self.total - lag
        if self._before is not None and now_s > self._before[0]:
            self.rate = max(self.done - self._before[1], 0) / (now_s - self._before[0])
        self._before = (now_s, self.done)
        if ends != self._ends:
            self._ends, self._quiet_since = dict(ends), now_s
        quiet_s = now_s - self._quiet_since
        self.say(self._line(lag, len(left), len(ends)))
        if not self.in_step and lag <= max(IN_STEP_RECORDS, self.rate * IN_STEP_S):
            self.in_step = True
            self.say(
                f"in step, {lag:,} behind. Stop the producers of {self.source} now, then its consumers. "
                f"This waits until nothing was written there for {self.quiet_s:g} s"
            )
        return not left and quiet_s >= self.quiet_s

    def _line(self, lag: int, behind: int, partitions: int) -> str:
        share = 100 * self.done / self.total if self.total else 100.0
        text = f"{self.done:,} of {self.total:,} copied ({share:.1f} %), {self.rate:,.0f}/s, lag {lag:,}"
        if behind:
            text += f" in {behind} of {counted(partitions, 'partition')}"
        if lag and self.rate:
            text += f", {lag / self.rate:,.0f} s left"
        return text


def follow(
    source: Connection, target: Connection, plan: Plan, engine: Running, follower: Follower, every_s: float
) -> None:
    """Returns when the source is idle and fully copied. Raises CommandFailed if the copying process
    ends."""
    positions = Positions(target)
    try:
        while True:
            engine.check()
            partitions = plan.partitions
            ends = latest(source, source.admin(), partitions, committed=True)
            left = left_to_copy(source, plan.starts, ends, positions.read())
            if follower.observe(plan.starts, ends, left, time.monotonic()):
                return
            time.sleep(every_s)
    finally:
        positions.close()
