"""Follows a move while MirrorMaker 2 copies: progress, lag, and the time to switch the clients."""

import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.mirror.plan import Plan
from kbroker.cli.mirror.positions import Positions, left_to_copy
from kbroker.cli.partitions import Partition, earliest, latest
from kbroker.config.counts import counted
from kbroker.protocol.errors import ErrorCode

IN_STEP_RECORDS = 1000
IN_STEP_S = 5.0
MAX_TRIES = 10
PAUSE_S = 0.5
TRANSIENT = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
Say = Callable[[str], None]


class Running(Protocol):
    """The copying process."""

    def check(self) -> None:
        """Raises if it has ended."""


class Follower(Struct):
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
    source: Connection,
    target: Connection,
    plan: Plan,
    engine: Running,
    follower: Follower,
    every_s: float,
    renew: Callable[[Plan], Plan],
) -> None:
    """Returns when the source is idle and fully copied. renew: the plan with all topics and
    partitions that the source has now. Raises CommandFailed if the copying process ends."""
    positions = Positions(target)
    first: dict[Partition, int] = {}
    failures = 0
    try:
        while True:
            engine.check()
            try:
                plan = renew(plan)
                starts = earliest(source, source.admin(), plan.partitions)
                ends = latest(source, source.admin(), plan.partitions, committed=True)
                copied = positions.read()
            except CommandFailed as failure:
                # A topic was created or deleted a moment ago, or has a new leader, and not every
                # broker has learned of it.
                failures += 1
                if failures > MAX_TRIES or failure.error not in TRANSIENT:
                    raise
                time.sleep(PAUSE_S)
                continue
            failures = 0
            first = {partition: first.get(partition, plan.starts[partition]) for partition in ends}
            # Retention may remove records before they are copied: the present starts count.
            left = left_to_copy(source, starts, ends, copied)
            if follower.observe(first, ends, left, time.monotonic()):
                return
            time.sleep(every_s)
    finally:
        positions.close()
