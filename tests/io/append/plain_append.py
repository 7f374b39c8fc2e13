"""A plain append for tests: what the drain kernel does to a partition's files, row and slot, batch
by batch."""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.append.rows import AppendRow
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.io.openings import create_folder
from kbroker.io.partition.deletions import Deletions
from kbroker.io.partition.log_spec import LogSpec
from kbroker.io.partition.unified_log import UnifiedLog, open_log
from kbroker.io.recovery import recovery
from kbroker.io.recovery.loaded_log import LoadedLog, LoadRequest, TrustedEnd
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk

NOW = 1_700_000_000_000


def topic_config(**overrides: object) -> TopicConfig:
    """Topic settings by Kafka name with underscores; small segments through
    internal.segment.bytes."""
    settings = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    if "segment.bytes" in settings:
        settings["internal.segment.bytes"] = settings.pop("segment.bytes")
    return TopicConfig.resolve(settings, BrokerConfig())


@dataclass
class Log:
    """A partition with private memory in place of the broker's, and an append in Python."""

    root: Path
    config: TopicConfig = field(default_factory=topic_config)
    now_ms: int = NOW
    flags: int = 0
    slot: int = 3
    row: NDArray[np.int64] = field(default_factory=AppendRow.row)
    leads: bool = True
    replicated: bool = False
    known_mark: int | None = None
    reserve_max_bytes: int = 0
    topic: str = "t"

    def __post_init__(self) -> None:
        self.words = Slot.row()
        self.words[Slot.FLAGS] = self.flags
        self.row[:] = 0
        self.producers = ProducerTable(64)
        self.deletions = Deletions()
        self._opened: UnifiedLog | None = None

    @property
    def partition(self) -> UnifiedLog:
        assert self._opened is not None, "open it first"
        return self._opened

    def open(
        self, clean: bool = True, recovery_point: int = 0, log_start: int = 0, epoch: int = 0
    ) -> UnifiedLog:
        create_folder(str(self.folder), b"\1" * 16)
        return self.bring_online(self.load(clean, recovery_point, log_start), epoch)

    def load(
        self,
        clean: bool = False,
        recovery_point: int = 0,
        log_start: int = 0,
        trusted_end: TrustedEnd | None = None,
        progress: Callable[[int], None] | None = None,
        same_boot: bool = False,
    ) -> LoadedLog:
        """As recovery finds the files now."""
        request = LoadRequest(
            str(self.folder), self.config, clean, recovery_point, log_start, self.now_ms, trusted_end,
            progress=progress, same_boot=same_boot, known_mark=self.known_mark,
        )  # fmt: skip
        return recovery.load(request)

    def bring_online(self, loaded: LoadedLog, epoch: int = 0) -> UnifiedLog:
        spec = LogSpec(
            self.slot, self.words, self.row, str(self.folder), self.topic, 0, b"\1" * 16, self.config,
            self.leads, self.replicated, self.known_mark, self.reserve_max_bytes,
        )  # fmt: skip
        self._opened = open_log(spec, loaded, epoch, self.producers, self.deletions, self.now_ms)
        return self._opened

    def reopen(
        self, clean: bool = True, recovery_point: int = 0, log_start: int = 0, epoch: int = 0
    ) -> UnifiedLog:
        """As after a restart of the broker: new memory, the same folder."""
        if self._opened is not None and self._opened.is_open:
            self.partition.close() if clean else self.partition.abandon()
        self.__post_init__()
        return self.open(clean, recovery_point, log_start, epoch)

    @property
    def folder(self) -> Path:
        return Path(self._opened.folder) if self._opened else self.root / f"{self.topic}-0"

    def append(self, data: bytes, now_ms: int | None = None) -> int:
        """One batch; rolls before it as the kernel asks for; gives its base offset."""
        row, now = self.row, self.now_ms if now_ms is None else now_ms
        delta, maximum = struct.unpack_from(">i", data, 23)[0], struct.unpack_from(">q", data, 35)[0]
        if self._must_roll(len(data), maximum, delta, now):
            self.partition.roll(now)
        base = int(row[AppendRow.NEXT_OFFSET])
        last, position = base + delta, int(row[AppendRow.POSITION])
        stamped = bytearray(data)
        struct.pack_into(">q", stamped, 0, base)
        struct.pack_into(">i", stamped, 12, int(row[AppendRow.LEADER_EPOCH]))
        self.partition.active.open_files()
        os.pwrite(int(row[AppendRow.LOG_FD]), stamped, position)
        if position == 0:
            row[AppendRow.FIRST_TIMESTAMP] = maximum
        self._index(len(data), last, maximum, position)
        row[AppendRow.POSITION] += len(data)
        row[AppendRow.NEXT_OFFSET] = last + 1
        row[AppendRow.UNFLUSHED_RECORDS] += struct.unpack_from(">i", data, 57)[0]
        self._remember(data, base, last, maximum)
        self.partition.published.publish(high_watermark=None if self.flags & SlotFlag.DURABLE else last + 1)
        return base

    def _must_roll(self, length: int, maximum: int, delta: int, now: int) -> bool:
        row = self.row
        far = row[AppendRow.NEXT_OFFSET] + delta - row[AppendRow.BASE_OFFSET] > 2**31 - 1
        if row[AppendRow.POSITION] == 0:
            return bool(far)
        first = row[AppendRow.FIRST_TIMESTAMP]
        waited = (
            maximum - first > row[AppendRow.SEGMENT_MS] if first >= 0 else now > row[AppendRow.ROLL_AT_MS]
        )
        full = row[AppendRow.INDEX_BYTES] + 8 > row[AppendRow.INDEX_LIMIT]
        full |= row[AppendRow.TIME_INDEX_BYTES] + 24 > row[AppendRow.INDEX_LIMIT]
        return bool(length > row[AppendRow.SEGMENT_BYTES] - row[AppendRow.POSITION] or waited or full or far)

    def _index(self, length: int, last: int, maximum: int, position: int) -> None:
        row, base = self.row, int(self.row[AppendRow.BASE_OFFSET])
        if maximum > row[AppendRow.MAX_TIMESTAMP]:
            row[AppendRow.MAX_TIMESTAMP], row[AppendRow.MAX_TIMESTAMP_OFFSET] = maximum, last
        if row[AppendRow.SINCE_INDEX] > row[AppendRow.INDEX_INTERVAL]:
            entry = struct.pack(">ii", last - base, position)
            os.pwrite(int(row[AppendRow.INDEX_FD]), entry, int(row[AppendRow.INDEX_BYTES]))
            row[AppendRow.INDEX_BYTES] += 8
            if row[AppendRow.MAX_TIMESTAMP] > row[AppendRow.LAST_INDEXED_TIMESTAMP]:
                largest, offset = int(row[AppendRow.MAX_TIMESTAMP]), int(row[AppendRow.MAX_TIMESTAMP_OFFSET])
                entry = struct.pack(">qi", largest, offset - base)
                os.pwrite(int(row[AppendRow.TIME_INDEX_FD]), entry, int(row[AppendRow.TIME_INDEX_BYTES]))
                row[AppendRow.TIME_INDEX_BYTES] += 12
                row[AppendRow.LAST_INDEXED_TIMESTAMP] = largest
            row[AppendRow.SINCE_INDEX] = 0
        row[AppendRow.SINCE_INDEX] += length

    def _remember(self, data: bytes, base: int, last: int, maximum: int) -> None:
        attributes = struct.unpack_from(">h", data, 21)[0]
        producer_id, epoch, first = struct.unpack_from(">qhi", data, 43)
        if producer_id < 0:
            return
        known = self.producers.get(self.slot, producer_id)
        before = known.batches if known and known.producer_epoch == epoch else ()
        open_txn = known.current_txn_first_offset if known else -1
        coordinator = known.coordinator_epoch if known else -1
        if attributes & 0x20:
            coordinator = struct.unpack_from(">i", data, len(data) - 5)[0]
            entry = ProducerEntry(producer_id, epoch, coordinator, maximum, -1, before)
        else:
            new = BatchMetadata(first, (first + last - base) % 2**31, base, last, maximum)
            if attributes & 0x10 and open_txn < 0:
                open_txn = base
                self._note_opened(base, producer_id)
            entry = ProducerEntry(producer_id, epoch, coordinator, maximum, open_txn, (*before, new)[-5:])
        self.producers.put(self.slot, entry)

    def _note_opened(self, base: int, producer_id: int) -> None:
        """A transaction has begun."""
        opened = int(self.row[AppendRow.OPENED])
        if opened < AppendRow.MAX_OPENED:
            at = AppendRow.OPENINGS + 2 * opened
            self.row[at : at + 2] = base, producer_id
        self.row[AppendRow.OPENED] = opened + 1
        if self.row[AppendRow.FIRST_UNSTABLE] < 0:
            self.row[AppendRow.FIRST_UNSTABLE] = base


def offsets(log: Log) -> list[int]:
    """Base offsets of the batches between log start and high watermark, as a reader sees them."""
    words = log.words
    reader = LogReader(str(log.folder), OpenFiles())
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
    return [placed.batch.base_offset for placed in walk(reader, int(words[Slot.LOG_START]), *end)]


def names(folder: Path) -> set[str]:
    """Names of the files in a folder."""
    return {path.name for path in folder.iterdir()}
