"""Contents of the files beside a `.log`: indexes (checked against the log), snapshots, checkpoints.
Read-only."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbroker.cli.segment_dump import Item, problem, view_of
from kbroker.config.counts import counted
from kbroker.config.whole_numbers import whole_number
from kbroker.io.files import producer_snapshot
from kbroker.io.files.segment import OFFSET, TIME
from kbroker.log.errors import CorruptLog
from kbroker.log.files import LOG, base_offset_of
from kbroker.log.transaction_index import parse_entries
from kbroker.log.walk import batches_of
from kbroker.protocol.records import RecordBatch, read_records
from kbroker.protocol.schema import ProtocolError

Batches = dict[int, RecordBatch]


def dump_index(path: Path) -> Iterator[Item]:
    """Items of type index: offset and position. Checks that a batch with this last offset begins at
    the position."""
    base, entries = _entries(path, OFFSET)
    if not entries:
        yield {"type": "empty", "file": str(path)}
        return
    batches = _batches(path)
    for number, (relative, position) in enumerate(entries):
        offset = base + relative
        batch = batches.get(position)
        if batch is None:
            yield problem(path, f"entry {number}: no batch starts at position {position}")
        elif batch.last_offset != offset:
            yield problem(
                path, f"entry {number}: offset {offset}, but the batch there ends with {batch.last_offset}"
            )
        yield {"type": "index", "offset": offset, "position": position}


def dump_time_index(path: Path) -> Iterator[Item]:
    """Items of type timeindex: timestamp and offset. Checks that the batch with this last offset
    has the timestamp."""
    base, entries = _entries(path, TIME)
    if not entries:
        yield {"type": "empty", "file": str(path)}
        return
    by_last_offset = {batch.last_offset: batch for batch in _batches(path).values()}
    previous = -1
    for number, (timestamp, relative) in enumerate(entries):
        offset = base + relative
        batch = by_last_offset.get(offset)
        if batch is None:
            yield problem(path, f"entry {number}: no batch ends with offset {offset}")
        elif (largest := _largest_timestamp(batch)) != timestamp:
            yield problem(
                path, f"entry {number}: timestamp {timestamp}, but the batch's largest is {largest}"
            )
        if timestamp <= previous:
            yield problem(path, f"entry {number}: timestamp {timestamp} follows {previous}")
        previous = timestamp
        yield {"type": "timeindex", "timestamp": timestamp, "offset": offset}


def dump_txn_index(path: Path) -> Iterator[Item]:
    """Items of type txnindex, one for each aborted transaction."""
    try:
        for entry in parse_entries(path.read_bytes(), str(path)):
            yield {
                "type": "txnindex",
                "version": 0,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
    except CorruptLog as error:
        yield problem(path, str(error))


def dump_snapshot(path: Path) -> Iterator[Item]:
    """Items of type producer, one for each producer in the snapshot."""
    try:
        entries = producer_snapshot.decode(path.read_bytes())
    except producer_snapshot.CorruptSnapshot as error:
        yield problem(path, str(error))
        return
    for entry in entries:
        item: Item = {
            "type": "producer",
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.current_txn_first_offset
            if entry.current_txn_first_offset >= 0
            else None,
            "lastTimestamp": entry.last_timestamp,
        }
        for batch in entry.batches:
            item |= {
                "firstSequence": batch.base_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield item


def dump_checkpoint(path: Path) -> Iterator[Item]:
    """Items of the text files: leader epochs, offset checkpoints and `key: value` or `key=value`
    lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines:
        return  # Apache Kafka makes a checkpoint before it has anything to write to it
    if path.name.endswith("-checkpoint") and not (
        len(lines) > 1 and lines[0].isdigit() and lines[1].isdigit()
    ):
        raise CorruptLog("not a checkpoint: it begins with its version and the number of its lines")
    if path.name == "leader-epoch-checkpoint":
        rows = [line for line in lines[2:] if line.strip()]
        if len(rows) != int(lines[1]):
            yield problem(path, f"{counted(len(rows), 'entry', 'entries')}, {lines[1]} announced")
        for line in rows:
            epoch, start = _numbers(line, line.split(), 2)
            yield {"type": "epoch", "epoch": epoch, "startOffset": start}
    elif path.name.endswith("-checkpoint"):
        for line in lines[2:]:
            topic, *words = line.split() or [""]
            partition, offset = _numbers(line, words, 2)
            yield {"type": "checkpoint", "topic": topic, "partition": partition, "offset": offset}
    else:
        for line in lines:
            key, _, value = line.partition("=" if "=" in line else ":")
            if value and not line.startswith("#"):
                yield {"type": "property", "key": key.strip(), "value": value.strip()}


def _numbers(line: str, words: Sequence[str], count: int) -> list[int]:
    """The words as numbers. Raises CorruptLog, with the line, unless there are `count` numbers."""
    found = [number for word in words if (number := whole_number(word)) is not None]
    if len(words) != count or len(found) != count:
        raise CorruptLog(f"not a line of a checkpoint: {line[:80]!r}")
    return found


def _entries(path: Path, entry: struct.Struct) -> tuple[int, list[tuple[int, ...]]]:
    base = base_offset_of(path.name)
    if base is None:
        raise CorruptLog("the name of an index is its base offset in 20 digits and its suffix")
    size = entry.size
    data = path.read_bytes().rstrip(b"\0")  # a preallocated index ends with zeros, which are not entries
    if not data:
        return base, []
    data = data.ljust(-(-len(data) // size) * size, b"\0")
    return base, list(entry.iter_unpack(data))


def _batches(path: Path) -> Batches:
    """Batches of the segment beside an index, by position."""
    log = path.with_suffix(LOG)
    return {placed.position: placed.batch for placed in batches_of(view_of(log))}


def _largest_timestamp(batch: RecordBatch) -> int:
    try:
        return max((record.timestamp_ms for record in read_records(batch)), default=-1)
    except ProtocolError:
        return batch.max_timestamp
