"""The last records of all partitions, by time, and the exact number of records."""

import heapq
from collections import Counter

from kbroker.cli.consuming import Reader
from kbroker.cli.partitions import Partition
from kbroker.cli.record_format import ConsumedRecord

WIDER = 4  # factor by which it reads further back if a partition's last offsets have too few records


class Latest:
    """Keeps the `count` records with the largest timestamps. Owner: one `consume --tail`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._heap: list[tuple[int, str, int, int, ConsumedRecord]] = []

    def add(self, record: ConsumedRecord) -> None:
        """Topic, partition and offset order records of the same millisecond, and make the key
        unique."""
        entry = (record.timestamp, record.topic, record.partition, record.offset, record)
        if len(self._heap) < self.count:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def records(self) -> list[ConsumedRecord]:
        """The records in order of time."""
        return [entry[-1] for entry in sorted(self._heap)]


def last_records(reader: Reader, count: int) -> list[ConsumedRecord]:
    """The last `count` records of the partitions; starts to read that many offsets before their
    ends.

    If offsets have no record (compacted, transaction markers), it reads further back."""
    latest = Latest(count)
    found: Counter[Partition] = Counter()
    step = count
    while True:
        for records in reader:
            for record in records:
                found[record.topic, record.partition] += 1
                latest.add(record)
        short = [
            partition
            for partition, first in reader.first.items()
            if found[partition] < count and first > reader.log_starts[partition]
        ]
        if not short or reader.stopped:
            return latest.records()
        step *= WIDER
        ends = {partition: reader.first[partition] for partition in short}
        first = {partition: max(end - step, reader.log_starts[partition]) for partition, end in ends.items()}
        reader.read_from(first, ends)


def count_records(reader: Reader) -> tuple[Counter[Partition], int]:
    """Read every record; returns (records of each partition, bytes of keys and values)."""
    counts: Counter[Partition] = Counter(dict.fromkeys(reader.first, 0))
    size = 0
    for records in reader:
        for record in records:
            counts[record.topic, record.partition] += 1
            size += len(record.value or b"") + len(record.key or b"")
    return counts, size
