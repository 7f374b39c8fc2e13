"""Housekeeping over real logs, for its tests."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.io.housekeeping import Housekeeping
from kbroker.io.partition.deletions import Deletions
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Counter
from kbroker.metrics.slots import private
from tests.io.node import Node


class Scene:
    """Housekeeping over real logs. The scene stands for the other helpers of a worker and notes
    what they are asked."""

    count = 0

    def __init__(self, root: Path, logs: int, config: TopicConfig | None = None, begins_ms: int = 0) -> None:
        self.node = Node(root, logs, config)
        self.syncs: list[tuple[str, list[int]]] = []
        self.looked_at: list[int] = []
        self.reservations_freed_at: list[int] = []
        self.expired: list[int] = []
        self.deletions = Deletions()
        self.expiring = set[int]()
        self.starts: dict[int, int] = {}
        self.advance_log_starts = self.starts.update
        helper: Any = self
        self.reservations = self.recovery_notes = self.failures = self.full_disks = helper
        drain: Any = SimpleNamespace(
            producers=helper, metrics=private(), rows=self.node.rows, counters=Counter.table(logs)
        )
        self.metrics = drain.metrics
        self.housekeeping = Housekeeping(BrokerConfig(), helper, drain, helper, helper, begins_ms)

    @property
    def slots_used(self) -> int:
        return len(self.node.rows)

    def run(self, now_ms: int) -> None:
        """The turns for which tasks are due at a time."""
        self.housekeeping.run(now_ms)
        while any(task.due_ms <= now_ms for task in self.housekeeping._tasks):
            self.housekeeping.run(now_ms)

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(self.node)

    def nothing(self) -> None: ...

    collecting_checkpoint = False
    write = begin_checkpoint = take_checkpoint = check_dirs = heal = measure = write_checkpoints = nothing

    def free_unused(self, now_ms: int) -> None:
        self.reservations_freed_at.append(now_ms)

    def sweep_deleted(self, delay_ms: int) -> None:
        assert delay_ms == 60_000  # log.segment.delete.delay.ms

    def get(self, slot: int) -> UnifiedLog | None:
        self.looked_at.append(slot)
        return self.node.get(slot)

    def flush_now(self, slots: Iterable[int]) -> None:
        self._ask("now", slots)

    def flush_rolled(self, slots: Iterable[int]) -> None:
        self._ask("rolled", slots)

    expiration_ms = 0

    def expire(self, before_ms: int) -> list[int]:
        self.expired.append(before_ms)
        return [0, 7]

    def _ask(self, what: str, slots: Iterable[int]) -> None:
        if expected := list(slots):
            self.syncs.append((what, expected))
