"""Checks of one produced batch that the kernel leaves to Python: compression, schemas, and records
with errors of their own.

Rules and texts of Kafka's LogValidator. Runs in: network; pure.
"""

import struct
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.schema_rules import SchemaRules, unpacked
from kbroker.kernels.crc32c import crc32c
from kbroker.kernels.memory import INT64_MAX
from kbroker.net.produce.record_stream import Head, counted, heads, sizes
from kbroker.net.produce.record_walk import ANY_LENGTH, AT_ONCE_BYTES, Demands, TooLong, WalkResult, walk
from kbroker.net.produce.schema_checks import SchemaDemand, faults
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import PIECE_BYTES, Codec, pieces
from kbroker.protocol.crc32c import crc32c as crc32c_of_pieces
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import RecordBatch, read_batches
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.streamed_compression import TooLarge, compress_pieces

NO_TIMESTAMP = -1
SHOWN_ERRORS = 3
MANY_RECORDS = 10_000  # Python checks them in some 50 milliseconds
AT_ONCE_RECORDS = 100  # maximum records whose schemas the loop looks up: a fifth of a millisecond
MAX_ERRORS = 10_000  # that an answer names
MAX_RECORDS = 1_000_000  # that are checked for errors of their own


class Rules(Struct, frozen=True):
    """Rules of the partition, from its slot. target: the codec of all batches, or Slot.ANY_CODEC;
    level: the codec's level; schemas: those that records must name."""

    partition: str
    compacted: bool
    log_append_time: bool
    before_max_ms: int
    after_max_ms: int
    max_message_bytes: int
    target: int
    level: int
    schemas: SchemaRules | None = None

    @classmethod
    def of_slot(cls, partition: str, slot: list[int]) -> "Rules":
        """partition: topic-partition, as texts name it. slot: the words of its row."""
        flags = slot[Slot.FLAGS]
        target, schemas = unpacked(slot[Slot.COMPRESSION])
        return cls(
            partition,
            bool(flags & SlotFlag.COMPACTED),
            bool(flags & SlotFlag.LOG_APPEND_TIME),
            slot[Slot.TIMESTAMP_BEFORE_MAX_MS],
            slot[Slot.TIMESTAMP_AFTER_MAX_MS],
            slot[Slot.MAX_MESSAGE_BYTES],
            target,
            slot[Slot.COMPRESSION_LEVEL],
            schemas,
        )

    def codec_for(self, batch: RecordBatch) -> int:
        """The codec that a batch is stored in."""
        return batch.codec if self.target == Slot.ANY_CODEC else self.target


class ValidationResult(Struct, frozen=True):
    """error NONE: append ``data``, or the unchanged batch if it is None. Otherwise the fields of
    the answer."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    data: bytes | None = None


def check(
    batch_bytes: bytes | memoryview,
    rules: Rules,
    now_ms: int,
    at_once: bool = False,
    demand: SchemaDemand | None = None,
    max_bytes: int = ANY_LENGTH,
) -> ValidationResult:
    """Check every record of one batch whose header the kernel has checked. Raises TooLong; at_once:
    when that would delay the event loop; max_bytes: when it would delay other long batches. demand:
    the schemas that its records must name. A batch in the arena, of which only the header changes,
    is changed there."""
    batch = next(read_batches(batch_bytes, check_crc=False))
    if at_once and (
        rules.codec_for(batch) != batch.codec or (demand is not None and batch.record_count > AT_ONCE_RECORDS)
    ):
        raise TooLong
    demands = _demands(batch, rules, now_ms)
    found = walk(batch, batch.data[rb.RECORDS :], demands, AT_ONCE_BYTES if at_once else max_bytes)
    if found.error:
        return ValidationResult(found.error)
    if batch.has_log_append_time:  # then that is the time of all of them
        found = replace(found, largest=batch.max_timestamp)
    has_faults = found.refused or batch.has_log_append_time
    if (has_faults or demand is not None) and batch.record_count > MANY_RECORDS and max_bytes < ANY_LENGTH:
        raise TooLong
    if has_faults:
        validation = _refused(batch, rules, now_ms)
        if validation is not None:
            return validation
    if demand is not None and (validation := _unregistered(batch, demand)) is not None:
        return validation
    return _rewritten(batch, found, rules)


def _demands(batch: RecordBatch, rules: Rules, now_ms: int) -> Demands:
    """Requirements for the records of a batch. If a compressed batch stays as it is, Kafka requires
    consecutive offsets, and skips keys and values
    (LogValidator.validateMessagesAndAssignOffsetsCompressed)."""
    codec = rules.codec_for(batch)
    any_time = rules.log_append_time or batch.has_log_append_time
    return Demands(
        oldest=-INT64_MAX if any_time else max(now_ms - rules.before_max_ms, -INT64_MAX),
        newest=INT64_MAX if any_time else min(now_ms + rules.after_max_ms, INT64_MAX),
        need_keys=rules.compacted,
        ordered=batch.codec == codec != Codec.NONE,
        sized=batch.codec == Codec.NONE or codec != batch.codec or rules.schemas is not None,
    )


def _refused(batch: RecordBatch, rules: Rules, now_ms: int) -> ValidationResult | None:
    """The errors of single records of a batch; None if there are none. Of very many records
    or errors only the first ones are listed, which bounds the answer."""
    errors: list[tuple[int, ErrorCode, str]] = []
    try:
        for index, (head, key_and_value) in enumerate(_sized_heads(batch, rules)):
            fault = _fault(head, key_and_value, batch, rules, now_ms)
            if fault is not None:
                errors.append((index, *fault))
            if len(errors) >= MAX_ERRORS or index >= MAX_RECORDS:
                return _refusal(errors) if errors else ValidationResult(ErrorCode.INVALID_RECORD)
    except ProtocolError:
        return ValidationResult(ErrorCode.INVALID_RECORD)
    return _refusal(errors) if errors else None


def _sized_heads(batch: RecordBatch, rules: Rules) -> Iterator[tuple[Head, tuple[int, int]]]:
    """The head of each record, and the sizes of its key and value if an error names them."""
    if batch.has_log_append_time and (rules.log_append_time or batch.max_timestamp == NO_TIMESTAMP):
        yield from zip(heads(batch), sizes(batch), strict=True)
    else:
        for head in heads(batch):
            yield head, (0, 0)


def _unregistered(batch: RecordBatch, demand: SchemaDemand) -> ValidationResult | None:
    """The records that do not name a schema registered for them; None if there are none."""
    if batch.record_count > MAX_RECORDS:
        text = f"The batch has more than {MAX_RECORDS} records: too many for the schema checks of the topic"
        return ValidationResult(ErrorCode.INVALID_RECORD, text)
    errors: list[tuple[int, ErrorCode, str]] = []
    try:
        for index, fault in faults(batch, demand):
            if fault is not None:
                errors.append((index, ErrorCode.INVALID_RECORD, fault))
                if len(errors) >= MAX_ERRORS:
                    break
    except ProtocolError:
        return ValidationResult(ErrorCode.INVALID_RECORD)
    return _refusal(errors) if errors else None


def _fault(
    head: Head, key_and_value: tuple[int, int], batch: RecordBatch, rules: Rules, now_ms: int
) -> tuple[ErrorCode, str] | None:
    if rules.compacted and not head.has_key:
        text = f"Compacted topic cannot accept message without key in topic partition {rules.partition}"
        return ErrorCode.INVALID_RECORD, text
    offset = batch.base_offset + head.offset_delta
    timestamp = (
        batch.max_timestamp if batch.has_log_append_time else batch.base_timestamp + head.timestamp_delta
    )
    if not rules.log_append_time and timestamp != NO_TIMESTAMP:
        age = now_ms - timestamp
        if age > rules.before_max_ms or -age > rules.after_max_ms:
            oldest, newest = _java_long(now_ms - rules.before_max_ms), _java_long(now_ms + rules.after_max_ms)
            return ErrorCode.INVALID_TIMESTAMP, (
                f"Timestamp {timestamp} of message with offset {offset} is out of range. "
                f"The timestamp should be within [{oldest}, {newest}]"
            )
    elif batch.has_log_append_time:
        kind, (key, value) = "PartialDefaultRecord", key_and_value
        if not batch.codec == rules.codec_for(batch) != Codec.NONE:  # Kafka reads keys and values, too
            kind, key, value = "DefaultRecord", max(key, 0), max(value, 0)
        return ErrorCode.INVALID_TIMESTAMP, (
            f"Invalid timestamp type in message {kind}(offset={offset}, timestamp={timestamp}, key={key} bytes, "
            f"value={value} bytes). Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _refusal(errors: list[tuple[int, ErrorCode, str]]) -> ValidationResult:
    found = tuple((index, text) for index, _, text in errors)
    if any(code == ErrorCode.INVALID_TIMESTAMP for _, code, _ in errors):
        text = "One or more records have been rejected due to invalid timestamp"
        return ValidationResult(ErrorCode.INVALID_TIMESTAMP, text, found)
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message={text!r})" for index, text in found[:SHOWN_ERRORS]
    )
    text = (
        f"One or more records have been rejected due to {len(found)} record errors in total, and only showing "
        f"the first three errors at most: [{shown}]"
    )
    return ValidationResult(ErrorCode.INVALID_RECORD, text, found)


def _rewritten(batch: RecordBatch, found: WalkResult, rules: Rules) -> ValidationResult:
    """The batch with the topic's codec and a changed header."""
    codec = rules.codec_for(batch)
    attributes = (batch.attributes & ~rb.ATTRIBUTE_CODEC_MASK & ~rb.ATTRIBUTE_LOG_APPEND_TIME) | codec
    if codec != batch.codec:  # Kafka builds the batch again, without a delete horizon or unknown bits
        if batch.producer_id >= 0 > batch.producer_epoch:
            return ValidationResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        attributes = (batch.attributes & rb.ATTRIBUTE_TRANSACTIONAL) | codec
    if attributes == batch.attributes and found.largest == batch.max_timestamp:
        return ValidationResult()
    if attributes == batch.attributes and not batch.data.readonly:
        _set_largest(batch.data, found.largest)
        return ValidationResult()
    body = bytes(batch.data[rb.RECORDS :])
    if codec != batch.codec:
        plain = counted(batch) if found.disordered else pieces(batch.codec, body)
        try:
            body = bytes(compress_pieces(codec, plain, rules.level, rules.max_message_bytes))
        except TooLarge:
            return ValidationResult(ErrorCode.MESSAGE_TOO_LARGE)
    out = bytearray(batch.data[: rb.RECORDS]) + body
    if len(out) > rules.max_message_bytes:
        return ValidationResult(ErrorCode.MESSAGE_TOO_LARGE)
    struct.pack_into(">i", out, rb.LENGTH, len(out) - rb.LENGTH_OVERHEAD)
    struct.pack_into(">h", out, rb.ATTRIBUTES, attributes)
    struct.pack_into(">q", out, rb.MAX_TIMESTAMP, found.largest)
    struct.pack_into(">I", out, rb.CRC, crc32c(memoryview(out)[rb.ATTRIBUTES :]))
    return ValidationResult(data=bytes(out))


def _set_largest(batch: memoryview, largest: int) -> None:
    struct.pack_into(">q", batch, rb.MAX_TIMESTAMP, largest)
    crc = 0
    for start in range(rb.ATTRIBUTES, len(batch), PIECE_BYTES):
        crc = crc32c_of_pieces(batch[start : start + PIECE_BYTES], crc)
    struct.pack_into(">I", batch, rb.CRC, crc)


def _java_long(value: int) -> int:
    """A sum that wraps around, as Java's long does."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
