"""Appends of the operations of one loop turn: one batch, one ring entry, one wake-up for all of
them."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct, field

from kbroker.control.coordinator.machine import Record
from kbroker.control.links.appender import DEFAULT_TIMEOUT_MS, Appender, Done, completion_of
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import build_batch
from kbroker.protocol.slices import at_once, is_sliced, paced

TOGETHER = 64
"""Maximum of operations in one batch: the IO worker begins with them while others are decided."""
RECORD_BYTES, MIN_RECORD_BYTES = 40, 7
"""Maximum and minimum of a record besides its key and value: lengths, deltas and attributes are
varints."""
BATCH_BYTES = 61
LONG_BYTES = 64 << 10
"""An operation of more, of a long request, has a separate batch, which is built in slices."""


class Gathered(Struct):
    """The records of a future batch. size: an upper bound of its bytes."""

    partition: Partition
    now_ms: int
    size: int = BATCH_BYTES
    records: list[Record] = field(default_factory=list)
    waiting: list[Done] = field(default_factory=list)


class Gathering:
    """Runs in: control. Owner: an OutcomeWriter. The records of one operation stay together,
    and in order of `add`.

    max_bytes: the largest batch that the topic takes. timeout_ms: of an append.
    """

    def __init__(
        self,
        appender: Appender,
        max_bytes: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self._appender = appender
        self._max_bytes = max_bytes
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._open: dict[int, Gathered] = {}

    def add(self, partition: Partition, records: list[Record], now_ms: int, done: Done) -> None:
        """Append an operation's records together with the other records that this turn of the loop
        appends to the partition."""
        limit = self._max_bytes()
        content = bytes_of(records)
        if content + len(records) * MIN_RECORD_BYTES + BATCH_BYTES > limit:
            self._loop.call_soon(done, KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
            return
        size = content + len(records) * RECORD_BYTES
        gathered = self._open.get(partition.index)
        if size > LONG_BYTES and is_sliced():
            if gathered is not None:
                self._flush(partition.index)
            self._submit(Gathered(partition, now_ms, size, records, [done]))
            return
        if gathered is not None and gathered.size + size > limit:
            self._flush(partition.index)
            gathered = None
        if gathered is None:
            gathered = self._open[partition.index] = Gathered(partition, now_ms)
            self._loop.call_soon(self._flush_if, gathered)
        gathered.size += size
        gathered.records += records
        gathered.waiting.append(done)
        if len(gathered.waiting) >= TOGETHER or gathered.size > limit:
            self._flush(partition.index)

    def _flush_if(self, gathered: Gathered) -> None:
        if self._open.get(gathered.partition.index) is gathered:
            self._flush(gathered.partition.index)

    def _flush(self, index: int) -> None:
        """Submit the records without pausing: else later records of the same keys could be sent
        first."""
        at_once(partial(self._submit, self._open.pop(index)))

    def _submit(self, gathered: Gathered) -> None:
        now_ms = gathered.now_ms
        batch = build_batch([(record.key, record.value, (), now_ms) for record in paced(gathered.records)])
        on_done = partial(_complete_all, gathered.waiting)
        if len(batch) > self._max_bytes():  # only one operation's: others were sent before
            self._loop.call_soon(on_done, KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
        else:
            self._appender.submit(gathered.partition, batch, on_done, self._timeout_ms)

    async def append(self, partition: Partition, records: list[Record], now_ms: int) -> None:
        """As `add`, and wait. Raises KafkaError."""
        await completion_of(partial(self.add, partition, records, now_ms))


def bytes_of(records: Iterable[Record]) -> int:
    """Bytes of keys and values."""
    return sum(len(record.key) + len(record.value or b"") for record in paced(records))


def _complete_all(waiting: list[Done], failure: KafkaError | None) -> None:
    for done in waiting:
        done(failure)
