"""The replicas of one partition with the real `Leading`, `Following` and logs; a test takes the
place of control and of the workers' loops."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from kbroker.io.append.drain import Drain
from kbroker.io.replication.following import Following
from kbroker.io.replication.leading import Leading
from kbroker.ipc.layout import Slot
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import Follow, Lead
from kbroker.ipc.shared import Shared, Sizes
from kbroker.log import files
from kbroker.protocol.records import read_batches
from tests.io.append.plain_append import Log
from tests.log.batch_bytes import batch

GENERATION = 7


class Seen(NamedTuple):
    """A replica as other processes see it. log: the leader epoch of each record; mark, epoch: its
    high watermark and leader epoch in the slot."""

    log: tuple[int, ...]
    mark: int
    epoch: int


class RealReplicas:
    """Replica n has slot n. All follow replica 0 in epoch 0."""

    def __init__(self, root: Path, count: int) -> None:
        sizes = Sizes(clients=1, workers=1, max_partitions=count + 1, ring_entries=8, arena_bytes=4096)
        self.shared = Shared(sizes)
        self._drain = Drain(self.shared, 0, producers=16)
        self._folders = [root / str(number) for number in range(count)]
        self._logs: list[Log] = []
        self._leading: list[Leading] = []
        self._following: list[Following] = []
        for number, folder in enumerate(self._folders):
            folder.mkdir(parents=True)
            self.shared.slots[number, Slot.GENERATION] = GENERATION
            self._logs.append(self._opened(number))
            self._begin(number)
        self.lead(0, 0, range(1, count))
        for number in range(1, count):
            self.follow(number, 0, 0)

    def _opened(self, number: int, known_mark: int | None = None) -> Log:
        row = self._drain.rows[number]
        log = Log(
            self._folders[number], slot=number, row=row, leads=False, replicated=True, known_mark=known_mark
        )
        log.words, log.producers = self.shared.slots[number], self._drain.producers
        log.open(clean=False, epoch=-1)
        return log

    def _begin(self, number: int) -> None:
        """The replica's worker begins, without a role."""
        logs: Any = SimpleNamespace(
            require=lambda slot: self._logs[slot].partition,
            get=lambda slot: self._logs[slot].partition,
            advance_log_starts=lambda starts: None,
            truncated=lambda slot: None,
        )
        durability: Any = SimpleNamespace(forget=lambda slot: None, flush=lambda slots: None)
        throttle: Any = SimpleNamespace(limits=lambda *_: [], holds=lambda *_: False)
        errors = LogDirErrors([str(self._folders[number])], self.shared)
        leading = Leading(self.shared, self._drain, logs, lambda slot: None)
        following = Following(self.shared, self._drain, logs, durability, throttle, errors)
        self._leading[number:] = [leading, *self._leading[number + 1 :]]
        self._following[number:] = [following, *self._following[number + 1 :]]

    # --- steps

    def lead(self, number: int, epoch: int, in_sync: Iterable[int]) -> bool:
        """Whether every member has the records that may have been acknowledged."""
        self._following[number].forget(number)
        others = tuple((slot, 0) for slot in range(len(self._logs)) if slot != number)
        return self._leading[number].lead(Lead(number, epoch, tuple(sorted(in_sync)), others, 1))

    def append(self, number: int) -> None:
        log = self._logs[number]
        before = self.mark(number)
        log.append(batch(0, [b"record"]))
        log.words[Slot.HIGH_WATERMARK] = before
        self._leading[number].appended([number])

    def advance(self, number: int) -> None:
        self._leading[number].advance()

    def follow(self, number: int, leader: int, epoch: int) -> None:
        """Agree with a leader, copy all that it has."""
        following, folder = self._following[number], str(self._logs[leader].folder)
        self._leading[number].forget(number)
        following.follow(Follow(number, epoch, leader, GENERATION, 0, folder))
        following.check()

    def kill(self, number: int) -> None:
        """The slot stays, and the log that it shows."""
        self._logs[number].partition.segments.close()

    def restart(self, number: int) -> None:
        self._logs[number] = self._opened(number, self.mark(number))
        self._begin(number)

    def close(self) -> None:
        for log in self._logs:
            log.partition.abandon()

    # --- what others see

    def mark(self, number: int) -> int:
        return int(self.shared.slots[number, Slot.HIGH_WATERMARK])

    def begun(self, number: int) -> int:
        """Where a leadership began."""
        return int(self.shared.slots[number, Slot.EPOCH_START])

    def seen(self, number: int) -> Seen:
        data = Path(files.path(str(self._logs[number].folder), 0, files.LOG)).read_bytes()
        epochs = tuple(found.partition_leader_epoch for found in read_batches(data))
        words = self.shared.slots[number]
        assert words[Slot.LOG_END] == len(epochs)
        return Seen(epochs, self.mark(number), int(words[Slot.LEADER_EPOCH]))
