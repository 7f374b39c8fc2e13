"""Small runs made by hand: clients' histories, and the log of a broker that may have failed them.

A `Topic` is a whole little history of its own, with its own producers and consumers; a mutation
changes one topic and leaves the others alone, so that one judgement shows every anomaly and that
none of them spills over.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crc32c import crc32c

from kbroker.protocol.compression import Codec
from kbroker.protocol.records import ControlType, build_batch, build_control_batch
from loadtest import history
from loadtest.record import (
    HEADER,
    HEADER_BYTES,
    IDENTITY_HEADER,
    MAGIC,
    TOMBSTONE,
    VERSION,
    header_sum,
    key_bytes,
    sealed,
)
from loadtest.run import Deletion
from spark_validation.segments import layout

RUN = 7
START_NS = 1_780_000_000_000_000_000
MS = 1_000_000
PARTITIONS, BATCHES, BATCH = 2, 12, 5
EARLIEST = -1001
Row = dict[str, Any]


@dataclass
class Record:
    """One record of the log; `value` overrides what it holds, `timestamp_ms` when it was sent."""

    producer: int
    seq: int
    partition_seq: int
    key: int
    intended_ns: int
    flags: int = 0
    value: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    tombstone: bool = False

    @property
    def all_flags(self) -> int:
        return self.flags | (TOMBSTONE if self.tombstone else 0)

    @property
    def stamp(self) -> int:
        return self.timestamp_ms or self.intended_ns // MS

    def all_headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """A tombstone carries its identity in the first one."""
        return (
            ((IDENTITY_HEADER, self.bytes()[:HEADER_BYTES]), *self.headers)
            if self.tombstone
            else self.headers
        )

    def bytes(self) -> bytes:
        if self.value is not None:
            return self.value
        who = self.producer, self.seq, self.partition_seq
        head = 0, MAGIC, VERSION, self.all_flags, RUN, *who, self.intended_ns
        return sealed(np.array([head], HEADER).tobytes()[4:] + (b"" if self.tombstone else b"body"))


@dataclass
class Batch:
    """A batch of the log; control: a marker instead of records."""

    base: int
    records: list[Record]
    producer_id: int = -1
    sequence: int = -1
    transactional: bool = False
    control: ControlType | None = None
    broken_crc: bool = False
    producer_epoch: int = 0
    leader_epoch: int = 0
    coordinator_epoch: int = 0  # of a marker
    append_ms: int | None = None  # LogAppendTime
    codec: Codec | None = None  # another one than its topic's
    patch: dict[str, int] = field(default_factory=dict)  # header fields that differ, checksum right

    def bytes(self, codec: Codec) -> bytes:
        if self.control is not None:
            made = build_control_batch(
                self.control,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                coordinator_epoch=self.coordinator_epoch,
                timestamp_ms=START_NS // MS,
                base_offset=self.base,
            )
        else:
            made = build_batch(
                [
                    (key_bytes(r.key), None if r.tombstone else r.bytes(), r.all_headers(), r.stamp)
                    for r in self.records
                ],
                base_offset=self.base,
                producer=(
                    self.producer_id,
                    self.producer_epoch if self.producer_id >= 0 else -1,
                    self.sequence,
                ),
                codec=codec if self.codec is None else self.codec,
                transactional=self.transactional,
                log_append_time_ms=self.append_ms,
            )
        made = patched(made, {"leader_epoch": self.leader_epoch, **self.patch})
        return made[:17] + bytes([made[17] ^ 1]) + made[18:] if self.broken_crc else made

    @property
    def end(self) -> int:
        return self.base + (1 if self.control is not None else len(self.records))


def first_open(batches: list[Batch]) -> int:
    """Offset of the first record whose transaction has no marker yet; the log's end without one."""
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.control is not None:
            begun.pop(batch.producer_id, None)
        elif batch.transactional or batch.patch.get("attributes", 0) & layout.TRANSACTIONAL:
            begun.setdefault(batch.producer_id, batch.base)
    return min(begun.values(), default=batches[-1].end if batches else 0)


def patched(batch: bytes, fields: dict[str, int]) -> bytes:
    """The batch with header fields that are written otherwise, and the checksum that belongs to
    them."""
    made = bytearray(batch)
    head = np.frombuffer(made, layout.HEADER, 1)
    for name, value in fields.items():
        head[name] = head[name] | value if name == "attributes" else value
    head["crc"] = crc32c(bytes(made[layout.CHECKED_FROM :]))
    return bytes(made)


@dataclass
class Topic:
    """A topic and all that was done with it. number: its clients are number * 10 and following."""

    name: str
    number: int
    mode: str = "idempotent"
    cleanup_policy: str = "delete"
    acks: str = "all"
    codec: Codec = Codec.NONE
    log: dict[int, list[Batch]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {kind: [] for kind in history.KINDS})
    committed: dict[int, int] = field(default_factory=dict)
    earlier: dict[int, list[Batch]] | None = None
    spoiled_index: bool = False
    copied_from: str = ""  # a topic whose partition 0 is copied, up to `copied_until`
    copied_until: int = 0
    config: dict[str, str] = field(default_factory=dict)
    start_offset: int = 0
    checkpointed_start: int = 0  # of partition 0, in the log directory
    cleaned: int = 0  # of partition 0, in the log directory
    high_watermark: int = 0  # of partition 0; 0: its log's end
    last_stable: int = -1  # of partition 0; -1: before its first open transaction
    deletions: list[Deletion] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)  # producers that never ended
    files: dict[str, bytes | None] = field(default_factory=dict)  # of partition 0; None: it is missing
    lost_reads: dict[int, int] = field(default_factory=dict)  # consumer -> how many of its last rows are gone
    members: dict[int, tuple[str | None, str]] = field(default_factory=dict)  # more readers: group, topic

    @property
    def group(self) -> str:
        return f"{self.name}-readers"

    @property
    def copiers(self) -> str:
        return f"{self.name}-copiers"

    @property
    def sharers(self) -> str:
        return f"{self.name}-sharers"

    @property
    def producers(self) -> tuple[int, int]:
        return self.number * 10, self.number * 10 + 1

    @property
    def reader(self) -> int:
        return self.number * 10

    @property
    def drain(self) -> int:
        return self.number * 10 + 1

    @property
    def committed_drain(self) -> int:
        return self.number * 10 + 2

    @property
    def transactional(self) -> bool:
        return self.mode in ("transactional", "copied")

    def records(self, partition: int = 0) -> list[tuple[int, Record, Batch]]:
        """(offset, record, its batch) of a partition."""
        return [(b.base + n, r, b) for b in self.log[partition] for n, r in enumerate(b.records)]

    def sent(self, producer: int, seq: int) -> Row:
        return next(row for row in self.rows["sends"] if (row["producer"], row["seq"]) == (producer, seq))

    def reads_of(self, consumer: int, partition: int | None = None) -> list[Row]:
        return [
            row
            for row in self.rows["reads"]
            if row["consumer"] == consumer and partition in (None, row["partition"])
        ]


def clean(name: str, number: int, mode: str = "idempotent", **more: Any) -> Topic:
    """A topic whose log, sends and reads agree: producers take turns, every third transaction is
    aborted."""
    topic = Topic(name, number, mode, **more)
    seqs = dict.fromkeys(topic.producers, 0)
    transactions = dict.fromkeys(topic.producers, 0)
    for partition in range(PARTITIONS):
        partition_seqs = dict.fromkeys(topic.producers, 0)
        topic.log[partition] = []
        at = 0
        for turn in range(BATCHES):
            producer = topic.producers[turn % 2]
            first = partition_seqs[producer]
            began = START_NS + (partition * BATCHES + turn) * 100 * MS
            flags = 1 if topic.transactional else 0
            records = [
                Record(
                    producer,
                    seqs[producer] + n,
                    first + n,
                    (first + n) % 7 * 2 + partition,
                    began + n * MS,
                    flags,
                )
                for n in range(BATCH)
            ]
            idempotent = mode != "plain"
            batch = Batch(at, records, producer + 100 if idempotent else -1, first if idempotent else -1)
            batch.transactional = topic.transactional
            topic.log[partition].append(batch)
            number_of = transactions[producer] if topic.transactional else -1
            for n, record in enumerate(records):
                topic.rows["sends"].append(send_row(topic, partition, at + n, record, number_of))
            at += BATCH
            seqs[producer] += BATCH
            partition_seqs[producer] += BATCH
            if topic.transactional:
                aborted = transactions[producer] % 3 == 2
                marker = ControlType.ABORT if aborted else ControlType.COMMIT
                topic.log[partition].append(Batch(at, [], producer + 100, control=marker))
                topic.rows["transactions"].append(transaction_row(records, number_of, aborted))
                transactions[producer] += 1
                at += 1
    read_everything(topic)
    return topic


def send_row(topic: Topic, partition: int, offset: int, record: Record, transaction: int) -> Row:
    return {
        "producer": record.producer,
        "seq": record.seq,
        "partition_seq": record.partition_seq,
        "topic": topic.name,
        "partition": partition,
        "offset": offset if topic.acks != "0" else -1,
        "timestamp_ms": record.stamp,
        "key": record.key,
        "status": 0,
        "error": 0,
        "transaction": transaction,
        "intended_ns": record.intended_ns,
        "sent_ns": record.intended_ns + MS,
        "acked_ns": record.intended_ns + 3 * MS,
        "header_sum": header_sum(record.all_headers()),
        "tombstone": record.tombstone,
    }


def transaction_row(records: list[Record], number: int, aborted: bool) -> Row:
    first, last = records[0], records[-1]
    times = {
        "begin_ns": first.intended_ns,
        "ending_ns": last.intended_ns + 5 * MS,
        "end_ns": last.intended_ns + 6 * MS,
    }
    ended = {"outcome": int(aborted), "meant": int(aborted), "error": 0}
    return (
        {"producer": first.producer, "transaction": number, "first_seq": first.seq, "last_seq": last.seq}
        | ended
        | times
    )


def read_row(
    topic: Topic, consumer: int, assignment: int, partition: int, offset: int, record: Record
) -> Row:
    return {
        "consumer": consumer,
        "position": 0,
        "assignment": assignment,
        "topic": topic.name,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": record.stamp,
        "key": record.key,
        "producer": record.producer,
        "seq": record.seq,
        "partition_seq": record.partition_seq,
        "flags": record.all_flags,
        "intact": record.value is None,
        "intended_ns": record.intended_ns,
        "seen_ns": record.intended_ns + 50 * MS,
        "header_sum": header_sum(record.all_headers()),
    }


def visible(topic: Topic, partition: int, committed: bool) -> list[tuple[int, Record]]:
    """What a consumer is given of a partition."""
    aborted = set()
    if committed:
        open_batches: dict[int, list[int]] = {}
        for batch in topic.log[partition]:
            if batch.control is None:
                open_batches.setdefault(batch.producer_id, []).append(batch.base)
            elif batch.control == ControlType.ABORT:
                aborted |= set(open_batches.pop(batch.producer_id, []))
            else:
                open_batches.pop(batch.producer_id, None)
    return [(offset, r) for offset, r, batch in topic.records(partition) if batch.base not in aborted]


def read_everything(topic: Topic) -> None:
    """The group's reader (two assignments), and a drain with each isolation level; the group
    commits on the way."""
    for kind in ("reads", "commits", "assignments"):
        topic.rows[kind] = []
    for consumer, committed in ((topic.reader, True), (topic.drain, False), (topic.committed_drain, True)):
        for partition in range(PARTITIONS):
            found = visible(topic, partition, committed)
            half = len(found) // 2
            seen_ns = 0  # nothing is seen before what lies below it
            for n, (offset, record) in enumerate(found):
                assignment = int(n >= half) if consumer == topic.reader else -1
                row = read_row(topic, consumer, assignment, partition, offset, record)
                row["seen_ns"] = seen_ns = max(seen_ns, row["seen_ns"])
                topic.rows["reads"].append(row)
    for partition in range(PARTITIONS):
        own = topic.reads_of(topic.reader, partition)
        middle, seen_ns = (own[len(own) // 2][name] for name in ("offset", "seen_ns"))
        end = topic.log[partition][-1].end
        times = {"asked_ns": seen_ns - MS // 2, "answered_ns": seen_ns - MS // 4}
        topic.rows["commits"].append(commit_row(topic, partition, 0, middle, 1) | times)
        topic.rows["commits"].append(commit_row(topic, partition, 1, end, 3))
        topic.rows["assignments"] += [
            assignment_row(topic, partition, 0, EARLIEST, 0),
            assignment_row(topic, partition, 1, middle, 2) | {"at_ns": seen_ns - MS // 8},
        ]
        topic.committed[partition] = end


def commit_row(topic: Topic, partition: int, assignment: int, offset: int, step: int) -> Row:
    at = START_NS + step * 10_000 * MS
    place = {"topic": topic.name, "partition": partition, "offset": offset, "error": 0}
    times = {"asked_ns": at, "answered_ns": at + MS, "transaction": -1, "producer": -1}
    return {"consumer": topic.reader, "group": topic.group, "assignment": assignment} | place | times


def assignment_row(topic: Topic, partition: int, assignment: int, start: int, step: int) -> Row:
    what = {
        "topic": topic.name,
        "partition": partition,
        "start_offset": start,
        "at_ns": START_NS + step * 10_000 * MS,
    }
    return {"consumer": topic.reader, "group": topic.group, "assignment": assignment, "event": 0} | what
