"""Tracks a producer's records in progress and their delivery reports, and writes them to its
history.

The callback of the client library only keeps the report and its time; everything else is done for
thousands at a time.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message

from loadtest.clock import Clock
from loadtest.histogram import count
from loadtest.history import SendStatus, writer_name
from loadtest.page import Page, Slot, Times
from loadtest.players.values import Block
from loadtest.record import HEADER, HEADER_BYTES
from loadtest.writer import HistoryWriter

INTENT_ROWS = 1 << 16
RING = 1 << 18
MAX_PENDING = 100_000  # queue.buffering.max.messages of the client library
# Errors of records that are certainly not in the log. With other errors an earlier attempt may have
# written the record.
SURELY_FAILED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}

Report = Callable[[KafkaError | None, Message], None]


class Intents:
    """Announces ranges of sequence numbers in a file before the first of them is sent."""

    def __init__(self, folder: Path, producer: int, clock: Clock) -> None:
        (folder / "intents").mkdir(parents=True, exist_ok=True)
        path = folder / "intents" / f"{writer_name('producer', producer)}.jsonl"
        self._file = open(path, "a", buffering=1)  # noqa: SIM115
        self._producer = producer
        self._clock = clock
        self._announced = 0

    def announce(self, next_seq: int) -> None:
        """All numbers below `next_seq` may be sent after this."""
        while next_seq > self._announced:
            first, self._announced = self._announced, self._announced + INTENT_ROWS
            intent = {
                "producer": self._producer,
                "first_seq": first,
                "last_seq": self._announced - 1,
                "at_ns": self._clock.now_ns(),
            }
            self._file.write(json.dumps(intent) + "\n")

    def close(self) -> None:
        self._file.close()


class Outbox:
    """Records of one producer life. Owner: one producer player; used by its only thread."""

    def __init__(
        self,
        producer: int,
        topic: str,
        page: Page,
        clock: Clock,
        history: HistoryWriter | None,
        intents: Intents,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._page = page
        self._clock = clock
        self._history = history
        self._intents = intents
        self._reports: list[Message] = []
        self._reported_ns: list[int] = []  # when each of them came
        self._ring = {
            name: np.zeros(RING, np.int64)
            for name in ("partition_seq", "key", "partition", "transaction", "sent_ns", "header_sum")
        }
        self._open = np.zeros(RING, np.bool_)
        self._open_seqs = np.zeros(RING, np.int64)
        self._intended = np.zeros(RING, np.int64)
        self._oldest = 0
        self.pending = 0
        self.last_error: KafkaError | None = None

    def on_delivery(self) -> Report:
        """The callback for produce().

        It takes the time itself. The library's latency of a message counts from the moment when
        the library took it, which is later than sent_ns: added to that it would give a time before
        the answer.
        """
        keep, keep_ns, now_ns = self._reports.append, self._reported_ns.append, self._clock.now_ns

        def delivered(_error: KafkaError | None, message: Message) -> None:
            keep(message)
            keep_ns(now_ns())

        return delivered

    @property
    def reported(self) -> int:
        """Reports that have come and are not settled."""
        return len(self._reports)

    def room(self, next_seq: int) -> int:
        """The number of further records that may be in progress: a place of the ring is reused only
        when its record is settled."""
        if next_seq - self._oldest > RING // 2:
            open_seqs = self._open_seqs[self._open]
            self._oldest = int(open_seqs.min()) if len(open_seqs) else next_seq
        return min(MAX_PENDING - self.pending, RING - (next_seq - self._oldest))

    def add(self, block: Block, transaction: int = -1) -> int:
        """Records that are about to be sent: announced, and remembered until their report; returns
        their timestamp."""
        self._intents.announce(int(block.seqs[-1]) + 1)
        now_ns = self._clock.now_ns()
        places = block.seqs % RING
        ring = self._ring
        ring["partition_seq"][places] = block.partition_seqs
        ring["key"][places] = block.keys
        ring["partition"][places] = block.partitions
        ring["transaction"][places] = transaction
        ring["sent_ns"][places] = now_ns
        ring["header_sum"][places] = block.header_sums
        self._intended[places] = block.intended_ns
        self._open[places] = True
        self._open_seqs[places] = block.seqs
        self.pending += len(block)
        self._page.add(Slot.SENT, len(block))
        self._page.times(Times.DELAY)[:] += count(now_ns - block.intended_ns)
        return now_ns // 1_000_000

    def settle(self) -> int:
        """Takes the reports that have come: into figures and history. Returns their number."""
        reports = self._reports[:]
        if not reports:
            return 0
        acked_ns = np.array(self._reported_ns[: len(reports)], np.int64)
        del self._reports[: len(reports)], self._reported_ns[: len(reports)]
        values = list(map(Message.value, reports))
        heads = np.frombuffer(b"".join([value[:HEADER_BYTES] for value in values]), HEADER)  # type: ignore[index]
        seqs = heads["seq"].astype(np.int64)
        errors = list(map(Message.error, reports))
        status, codes = np.zeros(len(reports), np.int8), np.zeros(len(reports), np.int16)
        if any(errors):
            status, codes = self._failures(errors)
            offsets = np.array([-1 if offset is None else offset for offset in map(Message.offset, reports)])
        else:
            offsets = np.array(list(map(Message.offset, reports)), np.int64)
        offsets[(status != SendStatus.ACKED) | (offsets < 0)] = -1
        places = seqs % RING
        good = status == SendStatus.ACKED
        self._page.times(Times.ACK)[:] += count((acked_ns - self._intended[places])[good])
        self._page.add(Slot.ACKED, int(good.sum()))
        self._page.add(Slot.FAILED, len(reports) - int(good.sum()))
        self._page.add(Slot.ACKED_BYTES, sum(map(len, values)))  # type: ignore[arg-type]
        self._write(seqs, places, offsets, status, codes, acked_ns)
        return len(reports)

    def give_up(self, error: int) -> None:
        """The client object has ended: records in progress have an unknown outcome."""
        self.settle()
        places = np.flatnonzero(self._open)
        if len(places):
            seqs = np.sort(self._open_seqs[places])
            places = seqs % RING
            shape = len(places)
            status = np.full(shape, SendStatus.UNKNOWN, np.int8)
            now_ns = np.full(shape, self._clock.now_ns(), np.int64)
            self._page.add(Slot.FAILED, shape)
            self._write(seqs, places, np.full(shape, -1), status, np.full(shape, error, np.int16), now_ns)
        self._intents.close()

    def _write(self, seqs: Any, places: Any, offsets: Any, status: Any, codes: Any, acked_ns: Any) -> None:
        self._open[places] = False
        self.pending -= len(places)
        if self._history is None:
            return
        ring = self._ring
        self._history.add(
            "sends",
            {
                "producer": self._producer,
                "seq": seqs,
                "partition_seq": ring["partition_seq"][places],
                "topic": self._topic,
                "partition": ring["partition"][places],
                "offset": offsets,
                "timestamp_ms": ring["sent_ns"][places] // 1_000_000,
                "key": ring["key"][places],
                "status": status,
                "error": codes,
                "transaction": ring["transaction"][places],
                "intended_ns": self._intended[places],
                "sent_ns": ring["sent_ns"][places],
                "acked_ns": acked_ns,
                "header_sum": ring["header_sum"][places],
                "tombstone": False,
            },
        )

    def _failures(self, errors: list[KafkaError | None]) -> tuple[Any, Any]:
        codes = np.array([0 if error is None else error.code() for error in errors], np.int16)
        status = np.where(codes == 0, SendStatus.ACKED, SendStatus.UNKNOWN).astype(np.int8)
        status[np.isin(codes, list(SURELY_FAILED))] = SendStatus.FAILED
        self.last_error = next(error for error in reversed(errors) if error is not None)
        return status, codes
