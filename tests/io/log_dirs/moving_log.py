"""A log of an IO worker, its moves between log dirs, and control's side of them."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.moves import Moves
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.move_messages import BeginMove, MoveCaughtUp, SwitchMove
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import batch

SLOT, GENERATION = 3, 7


class OneLog:
    """What the moves need of `Logs`: one open log in the first of three log dirs."""

    def __init__(self, root: Path) -> None:
        self.dirs = [str(root / name) for name in "abc"]
        for path in self.dirs:
            Path(path).mkdir(exist_ok=True)
        self.log = Log(Path(self.dirs[0]), topic_config(segment_bytes=700))
        self.log.open()
        self.log.words[Slot.GENERATION] = GENERATION
        for _ in range(20):
            self.append()
        self.lost: list[tuple[int, str, OSError]] = []
        self.left, self.failed = list[str](), dict[str, int]()
        self.failed_dirs, self.unreadable = list[tuple[str, int]](), list[tuple[int, int]]()
        self.failures: Any = SimpleNamespace(
            offline_listeners=[],
            log_lost=lambda *failure: self.lost.append(failure),
            of=lambda log_dir: self.failed.get(log_dir, 0),
            dir_failed=lambda log_dir, error: self.failed_dirs.append((log_dir, error.errno)),
            read_failed=lambda slot, error: self.unreadable.append((slot, error.errno)),
        )
        checkpoints = OffsetCheckpoints({path: LogDir(path) for path in self.dirs}, self._not_written)
        self.checkpoint_copy = lambda _, log_dir: checkpoints.write_copy(self.partition, log_dir)

    def _not_written(self, log_dir: str, error: OSError) -> None:
        raise AssertionError((log_dir, error))

    @property
    def partition(self) -> UnifiedLog:
        return self.log.partition

    def append(self) -> None:
        self.log.append(batch(0, [b"value" * 10], [NOW]))

    def require(self, slot: int) -> UnifiedLog:
        assert slot == SLOT
        return self.partition

    def leave(self, slot: int) -> None:
        assert slot == SLOT
        self.left.append(self.partition.folder)

    def relocate(self, slot: int, folder: str, now_ms: int) -> None:
        assert slot == SLOT
        self.partition.relocate(folder, 0, now_ms)


class Case:
    """A log and its moves, and control's side of them."""

    def __init__(self, root: Path) -> None:
        self.logs = OneLog(root)
        self.here, self.there, self.elsewhere = self.logs.dirs
        self.woken: list[tuple[int, str]] = []
        self.moves = Moves(self.logs, BrokerConfig, lambda slot: self.woken.append((slot, self.folder)))
        self.reported: list[object] = []

    def begin(self, log_dir: str | None = None) -> None:
        self.moves.begin(BeginMove(SLOT, GENERATION, log_dir or self.there))

    def caught_up(self) -> MoveCaughtUp:
        deadline = time.monotonic() + 60
        while True:
            self.reported.clear()
            self.moves.report(self.reported.append)
            if self.reported:
                assert isinstance(self.reported[0], MoveCaughtUp), self.reported
                return self.reported[0]
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def switch(self) -> None:
        self.caught_up()
        assert self.moves.switch(SwitchMove(SLOT, GENERATION))

    def futures(self, log_dir: str | None = None) -> list[Path]:
        return list(Path(log_dir or self.there).glob("*-future"))

    @property
    def folder(self) -> str:
        return self.logs.partition.folder

    def is_online(self) -> bool:
        return bool(self.logs.partition.published.words[Slot.STATE] == SlotState.ONLINE)
