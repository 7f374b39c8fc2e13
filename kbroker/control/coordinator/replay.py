"""Loads a coordinator's partition: every record of its log, in order, through the machine's
replay.

Records whose effect a later record of the same key has are not decoded (`replay_kernel.py`).

An odd record (of a later version of Kafka, damaged, impossible) is skipped, and the rest is loaded.
Apache Kafka skips only unknown types, and does not load the partition for other odd records.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

from kbroker.control.broker import Broker
from kbroker.control.coordinator.log_windows import LogWindows, ReplayedRecord, Window
from kbroker.control.coordinator.machine import LastValueMachine, Machine, TransactionalMachine
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.log.reader import LogReader
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import ControlType, Record, RecordBatch, read_marker, read_records
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

ITEMS_AT_ONCE = 256
"""Records that are replayed before other work of control may run."""
MAX_LINES = 5
"""Odd records of a partition with a line of their own; the others are counted."""


class SkippedRecords:
    """The records of one partition that are left out: a line for the first ones, then their number.
    Runs in: control. Owner: one load."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def left_out(self, offset: int, what: str, reason: object) -> None:
        self._count += 1
        if self._count <= MAX_LINES:
            log.warning("%s: %s %d is skipped: %s", self._folder, what, offset, reason)

    def applied(self, offset: int, replay: Callable[..., object], *arguments: object) -> bool:
        """Call a replay with its arguments; False when the record at the offset is left out."""
        try:
            replay(*arguments)
        except ProtocolError as error:
            self.left_out(offset, "record", error)
            return False
        except Exception:  # a bug, but one record must not keep the broker from starting
            self._count += 1
            if self._count <= MAX_LINES:
                log.exception("%s: record %d is skipped, its replay failed", self._folder, offset)
            return False
        return True

    def end(self) -> None:
        """Log how many had no line."""
        if self._count > MAX_LINES:
            log.warning("%s: %d more records are skipped", self._folder, self._count - MAX_LINES)


def windows_of(machine: Machine) -> LogWindows:
    """The tables for loads of a machine. One load after the other may use them: to map their pages
    again for each log takes a fifth of a replay."""
    return LogWindows(machine.last_value_types if isinstance(machine, LastValueMachine) else frozenset())


async def load_partition(broker: Broker, partition: Partition, machine: Machine, tables: LogWindows) -> int:
    """Replay the whole log, as Kafka does, and return the number of records. Raises KafkaError for
    an unreadable log. tables: of `windows_of`, in use by no other load.

    Records above the high watermark count, too: they are in the log before everything that is
    appended from now on, and a predecessor's may become visible at any time."""
    if not broker.is_online(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.folder} is not open")
    began = time.monotonic()
    words = broker.slots.group(partition.slot)
    start = int(words[Slot.LOG_START])
    end = (int(words[Slot.ACTIVE_BASE]), int(words[Slot.ACTIVE_END]))
    count = 0
    if int(words[Slot.LOG_END]) == start:
        return count
    windows: Iterator[Window] | None = None

    def more(reader: LogReader) -> Window | None:
        nonlocal windows
        if windows is None:
            windows = tables.read(reader, start, *end)
        return next(windows, None)

    replay = Replay(machine, partition.index, partition.folder)
    while (window := await broker.logs.read(partition.folder, more)) is not None:
        for number, item in enumerate(window.items()):
            replay.take(window, item)
            if number % ITEMS_AT_ONCE == 0:
                await asyncio.sleep(0)
        count += window.records
    count += replay.decoded
    replay.skipped.end()
    log.info("%s: %d records replayed in %.2f s", partition.folder, count, time.monotonic() - began)
    return count


class Replay:
    """Applies the items of windows. Runs in: control. Owner: one load.

    decoded: records of whole batches.
    """

    def __init__(self, machine: Machine, partition: int, folder: str) -> None:
        self.skipped = SkippedRecords(folder)
        self.decoded = 0
        self._machine = machine
        self._transactions = machine if isinstance(machine, TransactionalMachine) else None
        self._partition = partition

    def take(self, window: Window, item: ReplayedRecord | RecordBatch) -> None:
        """Apply an item of a window."""
        if isinstance(item, RecordBatch):
            self.decode(item)
            return
        record: ReplayedRecord | None = item
        while record is not None and not self._applied(record):
            record = window.before(record)

    def decode(self, batch: RecordBatch) -> None:
        """Apply every record of a batch."""
        try:
            records = list(read_records(batch))
        except ProtocolError as error:
            self.skipped.left_out(batch.base_offset, "the batch at offset", error)
            return
        for record in records:
            if batch.is_control:
                self.skipped.applied(record.offset, self._end_of_transaction, batch)
            elif record.key is None:
                self.skipped.left_out(record.offset, "record", "it has no key")
            else:
                self._applied(_of_batch(batch, record.key, record))
        self.decoded += len(records)

    def _applied(self, record: ReplayedRecord) -> bool:
        """Apply a record; False when it is skipped."""
        offset, key, value = record.offset, record.key, record.value
        if record.transactional and self._transactions is not None:
            replay = self._transactions.replay_in_transaction
            return self.skipped.applied(offset, replay, self._partition, record.producer_id, key, value)
        return self.skipped.applied(
            offset, self._machine.replay, self._partition, key, value, record.timestamp_ms
        )

    def _end_of_transaction(self, batch: RecordBatch) -> None:
        if self._transactions is not None:
            kind, _ = read_marker(batch)
            committed = kind is ControlType.COMMIT
            self._transactions.replay_end_of_transaction(self._partition, batch.producer_id, committed)


def _of_batch(batch: RecordBatch, key: bytes, record: Record) -> ReplayedRecord:
    """A record that is in no window: none comes before it."""
    return ReplayedRecord(
        -1, record.offset, record.timestamp_ms, batch.producer_id, batch.is_transactional, key, record.value
    )
