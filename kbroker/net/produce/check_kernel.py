"""The checks that one produced batch must pass before it is appended, in Kafka's order.

Kafka: ProduceRequest.validateRecords, Partition.appendRecordsToLeader,
UnifiedLog.analyzeAndValidateRecords, LogValidator; DefaultRecord.readFrom for each record, since
every record of a batch is read before it is appended. `compressed_kernel` walks over compressed
ones. When a request has cost too much for one turn, the rest of its batches is checked later.
"""

from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.kernels.batch_header import whole_batch_of_any_format
from kbroker.kernels.codes import Code
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import (
    load_i8,
    load_i16_be,
    load_i32_be,
    load_i64_be,
    load_u32_be,
    store_i32_be,
    store_i64_be,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_varint, read_varint32
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add
from kbroker.net.produce.compressed_kernel import ZSTD, records_are_valid
from kbroker.net.rows import Context, ProduceVersion, Result
from kbroker.net.rows.connection_kernel import begin_turn, costs_too_much, spend
from kbroker.protocol import batch_layout as rb

# reasons to leave a batch to Python; the numbers are above all error codes
NEEDS_PYTHON = 1 << 20  # Python must decompress and check the records, or rewrite the batch
REFUSED = 1 << 21  # Python asks control about the transaction first, and then refuses with Result.ERROR
UNKNOWN_TOPIC = 1 << 22  # Python checks whether the producer may learn that the topic does not exist
CHECK_LATER = 1 << 23  # Python checks the batch after other connections had their turn

LAST_CODEC = 4
LONG_BYTES = 2 << 20  # a batch of more is walked through by a thread, piece by piece
FOREVER = (1 << 63) - 1

# outcomes of a walk over records
WALK_VALID = 0
WALK_BROKEN = 1  # the records contradict the header
WALK_REFUSED = 2  # a timestamp out of range or a missing key: the records have errors of their own
WALK_DAMAGED = 3  # a size of more than 5 bytes: Kafka has no error of its own for it


@inlined
def check_single(address: int, length: int, version: int) -> int:
    """Exactly one batch of magic 2 and an allowed codec; ``length`` -1: null records."""
    if length < 0:
        return Code.UNKNOWN_SERVER_ERROR
    size = whole_batch_of_any_format(address, length)
    if size < 0:
        return Code.CORRUPT_MESSAGE
    if size == 0 or load_i8(address + rb.MAGIC) != rb.MAGIC_V2:
        return Code.INVALID_RECORD
    codec = load_i8(address + rb.ATTRIBUTES + 1) & rb.ATTRIBUTE_CODEC_MASK if size >= rb.HEADER_BYTES else 0
    if version < ProduceVersion.ZSTD and codec == ZSTD:
        return Code.UNSUPPORTED_COMPRESSION_TYPE
    more = whole_batch_of_any_format(address + size, length - size)
    if more != 0:
        return Code.CORRUPT_MESSAGE if more < 0 else Code.INVALID_RECORD
    return Code.NONE


@inlined
def check_slot(slot: int, generation: int) -> int:
    """Whether the partition takes appends now. slot: address of its row.

    min.insync.replicas is not checked: Kafka takes the number of replicas where that is lower, and
    there is one.
    """
    state = get(slot, Slot.STATE)
    if get(slot, Slot.GENERATION) != generation:
        return Code.NOT_LEADER_OR_FOLLOWER
    if state != SlotState.ONLINE:
        if state == SlotState.OFFLINE:
            return Code.KAFKA_STORAGE_ERROR
        return Code.UNKNOWN_TOPIC_OR_PARTITION if state == SlotState.DELETED else Code.NOT_LEADER_OR_FOLLOWER
    return Code.NONE


@inlined
def check_batch(cx: int, slot: int, address: int, size: int) -> int:
    """Size, CRC, counts, codec, timestamps and keys of one batch: NONE, an error, or
    NEEDS_PYTHON."""
    spend(cx, size)
    if size >= rb.HEADER_BYTES and load_i64_be(address + rb.BASE_OFFSET) != 0:
        return Code.INVALID_RECORD
    if size > get(slot, Slot.MAX_MESSAGE_BYTES):
        return Code.MESSAGE_TOO_LARGE
    if size < rb.HEADER_BYTES or load_u32_be(address + rb.CRC) != crc32c_at(
        address + rb.ATTRIBUTES, size - rb.ATTRIBUTES
    ):
        return Code.CORRUPT_MESSAGE
    attributes = load_i16_be(address + rb.ATTRIBUTES)
    codec = attributes & rb.ATTRIBUTE_CODEC_MASK
    if codec > LAST_CODEC:
        return Code.UNKNOWN_SERVER_ERROR
    delta = load_i32_be(address + rb.LAST_OFFSET_DELTA)
    count = load_i32_be(address + rb.RECORD_COUNT)
    if count <= 0 or delta + 1 != count or attributes & rb.ATTRIBUTE_CONTROL:
        return Code.INVALID_RECORD
    if load_i64_be(address + rb.PRODUCER_ID) >= 0 and load_i32_be(address + rb.BASE_SEQUENCE) < 0:
        return Code.INVALID_RECORD
    target = get(slot, Slot.COMPRESSION)
    rewritten = (target != Slot.ANY_CODEC and target != codec) or attributes & rb.ATTRIBUTE_LOG_APPEND_TIME
    if rewritten or size > LONG_BYTES:
        return NEEDS_PYTHON
    return _check_records(cx, slot, address, size, codec)


@inlined
def _check_records(cx: int, slot: int, address: int, size: int, codec: int) -> int:
    flags = get(slot, Slot.FLAGS)
    compacted = flags & SlotFlag.COMPACTED != 0
    oldest = -FOREVER
    newest = FOREVER
    if flags & SlotFlag.LOG_APPEND_TIME == 0:
        now = get(cx, Context.NOW_MS)
        before = get(slot, Slot.TIMESTAMP_BEFORE_MAX_MS)
        after = get(slot, Slot.TIMESTAMP_AFTER_MAX_MS)
        oldest = now - before if before < FOREVER - now else -FOREVER
        newest = now + after if after < FOREVER - now else FOREVER
    if codec != 0:
        if not records_are_valid(cx, address, size, codec, compacted, oldest, newest):
            return NEEDS_PYTHON
    else:
        outcome = walk_records(cx, address, size, compacted, oldest, newest)
        if outcome == WALK_BROKEN:
            return Code.INVALID_RECORD
        if outcome == WALK_DAMAGED:
            return Code.UNKNOWN_SERVER_ERROR
        if outcome != WALK_VALID:
            return NEEDS_PYTHON
    largest = get(cx, Context.WALK_MAX_TIMESTAMP)
    if largest != load_i64_be(address + rb.MAX_TIMESTAMP):
        store_i64_be(address + rb.MAX_TIMESTAMP, largest)
        store_i32_be(address + rb.CRC, crc32c_at(address + rb.ATTRIBUTES, size - rb.ATTRIBUTES))
    return Code.NONE


@inlined
def _skip_field(position: int, end: int) -> int:
    """Position after a field: a varint length and its bytes (none when negative). -1: they do not
    fit."""
    size, position = read_varint32(position, end)
    if position < 0 or size > end - position:
        return -1
    return position + size if size > 0 else position


@inlined
def _skip_headers(position: int, end: int) -> int:
    count, position = read_varint32(position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1
    for _ in range(count):
        size, position = read_varint32(position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        position = _skip_field(position + size, end)
        if position < 0:
            return -1
    return position


@inlined
def walk_records(cx: int, address: int, length: int, need_keys: bool, oldest: int, newest: int) -> int:
    """Check the records of the batch at an address; sets Context.WALK_MAX_TIMESTAMP (-1 when no
    record has one).

    oldest, newest: the timestamps allowed; -1 (no timestamp) always is.
    """
    position = address + rb.RECORDS
    end = address + length
    base = load_i64_be(address + rb.BASE_TIMESTAMP)
    count = load_i32_be(address + rb.RECORD_COUNT)
    largest = -1
    outcome = WALK_VALID
    for _ in range(count):
        start = position
        size, position = read_varint32(start, end)
        if position < 0 and end - start >= 5:
            return WALK_DAMAGED
        if position < 0 or size < 1 or size > end - position:
            return WALK_BROKEN
        stop = position + size
        delta, position = read_varint(position + 1, stop)
        if position < 0:
            return WALK_BROKEN
        timestamp = base + delta
        largest = max(largest, timestamp)
        if timestamp != -1 and (timestamp < oldest or timestamp > newest):
            outcome = WALK_REFUSED
        _, position = read_varint32(position, stop)
        if position < 0:
            return WALK_BROKEN
        key, position = read_varint32(position, stop)
        if position < 0 or key > stop - position:
            return WALK_BROKEN
        if key > 0:
            position += key
        elif key < 0 and need_keys:
            outcome = WALK_REFUSED
        position = _skip_field(position, stop)
        if position < 0:
            return WALK_BROKEN
        position = _skip_headers(position, stop)
        if position != stop:
            return WALK_BROKEN
    if position != end:
        return WALK_BROKEN
    put(cx, Context.WALK_MAX_TIMESTAMP, largest)
    return outcome


@inlined
def is_transactional(address: int, size: int) -> bool:
    """Whether a batch of any format is part of a transaction. size: 0 for a part of a batch."""
    return (
        size >= rb.HEADER_BYTES
        and load_i8(address + rb.MAGIC) == rb.MAGIC_V2
        and load_i8(address + rb.ATTRIBUTES + 1) & rb.ATTRIBUTE_TRANSACTIONAL != 0
    )


@inlined
def is_of_transactional_producer(address: int, size: int) -> bool:
    """Whether a batch is transactional (see `is_transactional`) and has a producer id."""
    return is_transactional(address, size) and load_i64_be(address + rb.PRODUCER_ID) >= 0


@inlined
def is_without_log_start(error: int) -> bool:
    """Whether Kafka answers an error without the log start offset, though it knows the
    partition."""
    return (
        error == Code.CORRUPT_MESSAGE
        or error == Code.UNKNOWN_TOPIC_OR_PARTITION
        or error == Code.NOT_LEADER_OR_FOLLOWER
        or error == Code.MESSAGE_TOO_LARGE
        or error == Code.KAFKA_STORAGE_ERROR
    )


@inlined
def check_result(cx: int, row: int, slot: int, length: int) -> int:
    """NONE, an error, NEEDS_PYTHON, REFUSED or CHECK_LATER for the batch of a result. row, slot:
    addresses of their rows. length: of the records that came, in bytes."""
    if costs_too_much(cx):
        return CHECK_LATER
    address = get(cx, Context.ARENA) + get(row, Result.ADDRESS)
    size = get(row, Result.LENGTH)
    error = check_batch(cx, slot, address, size)
    if error == Code.MESSAGE_TOO_LARGE:
        add(get(cx, Context.METRICS) + 8 * ml.REJECTED_BYTES, length)
    if error == Code.NONE or error == NEEDS_PYTHON or not is_of_transactional_producer(address, size):
        return error
    put(row, Result.ERROR, error)  # as in Kafka, which checks a batch once its partition has joined
    return REFUSED


@kernel("int64(int64, int64)")
def late_check_result(cx: int, result: int) -> int:
    """Check the batch of a result that was CHECK_LATER, as `check_result`, but never
    CHECK_LATER."""
    begin_turn(cx)
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    slot = get(cx, Context.SLOTS) + get(row, Result.SLOT) * Slot.STRIDE
    error = check_slot(slot, get(row, Result.GENERATION))
    if error == Code.NONE:
        error = check_result(cx, row, slot, get(row, Result.LENGTH))
    if is_without_log_start(error):
        put(row, Result.LOG_START, -1)
    return error
