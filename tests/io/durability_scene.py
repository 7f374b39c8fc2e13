"""A drain of a durable slot, and the durability behind it with syncs that a test delays."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kbroker.io.durability import Durability
from kbroker.io.group_commit import RECORD
from kbroker.io.partition.log_durability import FlushJob
from kbroker.ipc.layout import Completion, Slot, SlotFlag
from kbroker.ipc.ring import ring_push
from tests.io.append.drain_case import CAPACITY, DrainCase, batch


class SlowDisk(FlushJob):
    """A sync that lasts until the test lets it end."""

    def run(self) -> None:
        FakeLogs.started.set()
        assert FakeLogs.gate.wait(60)
        FakeLogs.synced.append(self.next_offset)
        self.close()
        if FakeLogs.gone == self.folder:
            raise OSError(FakeLogs.number, "sync", self.folder)


class FakeLogs:
    """The part of Logs that Durability uses, with one partition whose syncs a test delays."""

    started = threading.Event()
    gate = threading.Event()
    synced: ClassVar[list[int]] = []
    gone, number = "", errno.ENOENT

    def __init__(self, case: DrainCase) -> None:
        self._case = case
        self.folder = "folder"
        FakeLogs.gone, FakeLogs.number = "", errno.ENOENT
        self.failures = self
        self.offline_listeners: list[Callable[[int], None]] = []
        self.moved_listeners: list[Callable[[int, str], None]] = []
        self.configured_listeners: list[Callable[[Any], None]] = []
        self.failed: list[tuple[str, int]] = []
        self.not_begun: list[int] = []
        """Errors of the next syncs when they are to begin."""
        self.rolled_only: list[bool] = []
        FakeLogs.started, FakeLogs.gate, FakeLogs.synced = threading.Event(), threading.Event(), []

    def get(self, slot: int) -> "FakeLogs | None":
        return self if slot == self._case.slot else None

    @property
    def durability(self) -> "FakeLogs":
        return self

    def begin(self, rolled_only: bool = False) -> FlushJob:
        self.rolled_only.append(rolled_only)
        if self.not_begun:
            raise OSError(self.not_begun.pop(0), "begin", self.folder)
        return SlowDisk(self.folder, (), -1, int(self._case.words[Slot.LOG_END]), 0, 0)

    def finish(self, job: FlushJob) -> None:
        self._case.words[Slot.DURABLE] = job.next_offset
        self._case.words[Slot.HIGH_WATERMARK] = job.next_offset

    def require(self, slot: int) -> "FakeLogs":
        found = self.get(slot)
        assert found is not None
        return found

    def log_failed(self, slot: int, error: OSError) -> None:
        self.failed.append((f"slot {slot}", error.errno or 0))

    def sync_failed(self, folder: str, number: int) -> None:
        self.failed.append((folder, number))

    def move(self) -> None:
        """To another log dir."""
        left, self.folder = self.folder, "elsewhere"
        for listener in self.moved_listeners:
            listener(self._case.slot, left)


class Scene:
    """A drain of a durable slot and the durability behind it."""

    def __init__(self, folder: Path) -> None:
        self.case = DrainCase(folder)
        self.case.words[Slot.FLAGS] = SlotFlag.DURABLE
        self.logs = FakeLogs(self.case)
        self.synced: list[int] = []
        self.notify_again: list[int] = []
        self.durability = Durability(
            self.case.shared, self.case.drain, self.logs, self.notify_again.append, [self.synced.append]
        )

    def append(self, records: int = 1) -> int:
        """One acks=all produce through the drain; its token."""
        token = self.case.push(batch(records=records), acks=-1)
        self.case.drain.run()
        self.durability.flush([self.case.slot])
        return token

    def fill_ring(self, client: int) -> None:
        """Leave no room in a client's completion ring."""
        ring = self.case.shared.completion_ring(client, 0)
        while ring_push(ring, CAPACITY, np.zeros(Completion.STRIDE // 8, np.int64)):
            pass

    def report(self, error: int) -> None:
        """The end of a plain sync, which the kernel begins and a thread makes."""
        os.write(self.durability._commit._results_write, RECORD.pack(-1 - self.case.slot, error, 1000))
        self.durability.take_flushed()

    def finish_sync(self) -> None:
        """Let syncs end, and take the next result."""
        self.logs.gate.set()
        self.durability.wait()
        self.durability.take_flushed()
