"""Three open logs of an IO worker, in two log dirs."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.append.drain import Drain
from kbroker.io.files.log_dir import LogDir
from kbroker.io.logs import Logs
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.shared import Shared, Sizes
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.io.append.plain_append import Log
from tests.log.batch_bytes import batch

EMPTY = 7  # a slot without a log
WAIT_S = 60


class ThreeLogs:
    """Logs of three records: two in log dir "a", in slots 0 and 1, and one in "b", in slot 2.
    interrupted: set when a thread has something for the loop."""

    def __init__(self, root: Path) -> None:
        self.paths = [str(root / name) for name in "ab"]
        for path in self.paths:
            Path(path).mkdir()
        self.shared = Shared(
            Sizes(clients=1, workers=1, max_partitions=8, ring_entries=8, arena_bytes=4096, log_dirs=2)
        )
        context: Any = SimpleNamespace(
            shared=self.shared, first_start=True, index=0, log_dirs=tuple(self.paths),
            clean_dirs=frozenset(), same_boot_dirs=frozenset(), closed_logs={},
            config=SimpleNamespace(log_dirs=tuple(self.paths), get_int=lambda name: 1),
        )  # fmt: skip
        self.drain = Drain(self.shared, 0, producers=16)
        self.interrupted = threading.Event()
        self.logs = Logs(context, self.drain, self.interrupted.set)
        self.gone: list[int] = []
        self.logs.failures.offline_listeners.append(self.gone.append)
        self.opened = [self._open(slot, self.paths[slot // 2]) for slot in range(3)]
        self.errors = LogDirErrors(self.paths, self.shared)

    def _open(self, slot: int, log_dir: str) -> Log:
        log = Log(Path(log_dir), slot=slot, row=self.drain.rows[slot], topic=f"t{slot}")
        log.words, log.producers = self.shared.slots[slot], self.drain.producers
        log.open()
        for _ in range(3):
            log.append(batch(0, [b"v"]))
        self.logs._partitions[slot] = log.partition
        return log

    @property
    def states(self) -> list[int]:
        return [int(self.shared.slots[slot, Slot.STATE]) for slot in range(3)]

    def refusal(self, slot: int) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.logs.require(slot)
        return refused.value.code

    def delete_records(self, slot: int, offset: int) -> int:
        """As the loop does when it has no other work: the log start is on disk afterwards."""
        start = self.logs.delete_records(slot, offset)
        self.logs.begin_log_starts(self.logs.log_dir_of(slot), [slot])
        self.wait_for_log_starts()
        return start

    def wait_for_log_starts(self) -> None:
        while not all(self.logs.take_log_starts(path) for path in self.paths):
            assert self.interrupted.wait(WAIT_S)
            self.interrupted.clear()

    def starts(self, log_dir: str) -> dict[tuple[str, int], int]:
        return LogDir(log_dir).log_start_offsets()


A_IS_OFFLINE = [SlotState.OFFLINE, SlotState.OFFLINE, SlotState.ONLINE]
ALL_ONLINE = [SlotState.ONLINE] * 3
