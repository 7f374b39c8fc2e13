"""Contents of a `.log` file, batch by batch and record by record, as items to print. Read-only."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec.structs import asdict

from kbroker.config.counts import counted
from kbroker.log.errors import CorruptLog
from kbroker.log.files import base_offset_of, parse_folder
from kbroker.log.open_files import OpenFile
from kbroker.log.reader import SegmentView
from kbroker.log.walk import batches_of
from kbroker.protocol import batch_layout as layout
from kbroker.protocol.compression import Codec
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.record_types import RecordTypes, decode_record
from kbroker.protocol.records import Record, RecordBatch, read_marker, read_records_in_pieces
from kbroker.protocol.schema import ProtocolError, Struct

Item = dict[str, Any]
SHOWN_BYTES = 256 << 20
SHOWN_HEADERS = 1_000_000
"""Maximum of a record that is shown: a batch of a megabyte may hold a gigabyte."""
SEQUENCES = 1 << 31  # sequences wrap from 2^31 - 1 to 0

DECODABLE: Mapping[str, RecordTypes] = {
    "__consumer_offsets": CONSUMER_OFFSETS,
    "__transaction_state": TRANSACTION_STATE,
    "__share_group_state": SHARE_GROUP_STATE,
}


def record_types_of(path: Path) -> RecordTypes | None:
    """The record types of an internal topic's file, by the name of its folder; None for other
    topics."""
    folder = parse_folder(path.absolute().parent.name)
    return DECODABLE.get(folder.topic) if folder else None


def view_of(path: Path) -> SegmentView:
    """Open a `.log` file as the last segment of its log. Raises OSError, CorruptLog for an invalid
    name."""
    base = base_offset_of(path.name)
    if base is None:
        raise CorruptLog("the name of a segment is its base offset in 20 digits and .log")
    log = OpenFile(str(path))
    return SegmentView(base, log, log.size(), True)


def dump_segment(path: Path, *, records: bool, decode: bool) -> Iterator[Item]:
    """Items of type batch, record, problem. decode: decode keys and values of coordinators'
    topics."""
    view = view_of(path)
    types = record_types_of(path) if decode else None
    end = 0
    previous = view.base_offset - 1
    try:
        for placed in batches_of(view):
            batch = placed.batch
            end = placed.position + batch.size
            item = batch_item(batch, placed.position)
            yield item
            if not item["isvalid"]:
                yield problem(path, f"CRC of the batch at offset {batch.base_offset} does not match")
            if batch.base_offset <= previous:
                yield problem(path, f"offset {batch.base_offset} follows {previous}")
            previous = batch.last_offset
            if records and item["isvalid"]:
                yield from _record_items(path, batch, types)
    except CorruptLog as error:
        yield problem(path, str(error))
    if rest := view.end - end:
        with open(path, "rb") as file:
            file.seek(end)
            preallocated = not any(any(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))
        if preallocated:
            yield {"type": "preallocated", "bytes": rest}
        else:
            yield problem(path, f"{counted(rest, 'invalid byte')} at the end, from byte {end}")


def problem(path: Path, text: str) -> Item:
    """A problem: the dump ends with an error."""
    return {"type": "problem", "file": str(path), "problem": text}


def batch_item(batch: RecordBatch, position: int) -> Item:
    """Fields of a batch, in Kafka's names and order."""
    last_sequence = batch.base_sequence
    if batch.base_sequence >= 0:
        last_sequence = (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
    horizon = batch.attributes & layout.ATTRIBUTE_DELETE_HORIZON
    return {
        "type": "batch",
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.base_timestamp if horizon else None,
        "position": position,
        "timestampType": "LogAppendTime" if batch.has_log_append_time else "CreateTime",
        "timestamp": batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": _codec_name(batch.codec),
        "crc": batch.crc,
        "isvalid": batch.crc_is_valid,
    }


def _codec_name(codec: int) -> str:
    try:
        return Codec(codec).name.lower()
    except ValueError:
        return f"unknown {codec}"


def _record_items(path: Path, batch: RecordBatch, types: RecordTypes | None) -> Iterator[Item]:
    try:
        for record in read_records_in_pieces(batch, SHOWN_BYTES, SHOWN_HEADERS):
            yield _record_item(batch, record, types)
    except ProtocolError as error:
        yield problem(path, f"batch at offset {batch.base_offset}: {error}")


def _record_item(batch: RecordBatch, record: Record, types: RecordTypes | None) -> Item:
    delta = record.offset - batch.base_offset
    item: Item = {
        "type": "record",
        "offset": record.offset,
        "timestampType": "LogAppendTime" if batch.has_log_append_time else "CreateTime",
        "timestamp": record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": -1 if batch.base_sequence < 0 else (batch.base_sequence + delta) % SEQUENCES,
        "headers": [[name, None if value is None else _text(value)] for name, value in record.headers],
    }
    if batch.is_control:
        marker, coordinator_epoch = read_marker(batch)
        return item | {"endTxnMarker": marker.name, "coordinatorEpoch": coordinator_epoch}
    if types is not None and record.key is not None:
        key, value = cast(tuple[Any, Any], decode_record(types, record.key, record.value))
        kind = re.sub(r"Key$", "", type(key).__name__)
        shown = None if value is None else _plain(value)
        return item | {"recordType": kind, "key": _plain(key), "payload": shown}
    return item | {
        "key": None if record.key is None else _text(record.key),
        "payload": None if record.value is None else _text(record.value),
    }


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _plain(value: Any) -> Any:
    """A record's structs as dicts."""
    if isinstance(value, Struct):
        return {name: _plain(field) for name, field in asdict(value).items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
