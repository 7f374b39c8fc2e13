"""Verification: compares the records of each partition on both sides, by digests in order."""

import struct
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.partitions import Partition
from kbroker.cli.record_format import headers_of

Digests = NDArray[np.uint64]
BATCH = 10_000
SILENCE_S = 60


class Reading(Struct):
    """The records of a partition that a read_committed consumer receives: offsets, digests, and
    digests of keys."""

    offsets: NDArray[np.int64]
    records: Digests
    keys: Digests
    tombstones: NDArray[np.bool_]
    end: int


class Difference(Struct, frozen=True):
    """The result of comparing a partition. digest: of all records of the target, in order."""

    partition: Partition
    source: int
    target: int
    missing: int = 0
    duplicates: int = 0
    foreign: int = 0
    expired: int = 0
    ordered: bool = True
    digest: str = ""
    examples: list[int] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether no record is lost, foreign or out of order. Duplicates are counted separately."""
        return not self.missing and not self.foreign and self.ordered


def read_partition(broker: Connection, partition: Partition, start: int, end: int) -> Reading:
    """Reads [start, end). Raises CommandFailed if the broker stops sending."""
    offsets: list[int] = []
    records, keys = bytearray(), bytearray()
    empty: list[bool] = []
    for message in _messages(broker, partition, start, end):
        key, value = message.key(), message.value()
        digest = blake2b(_identity(message, key, value), digest_size=8)
        offsets.append(int(message.offset()))
        records += digest.digest()
        keys += blake2b(b"" if key is None else b"k" + key, digest_size=8).digest()
        empty.append(value is None)
    return Reading(
        np.array(offsets, np.int64),
        np.frombuffer(bytes(records), np.uint64),
        np.frombuffer(bytes(keys), np.uint64),
        np.array(empty, bool),
        end,
    )


def _identity(message: Any, key: bytes | None, value: bytes | None) -> bytes:
    """Everything that a copy must keep: key, value, timestamp, headers. Lengths separate the
    fields; -1 is null."""
    parts = [struct.pack(">q", message.timestamp()[1])]
    for field_ in (key, value):
        parts += [struct.pack(">i", -1 if field_ is None else len(field_)), field_ or b""]
    for name, content in headers_of(message):
        encoded = name.encode()
        parts += [struct.pack(">i", len(encoded)), encoded]
        parts += [struct.pack(">i", -1 if content is None else len(content)), content or b""]
    return b"".join(parts)


def _messages(broker: Connection, partition: Partition, start: int, end: int) -> Iterator[Any]:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    if end <= start:
        return
    consumer: Any = broker.consumer(
        {
            "group.id": "kbroker-move",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(*partition, start)])
        last = time.monotonic()
        while True:
            for message in consumer.consume(BATCH, 0.5):
                last = time.monotonic()
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    raise KafkaException(error)
                if message.offset() >= end:
                    return
                yield message
            if time.monotonic() - last > SILENCE_S:
                raise CommandFailed(
                    f"{broker.bootstrap} sends no more records of {partition[0]}-{partition[1]}"
                )
    finally:
        consumer.close()


def compare(
    partition: Partition, source: Reading, target: Reading, compacted: bool, expires: bool = False
) -> Difference:
    """Compares the target's records with the source's: each once, in order. expires: retention may
    remove records of a compacted topic, too."""
    found: dict[str, Any] = {
        "partition": partition,
        "source": len(source.records),
        "target": len(target.records),
        "digest": blake2b(target.records.tobytes(), digest_size=8).hexdigest(),
    }
    if np.array_equal(source.records, target.records):
        return Difference(**found)
    if compacted:
        return _compare_last_values(found, source, target, expires)
    expired = _expired(source.records, target.records)
    kept = target.records[expired:]
    known, counts = np.unique(source.records, return_counts=True)
    held, copies = np.unique(kept, return_counts=True)
    copies_of = dict(zip(held.tolist(), copies.tolist(), strict=True))
    missing = duplicates = 0
    lost = []
    for digest, count in zip(known.tolist(), counts.tolist(), strict=True):
        there = copies_of.pop(digest, 0)
        missing += max(count - there, 0)
        duplicates += max(there - count, 0)
        if there < count:
            lost.append(digest)
    examples = source.offsets[np.isin(source.records, np.array(lost, np.uint64))][:5].tolist()
    ordered = missing > 0 or _in_order(source.records, kept)
    return Difference(
        **found,
        missing=missing,
        duplicates=duplicates,
        foreign=sum(copies_of.values()),
        expired=expired,
        ordered=ordered,
        examples=examples,
    )


def _expired(source: Digests, target: Digests) -> int:
    """The number of records at the target's start that retention has removed at the source since
    they were copied."""
    if not len(source):
        return len(target)
    first = np.flatnonzero(target == source[0])
    return int(first[0]) if len(first) else 0


def _in_order(source: Digests, target: Digests) -> bool:
    """Whether the target equals the source, apart from repetitions of earlier records."""
    place = 0
    held: set[int] = set()
    for digest in target.tolist():
        if place < len(source) and digest == int(source[place]):
            held.add(digest)
            place += 1
        elif digest not in held:
            return False
    return place == len(source)


def _compare_last_values(
    found: dict[str, Any], source: Reading, target: Reading, expires: bool
) -> Difference:
    """Compares a compacted topic by each key's last value: both sides may remove earlier values at
    any time."""
    expected, there = _last_values(source), _last_values(target)
    lost = [
        key
        for key, (digest, empty) in expected.items()
        if not empty and there.get(key, (0, True))[0] != digest
    ]
    more = [key for key, (_, empty) in there.items() if not empty and key not in expected]
    later = _keys_of_kept(source, target) if expires else set(more)
    foreign = [key for key in more if key in later]
    examples = source.offsets[np.isin(source.keys, np.array(lost, np.uint64))][-5:].tolist()
    return Difference(
        **found,
        missing=len(lost),
        foreign=len(foreign),
        expired=len(more) - len(foreign),
        examples=examples,
    )


def _keys_of_kept(source: Reading, target: Reading) -> set[int]:
    """The keys of the target's records from the first one on that the source still has: retention
    removes records at the start of a log."""
    kept = np.flatnonzero(np.isin(target.records, source.records))
    return set(target.keys[int(kept[0]) :].tolist()) if len(kept) else set()


def _last_values(reading: Reading) -> dict[int, tuple[int, bool]]:
    columns: Sequence[list[Any]] = (
        reading.keys.tolist(),
        reading.records.tolist(),
        reading.tombstones.tolist(),
    )
    return {key: (digest, empty) for key, digest, empty in zip(*columns, strict=True)}
