"""Filters batches that kernels leave to Python: compressed ones, and those of transactions."""

import logging
import struct
from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.cleaner import key_map_kernel as km
from kbroker.cleaner import retain_kernel as rk
from kbroker.cleaner.offset_map import OffsetMap
from kbroker.cleaner.rows import CleanStop, Retain
from kbroker.cleaner.transactions import CleanedTransactions
from kbroker.kernels.crc32c import crc32c
from kbroker.log.errors import CorruptLog
from kbroker.log.walk import parse_batch
from kbroker.protocol import batch_layout as b
from kbroker.protocol.compression import TooLong, compress, decompress
from kbroker.protocol.records import HEADER, RecordBatch, read_records
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

MAX_PLAIN_BYTES: Final = 128 << 20
CONTROL_KEY = struct.Struct(">hh")
Words = NDArray[np.int64]


def map_special(data: memoryview, offset_map: OffsetMap, transactions: CleanedTransactions) -> bool:
    """Enter one batch into an offset map, unless it was aborted; False if the map is full. Raises
    CorruptLog."""
    batch = parse_batch(data, 0)
    if batch.is_control:
        transactions.may_discard_marker(batch.producer_id, marker_type(batch), batch.last_offset)
    elif not transactions.is_aborted(batch.producer_id, batch.is_transactional, batch.last_offset):
        plain = _plain(batch)
        if plain is not None:
            section = np.frombuffer(plain, np.uint8)
            found = km.map_records(
                *(int(section.ctypes.data), len(section), batch.record_count),
                *(batch.base_offset, batch.last_offset_delta),
                *(offset_map.table, offset_map.state),
            )
            if found == CleanStop.FULL:
                return False
            if found == CleanStop.DAMAGED:
                raise CorruptLog(f"records of the batch at offset {batch.base_offset} are damaged")
    offset_map.raise_latest(batch.last_offset)
    return True


class SpecialFilter(Struct):
    """Filters one batch after the other. Owner: the cleaning of one log.

    words: of the kernels, for time, end and counts. last_records: see CleaningJob.last_by_producer.
    flags: grows as needed."""

    offset_map: OffsetMap
    transactions: CleanedTransactions
    words: Words
    last_records: Mapping[int, tuple[int, int]]

    def filter(self, data: memoryview) -> bytes | memoryview | None:
        """The remaining part of a batch: unchanged, smaller, empty, or None. Raises CorruptLog."""
        batch = parse_batch(data, 0)
        horizon = batch.base_timestamp if batch.attributes & b.ATTRIBUTE_DELETE_HORIZON else rk.NO_HORIZON
        now = int(self.words[Retain.NOW])
        marker_only = False
        if batch.is_control:
            marker_only = self.transactions.may_discard_marker(
                batch.producer_id, marker_type(batch), batch.last_offset
            )
            discard = marker_only and horizon != rk.NO_HORIZON and horizon <= now
        else:
            discard = self.transactions.is_aborted(
                batch.producer_id, batch.is_transactional, batch.last_offset
            )
        if not discard and batch.record_count:
            plain = _plain(batch)
            flags = None if plain is None else self._decide(batch, plain)
            if plain is None or flags is None:
                return data
            if self.words[Retain.KEPT]:
                tombstones = marker_only or bool(self.words[Retain.TOMBSTONES])
                deleted_from = int(self.words[Retain.NEW_HORIZON])
                new_horizon = deleted_from if tombstones and horizon == rk.NO_HORIZON else rk.NO_HORIZON
                if self.words[Retain.KEPT] == batch.record_count and new_horizon == rk.NO_HORIZON:
                    return data
                return self._rewrite(batch, plain, flags, new_horizon)
        self.words[Retain.CHANGED] += batch.size != b.HEADER_BYTES
        if self._must_be_empty(batch):
            return _empty(batch)
        self.words[Retain.CHANGED] += batch.size == b.HEADER_BYTES
        return None

    def _decide(self, batch: RecordBatch, plain: bytes | memoryview) -> NDArray[np.uint8] | None:
        """Flags of the records that stay; None if the batch stays unchanged."""
        if batch.is_control:
            self.words[Retain.KEPT], self.words[Retain.TOMBSTONES] = batch.record_count, 0
            self.words[Retain.MAX_TIMESTAMP] = batch.max_timestamp
            self.words[Retain.RECORDS_READ] += batch.record_count
            self.words[Retain.RECORDS_KEPT] += batch.record_count
            return np.ones(batch.record_count, np.uint8)
        section, flags = np.frombuffer(plain, np.uint8), np.empty(batch.record_count, np.uint8)
        found = rk.decide(
            np.frombuffer(batch.data, np.uint8).ctypes.data,
            section.ctypes.data,
            len(section),
            flags,
            self.offset_map.table,
            self.offset_map.state,
            self.words,
        )
        if found == CleanStop.DAMAGED:
            raise CorruptLog(f"records of the batch at offset {batch.base_offset} are damaged")
        return None if found == CleanStop.UNORDERED else flags

    def _rewrite(
        self, batch: RecordBatch, plain: bytes | memoryview, flags: NDArray[np.uint8], new_horizon: int
    ) -> bytes:
        self.words[Retain.CHANGED] += 1
        section = np.frombuffer(plain, np.uint8)
        target = np.empty(len(section) + rk.MAX_GROWTH * batch.record_count, np.uint8)
        attributes, base_timestamp = batch.attributes, batch.base_timestamp
        if new_horizon != rk.NO_HORIZON:
            attributes, base_timestamp = attributes | b.ATTRIBUTE_DELETE_HORIZON, new_horizon
        length = rk.copy_records(
            *(int(section.ctypes.data), len(section), batch.record_count, flags),
            *(batch.base_timestamp - base_timestamp, int(target.ctypes.data)),
        )
        max_timestamp = (
            batch.max_timestamp if batch.has_log_append_time else int(self.words[Retain.MAX_TIMESTAMP])
        )
        packed = compress(batch.codec, target[:length].tobytes())
        fields = attributes, batch.last_offset_delta, base_timestamp, max_timestamp
        return _seal(batch, fields, int(self.words[Retain.KEPT]), packed)

    def _must_be_empty(self, batch: RecordBatch) -> bool:
        """Whether an empty batch stays as a header: the last batch of an active producer keeps
        sequence and epoch, the last batch of the group of segments keeps the offset."""
        if self.words[Retain.POSITION] + batch.size == self.words[Retain.KEEP_END]:
            return True
        if batch.producer_id < 0 or batch.producer_id not in self.last_records:
            return False
        last_offset, epoch = self.last_records[batch.producer_id]
        if last_offset >= 0:
            return batch.last_offset == last_offset
        return batch.is_control and batch.producer_epoch == epoch


def marker_type(batch: RecordBatch) -> int | None:
    """Type of a control batch's record; None if the batch is empty. Raises CorruptLog."""
    if batch.record_count == 0:
        return None
    try:
        key = next(read_records(batch)).key
    except ProtocolError as error:
        raise CorruptLog(f"the control batch at offset {batch.base_offset}: {error}") from error
    if key is None or len(key) < CONTROL_KEY.size:
        raise CorruptLog(f"the control batch at offset {batch.base_offset} has no type")
    return int(CONTROL_KEY.unpack_from(key)[1])


def _plain(batch: RecordBatch) -> bytes | memoryview | None:
    """The plain records section; None if it is too long to be decompressed: such a batch stays
    unchanged."""
    try:
        return decompress(batch.codec, batch.data[b.RECORDS :], MAX_PLAIN_BYTES)
    except TooLong:
        log.warning("offset %d: a batch of more than %d bytes stays", batch.base_offset, MAX_PLAIN_BYTES)
        return None
    except ProtocolError as error:
        raise CorruptLog(f"the batch at offset {batch.base_offset}: {error}") from error


def _empty(batch: RecordBatch) -> bytes:
    target, source = np.empty(b.HEADER_BYTES, np.uint8), np.frombuffer(batch.data, np.uint8)
    rk.write_empty(int(source.ctypes.data), int(target.ctypes.data))
    return target.tobytes()


def _seal(batch: RecordBatch, fields: tuple[int, int, int, int], count: int, packed: bytes) -> bytes:
    """A batch with the header of the original. fields: attributes, last offset delta, base and
    maximum timestamp. count: of its records."""
    producer = batch.producer_id, batch.producer_epoch, batch.base_sequence
    head = batch.base_offset, b.HEADER_BYTES - b.LENGTH_OVERHEAD + len(packed), batch.partition_leader_epoch
    out = bytearray(HEADER.pack(*head, b.MAGIC_V2, 0, *fields, *producer, count) + packed)
    struct.pack_into(">I", out, b.CRC, crc32c(bytes(out[b.ATTRIBUTES :])))
    return bytes(out)
