"""An IO worker whose parts note their calls."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io import worker
from kbroker.io.append.rows import Drained
from kbroker.io.worker import Worker
from kbroker.ipc import connecting
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.shared import Shared, Sizes

RING = 8
SLOT = 3
NOW_MS = 50_000
LATER = 1 << 62


class Part:
    """A part of the worker: notes the calls of its methods. answers: their results, by name; other
    methods return None. Any other attribute is given to it."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], **given: Any) -> None:
        self._name, self._calls = name, calls
        self.answers: dict[str, Any] = {}
        vars(self).update(given)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._calls.append((f"{self._name}.{method}", *arguments))
            return self.answers.get(method)

        return call


class Scene:
    """A worker with noted parts; its sleeper and its shared memory are real."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.shared = Shared(
            Sizes(clients=1, workers=1, max_partitions=4, ring_entries=RING, arena_bytes=4096, log_dirs=1)
        )
        self.sockets = connecting.make()
        context: Any = SimpleNamespace(
            shared=self.shared, index=0, process=self.shared.worker_process(0), epoch=5, first_start=True,
            config=BrokerConfig({"log.dirs": str(root)}), control_sockets=self.sockets,
            log_dirs=(str(root),), clean_dirs=frozenset(), same_boot_dirs=frozenset(), closed_logs={},
        )  # fmt: skip
        self.now_ms = NOW_MS
        monkeypatch.setattr(worker, "monotonic_ms", lambda: self.now_ms)
        self.worker = Worker(context)
        self.real_drain, self.real_durability = self.worker.drain, self.worker.durability
        self.out = Drained.row()
        self.drain = self._part("drain", waiting=lambda: 0, blocked=False, out=self.out)
        self.drain.answers = {"run": 0, "wait": 0, "touched_slots": [SLOT], "failures": [], "notify": 0}
        self.replicas = self._part("replicas", active=False, begin=None)
        self.replicas.leading = Part("leading", self.calls)
        self.logs = self._part("logs", count=0)
        self.logs.failures = Part("failures", self.calls)
        self.durability = self._part("durability", unanswered=False)
        self.moves = self._part("moves", count=0)
        self.housekeeping = self._part("housekeeping", next_due_ms=LATER)
        self.link = self._part("link", connected=True)
        self.link.answers = {"connect": True}
        self.commands = self._part("commands")
        self.held = self._part("held", unanswered=False)
        for name in ("handles", "deletions", "log_start_replies", "cleaning"):
            self._part(name)

    def _part(self, name: str, **given: Any) -> Any:
        part = Part(name, self.calls, **given)
        setattr(self.worker, name, part)
        return part

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]

    @property
    def announced(self) -> bool:
        return bool(self.shared.processes[self.shared.worker_process(0), ProcessLine.SLEEPING])

    def drained(self, taken: int = 0, **words: int) -> bool:
        """One drain with this result; returns whether there may be more."""
        for name, value in words.items():
            self.out[getattr(Drained, name)] = value
        self.out[Drained.LEFT] = bool(words)
        self.drain.answers["run"] = taken
        return self.worker._append()

    def waits(self) -> list[tuple[Any, ...]]:
        """When other work is due, and the end, of each wait; forgets all calls."""
        found = [call[1:] for call in self.calls if call[0] == "drain.wait"]
        self.calls.clear()
        return found
