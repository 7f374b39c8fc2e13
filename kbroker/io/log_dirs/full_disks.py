"""Logs whose appends are refused because their disk is full or no file descriptors are left, until
there is space again.
"""

import logging
from collections.abc import Callable, Mapping

from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import AppendRow
from kbroker.io.files.log_dir import LogDir
from kbroker.io.openings import load_again, published_end
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import files
from kbroker.metrics.slots import bind

log = logging.getLogger(__name__)

ROOM_TO_HEAL = 32 << 20  # bytes; with fewer bytes the disk would be full again at once
REFUSED = bind("kbroker_produce_refused_partitions")


class FullDisks:
    """Runs in: io. Owner: LogDirFailures. Not thread-safe. get: the open log of a slot; failed:
    called with a slot that could not be healed."""

    def __init__(
        self,
        drain: Drain,
        dirs: Mapping[str, LogDir],
        get: Callable[[int], UnifiedLog | None],
        failed: Callable[[int, OSError], None],
    ) -> None:
        self._drain = drain
        self._dirs = dirs
        self._get = get
        self._failed = failed
        self._slots: set[int] = set()

    def refuse_appends(self, partition: UnifiedLog, error: OSError) -> bool:
        """Refuse appends to a log until there is space; returns whether they were accepted
        before."""
        partition.active.refuse_appends()
        if partition.slot in self._slots:
            return False
        log.error("%s: produce is refused until there is room: %s", partition.folder, error)
        self._slots.add(partition.slot)
        self._count()
        return True

    def has(self, log_dir: str) -> bool:
        """Whether appends to a log of a log dir are refused."""
        logs = [partition for slot in self._slots if (partition := self._get(slot)) is not None]
        return any(files.log_dir_of(partition.folder) == log_dir for partition in logs)

    def forget(self, slot: int) -> bool:
        """The log is closed or has moved; returns whether its appends were refused."""
        refused = slot in self._slots
        self._slots.discard(slot)
        return refused

    def heal(self) -> None:
        """Resume appends to logs whose disk has space again: truncate partly written batches, and
        drop the producer state of batches that were not written."""
        for slot in list(self._slots):
            partition = self._get(slot)
            if partition is None:
                self._slots.discard(slot)
                continue
            try:
                _, usable = self._dirs[files.log_dir_of(partition.folder)].space()
                if usable >= ROOM_TO_HEAL and not partition.role.paused:
                    self._reopen(partition)
            except OSError as error:
                self._slots.discard(slot)
                self._failed(slot, error)
        self._count()

    def forget_unwritten(self, partition: UnifiedLog) -> None:
        """Drop the producers' state of batches that were not written, before a log is closed. With
        it the next start would acknowledge their retries as duplicates. Raises OSError."""
        if partition.slot in self._slots:
            self._reload(partition)

    def _reload(self, partition: UnifiedLog) -> None:
        words, row = partition.published.words, partition.active.row
        end = published_end(words)
        partition.published.publish(changing=True)  # its transaction index is empty for a moment
        partition.abandon(SlotState.RECOVERING)
        epoch, mark = int(words[Slot.LEADER_EPOCH]), partition.high_watermark
        cuts, too_few = int(row[AppendRow.CUTS]), int(row[AppendRow.TOO_FEW])
        expiration_ms = self._drain.producers.expiration_ms
        loaded = load_again(
            partition.folder, partition.config, partition.recovery_point, end, mark, expiration_ms
        )
        partition.bring_online(loaded, epoch, mark, wall_clock_ms())
        # the in-sync set is as before; a sync that began earlier does not count
        row[AppendRow.TOO_FEW], row[AppendRow.CUTS] = too_few, cuts + 1

    def _reopen(self, partition: UnifiedLog) -> None:
        self._reload(partition)
        self._slots.discard(partition.slot)
        self._drain.notify(partition.slot)  # a fetch that came meanwhile has got no records
        log.info("%s: there is room again, produce requests are accepted", partition.folder)

    def _count(self) -> None:
        self._drain.metrics.words[REFUSED] = len(self._slots)
