"""A leader's log, its follower's, and the worker that copies."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.io.append.drain import Drain
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.io.replication.following import Following
from kbroker.ipc.layout import Slot
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import Follow
from kbroker.ipc.shared import Shared, Sizes
from tests.io.append.plain_append import Log, topic_config
from tests.log.batch_bytes import batch

LEADER, OWN = 0, 1
GENERATION = 7


class Scene:
    """A leader's log in slot 0, its follower's in slot 1, both of epoch 1, and the worker that
    copies."""

    def __init__(self, root: Path, flags: int = 0, **settings: object) -> None:
        self.shared = Shared(Sizes(clients=1, workers=1, max_partitions=4, ring_entries=8, arena_bytes=4096))
        self.drain = Drain(self.shared, 0, producers=16)
        self.limits: list[tuple[int, int]] = []
        self.held = False
        self.failed: list[OSError] = []
        self.starts: dict[int, int] = {}
        self.flushed: list[tuple[int, ...]] = []
        self.forgotten: list[int] = []
        self.lowered: list[int] = []
        self.now_ns = 1_000_000_000
        config = topic_config(**settings)
        self.leader = self._log(root / "leader", LEADER, flags, config)
        self.own = self._log(root / "own", OWN, flags, config)
        self.own.partition.role.follow(-1)
        logs: Any = SimpleNamespace(
            require=lambda slot: self.own.partition,
            get=self._get,
            failures=SimpleNamespace(log_failed=lambda slot, error: self.failed.append(error)),
            advance_log_starts=self.starts.update,
            truncated=self.lowered.append,
        )
        durability: Any = SimpleNamespace(forget=self.forgotten.append, flush=self.flushed.append)
        throttle: Any = SimpleNamespace(
            limits=lambda *_: self.limits, holds=lambda *_: self.held, copied=lambda *_: None
        )
        self.errors = LogDirErrors([str(root / "leader"), str(root / "own")], self.shared)
        self.following = Following(self.shared, self.drain, logs, durability, throttle, self.errors)

    def _log(self, root: Path, slot: int, flags: int, config: Any) -> Log:
        root.mkdir()
        log = Log(root, config, flags=flags, slot=slot, row=self.drain.rows[slot], replicated=True)
        log.words, log.producers = self.shared.slots[slot], self.drain.producers
        log.words[Slot.FLAGS] = flags
        log.words[Slot.GENERATION] = GENERATION
        log.open(epoch=1)
        return log

    def _get(self, slot: int) -> UnifiedLog:
        return self.own.partition

    def write(self, *values: bytes, to: Log | None = None) -> None:
        for value in values:
            (to or self.leader).append(batch(0, [value]))

    def mark(self, offset: int) -> None:
        """The leader's high watermark."""
        self.leader.partition.role.publish_high_watermark(offset)

    def follow(self, epoch: int = 1, generation: int = GENERATION) -> None:
        folder = str(self.leader.folder)
        self.following.follow(Follow(OWN, epoch, LEADER, generation, 0, folder))

    def check(self, later_ns: int = 0) -> None:
        self.now_ns += later_ns
        self.following.check()

    @property
    def end(self) -> int:
        return int(self.shared.slots[OWN, Slot.LOG_END])

    @property
    def high_watermark(self) -> int:
        return int(self.shared.slots[OWN, Slot.HIGH_WATERMARK])

    def files(self, log: Log) -> list[tuple[str, bytes]]:
        return sorted((path.name, path.read_bytes()) for path in log.folder.glob("*.log"))

    def assert_equal(self) -> None:
        own_part, its = self.files(self.own), self.files(self.leader)
        assert b"".join(data for _, data in own_part) == b"".join(data for _, data in its)
        assert self.end == self.leader.partition.log_end
